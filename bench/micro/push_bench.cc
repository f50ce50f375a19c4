// SPDX-License-Identifier: Apache-2.0
// The software cost of a small push, with both sides and both rings on one core: no transfer
// between cores, no waiting. The limit passes the same two records through two bare rings. And what
// a copy of everything costs: all three sides on one core, beside the same push without one.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "bench/micro/beside.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/manager/manager.h"
#include "lib/server/shard.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/worker/client_core.h"
#include "transport/pool/memory_pool.h"
#include "transport/shm/byte_ring.h"
#include "transport/shm/shm.h"

namespace weir::bench {
namespace {

/// Memory that others read in place: a worker's, or what servers lend.
class SharedMemory final : public Memory {
public:
    explicit SharedMemory(transport::Device& device)
        : device_(&device),
          pool_(std::move(transport::MemoryPool::make({.slab_bytes = size_t{64} << 20},
                                                      std::span(&device_, 1)))
                    .value()) {}

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        const Result<std::byte*> memory = pool_->allocate({bytes, alignment, true});
        return memory ? *memory : nullptr;
    }

    void deallocate(std::byte* data, size_t, size_t) noexcept override { pool_->deallocate(data); }

private:
    transport::Device* device_;
    std::unique_ptr<transport::MemoryPool> pool_;
};

struct Shape {
    uint32_t servers = 1;
    uint32_t replicas = 0;
    uint32_t points = 1;  ///< segments of a server
    uint32_t workers = 1;
    friend bool operator==(const Shape&, const Shape&) = default;
};

/// A manager, shards and a worker, polled in turn.
class Cluster {
public:
    explicit Cluster(const Shape& shape = {})
        : manager_({.server_count = shape.servers,
                    .worker_count = shape.workers,
                    .server_ranks = {},
                    .worker_ranks = {},
                    .replicas = shape.replicas,
                    .points = shape.points,
                    .lease_ns = 1000 * kSecond},
                   endpoint(), clock_) {
        lease_->extend_until(~uint64_t{0});
        for (uint32_t i = 0; i < shape.servers; ++i) {
            shards_.push_back(
                std::make_unique<Shard>(ShardOptions{.number = i,
                                                     .manager_address = manager_.address(),
                                                     .lease = lease_,
                                                     .lending = {.memory = &lent_}},
                                        endpoint(), clock_, memory_, rules_));
        }
        for (uint32_t i = 0; i < shape.workers; ++i) {
            workers_.push_back(std::make_unique<ClientCore>(
                ClientCoreOptions{.worker = i, .rank = i, .manager_address = manager_.address()},
                endpoint(), clock_, worker_memory_, rules_));
        }
        run_until([this] { return std::ranges::all_of(workers_, &ClientCore::ready); });
        run_until([&] { return has_copies(shape.replicas); });
        // They answer for what has copies only while the manager has heard of that.
        for (int i = 0; i < 1000; ++i)
            run_until([] { return true; });
    }

    template <class Over>
    void run_until(Over&& over) {
        do {
            manager_.poll();
            for (const auto& shard : shards_)
                shard->poll();
            poll_workers();
        } while (!over());
    }

    TableInfo make_table(const TableSchema& schema) {
        const ClientCore::CallId call = workers_[0]->create_table(schema);
        run_until([&] { return workers_[0]->done(call); });
        return std::move(workers_[0]->take_table(call)).value();
    }

    /// Each worker makes one round trip. `shards`: so many of them take part; each is polled when what it waits for
    /// has come: records go from the first one to the others, and their confirmations back.
    template <class Keys>
    void push(const TableInfo& table, Keys keys, std::span<const std::byte> values,
              size_t shards = 1, const CallOptions& options = {}) {
        std::array<ClientCore::CallId, kWorkersMax> calls{};
        for (size_t i = 0; i < workers_.size(); ++i)
            calls[i] = workers_[i]->push(table, keys, values, options);
        for (size_t i = 0; i < workers_.size();) {
            if (workers_[i]->done(calls[i])) {
                WEIR_CHECK(workers_[i]->take(calls[i]));
                ++i;
                continue;
            }
            for (size_t s = 0; s < shards; ++s)
                shards_[s]->poll();
            for (size_t s = shards - 1; s-- > 0;)
                shards_[s]->poll();
            poll_workers();
        }
    }

    [[nodiscard]] Memory& worker_memory() noexcept { return worker_memory_; }

private:
    static constexpr size_t kWorkersMax = 2;

    void poll_workers() {
        for (const auto& worker : workers_)
            worker->poll();
    }

    std::unique_ptr<transport::Endpoint> endpoint() {
        return std::move(device_->make_endpoint({})).value();
    }

