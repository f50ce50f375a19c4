// SPDX-License-Identifier: Apache-2.0
/// \file
/// Memory of a client that has ended while a server is about to write into it: over shm the server
/// itself writes into the client's memory, and closing the connection does not stop it.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/manager/manager.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/worker/client_core.h"
#include "lib/worker/client_state.h"
#include "lib/worker/table_access.h"
#include "tests/frames.h"
#include "tests/table_schemas.h"
#include "tests/wait_until.h"
#include "transport/pool/first_fit.h"
#include "transport/shm/shm.h"

namespace weir::test {
namespace {

using transport::ConnectionId;
using transport::Event;

constexpr uint64_t kTableKeys = 1 << 12;
constexpr size_t kBytes = kTableKeys * sizeof(double);
constexpr std::byte kLate{0x66};

/// One registered region that all clients of a process share: memory that was given back last is
/// handed out first.
class SharedPool final : public Memory {
public:
    explicit SharedPool(transport::Device& device) : device_(device), bytes_(kLines) {
        const std::span<std::byte> all = std::as_writable_bytes(std::span(bytes_));
        region_ = *device.register_memory({all, -1, 0}, transport::Access::kRemote);
        pieces_.add(all);
    }

    ~SharedPool() override { device_.deregister_memory(region_); }

    SharedPool(const SharedPool&) = delete;
    SharedPool& operator=(const SharedPool&) = delete;

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        const std::lock_guard lock(mutex_);
        return pieces_.allocate((bytes + 63) / 64 * 64, alignment).start;
    }

    void deallocate(std::byte* data, size_t bytes, size_t /*alignment*/) noexcept override {
        const std::lock_guard lock(mutex_);
        pieces_.deallocate(data, (bytes + 63) / 64 * 64);
    }

private:
    struct alignas(64) Line {
        std::array<std::byte, 64> bytes;
    };

    static constexpr size_t kLines = 1 << 14;

    transport::Device& device_;
    std::vector<Line> bytes_;
    transport::RegionId region_ = 0;
    transport::FirstFit pieces_;
    std::mutex mutex_;
};

/// The manager, and a shard that pauses between taking a pull and writing what was asked for.
class LateServer {
public:
    explicit LateServer(transport::Device& device)
        : endpoint_(std::move(device.make_endpoint({})).value()) {
        ManagerOptions options;
        options.worker_count = 2;
        manager_.emplace(options, std::move(device.make_endpoint({})).value(), clock_);
        address = manager_->address();
        to_manager_ = *endpoint_->connect(address);
        thread_ = std::thread([this] {
            for (uint32_t turn = 1; !stop_; ++turn) {
                (void)manager_->poll();
                poll();
                if (turn % testing::kPollsPerYield == 0) std::this_thread::yield();
            }
        });
    }

    ~LateServer() {
        go = true;
        stop_ = true;
        thread_.join();
    }

    LateServer(const LateServer&) = delete;
    LateServer& operator=(const LateServer&) = delete;

    std::string address;
    std::atomic<bool> asked{false};  ///< it has received a pull and not answered it
    std::atomic<bool> go{false};     ///< it may write now
    std::atomic<bool> written{false};

private:
    void poll() {
        std::array<transport::Completion, 16> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == Event::kConnected) {
                CHECK(testing::join_as_shard(*endpoint_, c.connection, 0) ==
                      transport::Post::kPosted);
            }
            if (c.event == Event::kReceived) receive(c);
        }
    }

    void receive(const transport::Completion& c) {
        wire::Frame frame;
        if (wire::decode(c.message, frame) != Errc::kOk) return;
        if (frame.header.kind == wire::Kind::kCreateTable) {
            CHECK(testing::send_frame(
                      *endpoint_, c.connection,
                      testing::frame_header(wire::Kind::kReply, frame.header.request)) ==
                  transport::Post::kPosted);
        }
        if (frame.header.kind != wire::Kind::kPull || asked) return;
        const wire::MemoryHandle& at = frame.values_at;
        std::byte* const out = endpoint_->map(c.connection, {at.address, at.length_bytes, at.key},
                                              transport::Access::kRemoteWrite);
        const size_t bytes = at.length_bytes;
        asked = true;
        while (!go)
            std::this_thread::yield();
        if (out != nullptr) std::fill_n(out, bytes, kLate);
        written = true;
    }

    SteadyClock clock_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::optional<Manager> manager_;
    ConnectionId to_manager_ = 0;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

/// Two clients of one process, the first of which has a pull open that the server has begun.
struct TwoClients {
    /// A closed connection waits that long for the server to let go of memory.
    explicit TwoClients(uint64_t close_timeout_ns) : device(make_device(close_timeout_ns)) {
        for (uint32_t worker = 0; worker < 2; ++worker)
            clients.push_back(make_client(worker));
        clients[0]->wait_until([&] {
            (void)clients[1]->core().poll();
            return clients[0]->core().ready() && clients[1]->core().ready();
        });
        ClientCore& first = clients[0]->core();
        const auto made =
            first.create_table(testing::dense_table("numbers", kTableKeys, ValueType::kFloat64));
        clients[0]->wait_until([&] { return first.done(made); });
        table = *first.take_table(made);
    }

    /// The first client starts a pull, and ends before the values have come.
    void pull_and_go() {
        auto buffer = *access::allocate(clients[0], kBytes, 1);
        (void)clients[0]->core().pull(table, KeyRange{0, kTableKeys}, {buffer.get(), kBytes}, {});
        clients[0]->wait_until([&] { return server.asked.load(); }, kMillisecond);
        buffer.reset();
        clients[0].reset();
    }

    static std::unique_ptr<transport::Device> make_device(uint64_t close_timeout_ns) {
        transport::shm::DeviceOptions options;
        options.close_timeout_ns = close_timeout_ns;
        return std::move(transport::shm::make_device(options)).value();
    }

    std::shared_ptr<ClientState> make_client(uint32_t worker) {
        ClientCoreOptions options;
        options.worker = worker;
        options.manager_address = server.address;
        return std::make_shared<ClientState>(
            std::make_unique<ClientCore>(options, std::move(device->make_endpoint({})).value(),
                                         clock, *pool, rules),
            pool, nullptr, IdleOptions{});
    }

    SteadyClock clock;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    std::unique_ptr<transport::Device> device;
    std::shared_ptr<SharedPool> pool = std::make_shared<SharedPool>(*device);
    LateServer server{*device};
    std::vector<std::shared_ptr<ClientState>> clients;
    TableInfo table;
};

/// Whether the late server's write spares the memory that the second client allocates.
bool is_left_alone(TwoClients& two) {
    const auto buffer = *access::allocate(two.clients[1], kBytes, 1);
    std::fill_n(buffer.get(), kBytes, std::byte{1});
    two.server.go = true;
    while (!two.server.written)
        std::this_thread::yield();
    return std::all_of(buffer.get(), buffer.get() + kBytes,
                       [](std::byte byte) { return byte == std::byte{1}; });
}

}  // namespace

TEST_SUITE("client memory") {
    TEST_CASE("a client that goes waits for a server that is about to write into its memory") {
        TwoClients two(60 * kSecond);
        std::thread later([&] {
            while (!two.server.asked)
                std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            two.server.go = true;
        });
        two.pull_and_go();
        CHECK(is_left_alone(two));
        later.join();
    }

    TEST_CASE("where the server takes too long, nobody else gets that memory") {
        TwoClients two(50 * kMillisecond);
        two.pull_and_go();
        CHECK(is_left_alone(two));
    }
}

}  // namespace weir::test
