// SPDX-License-Identifier: Apache-2.0
#include "lib/job/devices.h"

#include <atomic>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/base/machine/os_limits.h"
#include "lib/store/memory_with_caches.h"
#include "transport/multi/multi.h"
#include "transport/net/own_address.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "weir_features.h"

#if WEIR_HAVE_VERBS
#include "transport/verbs/verbs.h"
#endif

namespace weir {

using transport::Access;
using transport::Device;
using transport::MemoryPool;
using transport::PoolOptions;

namespace {

/// Room in a message beside WEIR_EAGER_BYTES: for the header, handles, and control messages.
constexpr uint32_t kHeadBytes = 4096;

/// Where verbs takes ports from WEIR_PORT on, tcp begins so many above.
constexpr uint16_t kTcpPortsAbove = 1000;

/// A pool as tables and requests see it.
class PoolMemory final : public Memory {
public:
    /// `reports`: use() gives the registered bytes of the whole pool.
    PoolMemory(MemoryPool& pool, bool reports, std::shared_ptr<Devices> keep) noexcept
        : pool_(pool), reports_(reports), keep_(std::move(keep)) {}

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        const Result<std::byte*> memory = pool_.allocate({bytes, alignment, true});
        if (!memory) {
            // Warn once: while caches make room, the same error comes again and again.
            const bool is_logged = shortage_is_logged_.exchange(true, std::memory_order_relaxed);
            log(is_logged ? LogLevel::kDebug : LogLevel::kWarning, "{}", memory.error().message());
            return nullptr;
        }
        used_bytes_.fetch_add(bytes, std::memory_order_relaxed);  // a counter: orders nothing
        return *memory;
    }

    bool prepare(size_t bytes) noexcept override { return pool_.prepare(bytes); }

    void deallocate(std::byte* data, size_t bytes, size_t) noexcept override {
        pool_.deallocate(data);
        if (data != nullptr) used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    }

    [[nodiscard]] bool split(std::byte* data, size_t, size_t at) noexcept override {
        return pool_.split(data, at);
    }

    [[nodiscard]] MemoryUse use() const override {
        return {reports_ ? pool_.statistics().reserved_bytes : 0,
                used_bytes_.load(std::memory_order_relaxed)};
    }

    [[nodiscard]] uint64_t room_bytes() const override {
        const transport::PoolStatistics now = pool_.statistics();
        return available_memory_bytes() + now.backed_bytes - now.allocated_bytes;
    }

private:
    MemoryPool& pool_;
    bool reports_;
    std::atomic<uint64_t> used_bytes_ = 0;
    std::atomic<bool> shortage_is_logged_ = false;  ///< as a warning
    std::shared_ptr<Devices> keep_;
};

/// A pool of its own, from the first allocation on.
class LentMemory final : public Memory {
public:
    explicit LentMemory(Device& device) noexcept : device_(device) {}

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        std::call_once(made_, [&] { make_pool(); });
        return pool_ != nullptr ? pool_->allocate(bytes, alignment) : nullptr;
    }

    void deallocate(std::byte* data, size_t, size_t) noexcept override {
        if (data != nullptr) pool_->deallocate(data);
    }

private:
    static constexpr uint64_t kSlabBytes = uint64_t{64} << 20;
    static constexpr uint64_t kLimitBytes = uint64_t{512} << 20;

    void make_pool() {
        Device* const device = &device_;
        auto pool = MemoryPool::make({.name = "lent",
                                      .slab_bytes = kSlabBytes,
                                      .limit_bytes = kLimitBytes,
                                      .access = Access::kRemoteRead},
                                     std::span(&device, 1));
        if (pool) {
            pool_ = std::move(*pool);
        } else {
            log(LogLevel::kWarning, "copies get rows in messages, which is slower: {}",
                pool.error().message());
        }
    }

    Device& device_;
    std::once_flag made_;
    std::unique_ptr<MemoryPool> pool_;
};