    [[nodiscard]] bool has_copies(uint32_t count) const {
        const View view = manager_.view();
        return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
            return segment.backup_count() == count && !segment.has_learner();
        });
    }

    SteadyClock clock_;
    HeapMemory memory_;
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    std::shared_ptr<ServerLease> lease_ = std::make_shared<ServerLease>();
    std::unique_ptr<transport::Device> device_ = std::move(transport::shm::make_device({})).value();
    SharedMemory worker_memory_{*device_};
    SharedMemory lent_{*device_};
    Manager manager_;
    std::vector<std::unique_ptr<Shard>> shards_;
    std::vector<std::unique_ptr<ClientCore>> workers_;
};

/// Two rings like those of the transport, with nothing around them.
class BareRings {
public:
    /// Passes a record there and a reply back.
    void pass(uint32_t push_bytes, uint32_t reply_bytes) {
        pass(there_, push_bytes);
        pass(back_, reply_bytes);
    }

private:
    struct Ring {
        HeapMemory heap;
        Block block{heap, 1 << 20};  // starts at a cache line
        std::span<std::byte> data{block.data(), 1 << 20};
        transport::shm::RingControl control;
        transport::shm::RingWriter out{&control, data, 8192};
        transport::shm::RingReader in{&control, data, 8192};
    };

    void pass(Ring& ring, uint32_t message_bytes) {
        using namespace transport::shm;  // NOLINT(google-build-using-namespace): the ring's words
        std::byte* const room = ring.out.begin(message_bytes);
        std::memcpy(room, message_.data(), message_bytes);
        ring.out.end(RecordKind::kMessage, message_bytes);
        ring.out.publish();
        Record record;
        WEIR_CHECK(ring.in.take(record) == Take::kRecord);
        std::memcpy(message_.data(), record.payload.data(), record.payload.size());
        ring.in.give_back();
    }

    Ring there_;
    Ring back_;
    std::vector<std::byte> message_ = std::vector<std::byte>(8192);
};

constexpr uint64_t kKeys = 1024;
constexpr uint64_t kPushes = 1000;  ///< per iteration

struct Tables {
    explicit Tables(uint32_t points = 1) : cluster({.points = points}) {}

    Cluster cluster;
    TableInfo dense = cluster.make_table({.name = "dense", .key_count = kKeys});
    TableInfo sparse = cluster.make_table({.name = "sparse", .layout = Layout::kSparse});
    std::vector<float> values = std::vector<float>(16, 0.5F);
    BareRings bare;
};

/// `body_bytes`: the size of the push message after its header.
template <class Work>
void pushes(benchmark::State& state, BareRings& bare, uint64_t body_bytes, Work&& work) {
    const auto push_bytes =
        static_cast<uint32_t>(offsetof(wire::FrameHeader, iteration) + body_bytes);
    run_beside(
        state, static_cast<double>(kPushes),
        [&] {
            for (uint64_t i = 0; i < kPushes; ++i)
                work(i);
        },
        [&] {
            for (uint64_t i = 0; i < kPushes; ++i)
                bare.pass(push_bytes, wire::kHeaderBytesMin);
        });
}

void push_dense(benchmark::State& state) {
    auto& tables = prepared<Tables>();
    const auto count = static_cast<uint64_t>(state.range(0));
    const auto values = std::as_bytes(std::span(tables.values).first(count));
    pushes(state, tables.bare, values.size(), [&](uint64_t i) {
        const uint64_t key = i % (kKeys - count);
        tables.cluster.push(tables.dense, KeyRange{key, key + count}, values);
    });
}

/// Lists of different keys, spread over the segments of the shard.
void push_sparse(benchmark::State& state) {
    const auto count = static_cast<uint64_t>(state.range(0));
    auto& tables = prepared<Tables>(static_cast<uint32_t>(state.range(1)));
    const auto values = std::as_bytes(std::span(tables.values).first(count));
    std::array<uint64_t, 16> keys;
    pushes(state, tables.bare, count * sizeof(uint64_t) + values.size(), [&](uint64_t i) {
        for (uint64_t k = 0; k < count; ++k)
            keys[k] = i % kKeys + k * kKeys;
        tables.cluster.push(tables.sparse, std::span<const uint64_t>(keys).first(count), values);
    });
}

/// The same pushes by turns: with a backup of everything, and without. What a copy costs is what all
/// sides do together.
class WithCopies {
public:
    explicit WithCopies(uint32_t replicas) : with_({replicas + 1, replicas}), without_({2, 0}) {}

    struct Side {
        explicit Side(const Shape& shape)
            : cluster(shape),
              sides(shape.replicas + 1),
              dense(cluster.make_table({.name = "dense", .key_count = shape.servers * kKeysOfOne})),
              sparse(cluster.make_table({.name = "sparse", .layout = Layout::kSparse})),
              values(cluster.worker_memory(), kValueBytes) {}

        [[nodiscard]] std::span<const std::byte> bytes(uint64_t count) const {
            return {values.data(), count * sizeof(float)};
        }

        Cluster cluster;
        size_t sides;  ///< of a push to the first server
        TableInfo dense;
        TableInfo sparse;
        Block values;
    };

    static constexpr uint64_t kKeysOfOne = uint64_t{8} << 20;  ///< 32 MiB
    static constexpr size_t kValueBytes = size_t{1} << 20;

    template <class Work>
    void run(benchmark::State& state, uint64_t count, Work&& work) {
        const auto on = [&](Side& side) {
            for (uint64_t i = 0; i < count; ++i)
                work(side, i);
        };
        run_beside(
            state, static_cast<double>(count), [&] { on(with_); }, [&] { on(without_); });
    }

private:
    Side with_;
    Side without_;
};

/// The limit is the same push without a copy.
void copied_push_dense(benchmark::State& state) {
    const auto count = static_cast<uint64_t>(state.range(0));
    const uint64_t pushes = std::max<uint64_t>(10, kPushes / count);
    prepared<WithCopies>(1U).run(state, pushes, [&](WithCopies::Side& side, uint64_t i) {
        const uint64_t key = i * 61 * count % (WithCopies::kKeysOfOne - count);
        side.cluster.push(side.dense, KeyRange{key, key + count}, side.bytes(count), side.sides);
    });
}

/// A list that the shards know. Its keys are spread over both servers.
void copied_push_sparse(benchmark::State& state) {
    const auto count = static_cast<uint64_t>(state.range(0));
    const uint64_t pushes = std::max<uint64_t>(10, kPushes / count);
    std::vector<uint64_t> keys(count);
    for (uint64_t i = 0; i < count; ++i)
        keys[i] = 7 * i;
    prepared<WithCopies>(1U).run(state, pushes, [&](WithCopies::Side& side, uint64_t) {
        side.cluster.push(side.sparse, std::span<const uint64_t>(keys), side.bytes(count), 2);
    });
}

/// Iterations of one or two workers, of a list that the shards know, in a table of many more keys.
class CopiedIterations {
public:
    static constexpr uint64_t kTableKeys = 1'000'000;

    struct Shape {
        uint64_t keys = 0;
        uint32_t workers = 0;
        friend bool operator==(const Shape&, const Shape&) = default;
    };

    explicit CopiedIterations(const Shape& shape)
        : with_({2, 1, 1, shape.workers}), without_({2, 0, 1, shape.workers}), list_(shape.keys) {
        for (uint64_t i = 0; i < shape.keys; ++i)
            list_[i] = i * (kTableKeys / shape.keys);
    }

    void run(benchmark::State& state) {
        constexpr uint64_t kIterations = 10;
        const auto on = [&](Side& side) {
            for (uint64_t i = 0; i < kIterations; ++i)
                side.push(list_, {.iteration = ++side.iteration});
        };
        run_beside(
            state, kIterations, [&] { on(with_); }, [&] { on(without_); });
    }

private:
    struct Side {
        explicit Side(const bench::Shape& shape)
            : cluster(shape),
              table(cluster.make_table({.name = "sums", .layout = Layout::kSparse})),
              values(cluster.worker_memory(), kTableKeys * sizeof(float)) {
            std::vector<uint64_t> all(kTableKeys);
            std::iota(all.begin(), all.end(), 0);
            push(all, {});
        }

        void push(const std::vector<uint64_t>& keys, const CallOptions& options) {
            const std::span<const std::byte> bytes(values.data(), keys.size() * sizeof(float));
            cluster.push(table, std::span<const uint64_t>(keys), bytes, 2, options);
        }

        Cluster cluster;
        TableInfo table;
        Block values;
        uint64_t iteration = 0;
    };

    Side with_;
    Side without_;
    std::vector<uint64_t> list_;
};

void copied_iteration(benchmark::State& state) {
    prepared<CopiedIterations>(CopiedIterations::Shape{static_cast<uint64_t>(state.range(0)),
                                                       static_cast<uint32_t>(state.range(1))})
        .run(state);
}

BENCHMARK(push_dense)->ArgName("keys")->Arg(1)->Arg(16)->UseManualTime();
BENCHMARK(push_sparse)
    ->ArgNames({"keys", "segments"})
    ->Args({1, 1})
    ->Args({8, 1})
    ->Args({4, 16})
    ->UseManualTime();
BENCHMARK(copied_push_dense)->ArgName("keys")->Arg(1)->Arg(512)->Arg(1 << 18)->UseManualTime();
BENCHMARK(copied_push_sparse)->ArgName("keys")->Arg(100'000)->UseManualTime();
BENCHMARK(copied_iteration)
    ->ArgNames({"keys", "workers"})
    ->Args({1000, 1})
    ->Args({100'000, 1})
    ->Args({1000, 2})
    ->Args({100'000, 2})
    ->UseManualTime();

}  // namespace
}  // namespace weir::bench