class DeviceRegistrar final : public MemoryRegistrar {
public:
    DeviceRegistrar(Device& device, std::shared_ptr<Devices> keep) noexcept
        : device_(device), keep_(std::move(keep)) {}

    [[nodiscard]] Result<uint64_t> add(std::span<std::byte> memory) override {
        WEIR_ASSIGN(const uint64_t id, device_.register_memory({memory, -1, 0}, Access::kRemote));
        bytes_by_id_.emplace(id, memory.size());
        registered_bytes_ += memory.size();
        return id;
    }

    void remove(uint64_t id) override {
        device_.deregister_memory(id);
        const auto found = bytes_by_id_.find(id);
        if (found == bytes_by_id_.end()) return;
        registered_bytes_ -= found->second;
        bytes_by_id_.erase(found);
    }

    [[nodiscard]] uint64_t registered_bytes() const noexcept override { return registered_bytes_; }

private:
    Device& device_;
    std::shared_ptr<Devices> keep_;
    std::unordered_map<uint64_t, uint64_t> bytes_by_id_;
    uint64_t registered_bytes_ = 0;
};

/// The address that WEIR_BIND means, or "".
/// Errors: kInvalidArgument if it means none of this machine
Result<std::string> bind_address(const Config& config) {
    const std::string_view wanted = config.text("WEIR_BIND");
    if (wanted.empty()) return std::string();
    const Result<transport::SocketAddress> found = transport::find_own_address(wanted);
    if (found) return found->host();
    return Error(found.code(), fmt::format("WEIR_BIND is {}", found.error().text()));
}

/// What keeps verbs from being used, where WEIR_TRANSPORT asks for no other transport.
Error without_verbs(const Error& why) {
    if (why.code() != Errc::kUnavailable) return why;
    return {why.code(),
            fmt::format("WEIR_TRANSPORT=verbs: {}; without, unset WEIR_TRANSPORT, or set it to tcp "
                        "(or to shm, if all ranks are on this host)",
                        why.text()),
            why.os_error()};
}

#if WEIR_HAVE_VERBS
Result<std::unique_ptr<Device>> open_verbs(const Config& config, const transport::Secret& secret) {
    transport::verbs::DeviceOptions options;
    WEIR_ASSIGN(const uint64_t join_timeout_s, config.number("WEIR_JOIN_TIMEOUT_S"));
    options.handshake_ms_max = static_cast<uint32_t>(join_timeout_s * 1000);
    options.secret = secret;
    options.device = config.text("WEIR_RDMA_DEVICE");
    WEIR_ASSIGN(options.bind_address, bind_address(config));
    WEIR_ASSIGN(const std::optional<uint64_t> gid, config.optional_number("WEIR_RDMA_GID_INDEX"));
    if (gid) options.gid_index = static_cast<int>(*gid);
    WEIR_ASSIGN(const uint64_t service_level, config.number("WEIR_RDMA_SERVICE_LEVEL"));
    options.service_level = static_cast<uint8_t>(service_level);
    WEIR_ASSIGN(const uint64_t traffic_class, config.number("WEIR_RDMA_TRAFFIC_CLASS"));
    options.traffic_class = static_cast<uint8_t>(traffic_class);
    WEIR_ASSIGN(const uint64_t pkey_index, config.number("WEIR_RDMA_PKEY_INDEX"));
    options.pkey_index = static_cast<uint16_t>(pkey_index);
    WEIR_ASSIGN(const uint64_t port, config.number("WEIR_PORT"));
    options.port = static_cast<uint16_t>(port);
    WEIR_ASSIGN(const std::string connect_by, config.choice("WEIR_RDMA_CONNECT"));
    if (connect_by == "rdmacm") options.connect_by = transport::verbs::ConnectBy::kRdmaCm;
    return transport::verbs::make_device(options);
}
#else
Result<std::unique_ptr<Device>> open_verbs(const Config&, const transport::Secret&) {
    return Error(Errc::kUnavailable,
                 "this build has no verbs; install libibverbs-dev and build again");
}
#endif

/// `first_port_offset`: what is added to WEIR_PORT.
Result<std::unique_ptr<Device>> open_tcp(const Config& config, const transport::Secret& secret,
                                         uint16_t first_port_offset,
                                         const transport::SocketAddress& reached_at) {
    transport::tcp::DeviceOptions options;
    options.reached_at = reached_at;
    WEIR_ASSIGN(const uint64_t join_timeout_s, config.number("WEIR_JOIN_TIMEOUT_S"));
    options.handshake_ms_max = static_cast<uint32_t>(join_timeout_s * 1000);
    options.secret = secret;
    WEIR_ASSIGN(options.bind_address, bind_address(config));
    WEIR_ASSIGN(const uint64_t port, config.number("WEIR_PORT"));
    if (port != 0 && port + first_port_offset > 0xffff) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("WEIR_PORT is {}: the ports of tcp, which begin {} above it, go "
                                 "beyond 65535; choose a lower one",
                                 port, first_port_offset));
    }
    if (port != 0) options.port = static_cast<uint16_t>(port + first_port_offset);
    return transport::tcp::make_device(options);
}

}  // namespace

Result<transport::EndpointOptions> endpoint_options(const Config& config) {
    transport::EndpointOptions options;
    WEIR_ASSIGN(const uint64_t eager_bytes, config.number("WEIR_EAGER_BYTES"));
    options.message_bytes_max = kHeadBytes + static_cast<uint32_t>(eager_bytes);
    return options;
}

Result<std::shared_ptr<Devices>> Devices::open(const Config& config,
                                               const transport::Secret& secret, bool others,
                                               const transport::SocketAddress& reached_at) {
    WEIR_ASSIGN(const std::string wanted, config.choice("WEIR_TRANSPORT"));
    if (wanted == "auto") return open_wanted({true, others, others}, config, secret, reached_at);
    Result<std::shared_ptr<Devices>> devices = open_only(wanted, config, secret, reached_at);
    if (!devices && wanted == "verbs") return without_verbs(devices.error());
    return devices;
}

Result<std::shared_ptr<Devices>> Devices::open_only(std::string_view transport,
                                                    const Config& config,
                                                    const transport::Secret& secret,
                                                    const transport::SocketAddress& reached_at) {
    const Wanted wanted{transport == "shm", transport == "verbs", transport == "tcp"};
    return open_wanted(wanted, config, secret, reached_at);
}

Result<std::shared_ptr<Devices>> Devices::open_wanted(const Wanted& wanted, const Config& config,
                                                      const transport::Secret& secret,
                                                      const transport::SocketAddress& reached_at) {
    std::shared_ptr<Devices> devices(new Devices());
    std::vector<std::unique_ptr<Device>> children;  // the preferred ones first
    if (wanted.shm) {
        transport::shm::DeviceOptions options;
        options.secret = secret;
        WEIR_ASSIGN(const uint64_t join_timeout_s, config.number("WEIR_JOIN_TIMEOUT_S"));
        options.handshake_timeout_ns = join_timeout_s * kSecond;
        WEIR_ASSIGN(std::unique_ptr<Device> shm, transport::shm::make_device(options));
        children.push_back(std::move(shm));
    }
    bool has_verbs = false;
    if (wanted.verbs) {
        Result<std::unique_ptr<Device>> verbs = open_verbs(config, secret);
        has_verbs = verbs.has_value();
        if (has_verbs) {
            children.push_back(std::move(*verbs));
        } else if (!wanted.tcp) {
            return verbs.error();
        } else {
            log(LogLevel::kDebug, "no verbs: {}", verbs.error().message());
        }
    }
    if (wanted.tcp) {
        WEIR_ASSIGN(std::unique_ptr<Device> tcp,
                    open_tcp(config, secret, has_verbs ? kTcpPortsAbove : 0, reached_at));
        children.push_back(std::move(tcp));
    }
    for (const std::unique_ptr<Device>& child : children) {
        devices->names_ += devices->names_.empty() ? "" : ", ";
        devices->names_ += child->name();
        devices->has_shm_ = devices->has_shm_ || child->name() == "shm";
        ++devices->count_;
    }
    WEIR_ASSIGN(devices->device_, transport::combine(std::move(children)));
    devices->bind_address_ = config.text("WEIR_BIND");
    devices->first_port_ =
        fmt::format("{}={}", config.place("WEIR_PORT"), config.text("WEIR_PORT"));
    devices->lent_memory_ = std::make_unique<LentMemory>(*devices->device_);
    WEIR_ASSIGN(devices->endpoint_options_, endpoint_options(config));
    WEIR_ASSIGN(devices->worker_pool_options_,
                PoolOptions::from_config(config, "worker", Access::kRemote));
    return devices;
}

Devices::~Devices() = default;

Status Devices::make_store_pools(const Config& config, std::span<const int> nodes) {
    Device* const device = device_.get();
    WEIR_ASSIGN(PoolOptions options, PoolOptions::from_config(config, "store", Access::kLocal));
    for (const int node : nodes) {
        options.numa_node = node;
        if (nodes.size() > 1) options.name = fmt::format("store on node {}", node);
        WEIR_ASSIGN(std::unique_ptr<MemoryPool> pool,
                    MemoryPool::make(options, std::span(&device, 1)));
        store_pools_.push_back(std::move(pool));
    }
    return {};
}

Memory& Devices::store_memory(size_t pool) {
    if (store_memories_.size() < store_pools_.size()) store_memories_.resize(store_pools_.size());
    auto& memories = store_memories_[pool];
    const bool first = memories.empty();
    memories.push_back(std::make_unique<PoolMemory>(*store_pools_[pool], first, nullptr));
    return *memories.back();
}

Memory& Devices::lent_memory() noexcept {
    return *lent_memory_;
}

uint64_t Devices::store_room_bytes() {
    return available_memory_bytes();
}

size_t Devices::store_cache_bytes(size_t pool) const {
    return store_pools_[pool]->first_slab_bytes() / kCacheShare;
}

Result<std::unique_ptr<transport::Endpoint>> Devices::make_endpoint() {
    Result<std::unique_ptr<transport::Endpoint>> endpoint =
        device_->make_endpoint(endpoint_options_);
    // Of free ports there is always one.
    if (endpoint.code() == Errc::kAlreadyExists) {
        return Error(endpoint.code(), fmt::format("{}: {}", first_port_, endpoint.error().text()),
                     endpoint.error().os_error());
    }
    if (endpoint || bind_address_.empty() || endpoint.error().os_error() != EADDRNOTAVAIL)
        return endpoint;
    return Error(endpoint.code(), fmt::format("WEIR_BIND is {}, which is not an address of this "
                                              "machine: set it to one of those that `ip address` "
                                              "lists, or unset it",
                                              bind_address_));
}

std::string Devices::names() const {
    return names_;
}

Result<std::shared_ptr<Memory>> Devices::worker_pool(const std::shared_ptr<Devices>& devices) {
    const std::lock_guard lock(devices->mutex_);
    if (devices->worker_pool_ == nullptr) {
        Device* const device = devices->device_.get();
        WEIR_ASSIGN(devices->worker_pool_,
                    MemoryPool::make(devices->worker_pool_options_, std::span(&device, 1)));
    }
    const bool is_reported = std::exchange(devices->worker_pool_is_reported_, true);
    MemoryPool& pool = *devices->worker_pool_;
    return std::shared_ptr<Memory>(std::make_shared<PoolMemory>(pool, !is_reported, devices));
}

size_t Devices::worker_cache_bytes() const {
    const std::lock_guard lock(mutex_);
    return worker_pool_->first_slab_bytes() / kCacheShare;
}

std::shared_ptr<MemoryRegistrar> Devices::registrar(std::shared_ptr<Devices> devices) {
    Device& device = *devices->device_;
    return std::make_shared<DeviceRegistrar>(device, std::move(devices));
}

}  // namespace weir
