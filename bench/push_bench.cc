// SPDX-License-Identifier: Apache-2.0
// The software cost of a small push, with both sides and both rings on one core: no transfer
// between cores, no waiting. The limit passes the same two records through two bare rings.
#include <cstring>
#include <memory>
#include <vector>

#include "bench/beside.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/node/manager.h"
#include "lib/server/shard.h"
#include "lib/worker/client_core.h"
#include "transport/shm/byte_ring.h"
#include "transport/shm/shm.h"

namespace weir::bench {
namespace {

/// A manager, a shard and a worker, polled in turn.
class Cluster {
public:
    Cluster()
        : manager_({.server_ranks = {}, .worker_ranks = {}}, endpoint(), clock_),
          shard_({.manager_address = manager_.address()}, endpoint(), clock_, memory_, rules_),
          worker_({.manager_address = manager_.address()}, endpoint(), clock_, memory_, rules_) {
        run_until([this] { return worker_.ready(); });
    }

    template <class Over>
    void run_until(Over&& over) {
        while (!over()) {
            manager_.poll();
            shard_.poll();
            worker_.poll();
        }
    }

    TableInfo make_table(const TableSchema& schema) {
        const ClientCore::CallId call = worker_.create_table(schema);
        run_until([&] { return worker_.done(call); });
        return std::move(worker_.take_table(call)).value();
    }

    /// Makes one round trip.
    template <class Keys>
    void push(const TableInfo& table, Keys keys, std::span<const std::byte> values) {
        const ClientCore::CallId call = worker_.push(table, keys, values, {});
        while (!worker_.done(call)) {
            shard_.poll();
            worker_.poll();
        }
        WEIR_CHECK(worker_.take(call));
    }

private:
    std::unique_ptr<transport::Endpoint> endpoint() {
        return std::move(device_->make_endpoint({})).value();
    }

    SteadyClock clock_;
    HeapMemory memory_;
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    std::unique_ptr<transport::Device> device_ = std::move(transport::shm::make_device({})).value();
    Manager manager_;
    Shard shard_;
    ClientCore worker_;
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
    Cluster cluster;
    TableInfo dense = cluster.make_table({.name = "dense", .key_count = kKeys});
    TableInfo sparse = cluster.make_table({.name = "sparse", .layout = Layout::kSparse});
    std::vector<float> values = std::vector<float>(16, 0.5F);
    BareRings bare;
};

/// `body_bytes`: the size of the push message after its header.
template <class Work>
void pushes(benchmark::State& state, uint64_t body_bytes, Work&& work) {
    auto& bare = prepared<Tables>().bare;
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
    pushes(state, values.size(), [&](uint64_t i) {
        const uint64_t key = i % (kKeys - count);
        tables.cluster.push(tables.dense, KeyRange{key, key + count}, values);
    });
}

void push_sparse(benchmark::State& state) {
    auto& tables = prepared<Tables>();
    const auto value = std::as_bytes(std::span(tables.values).first(1));
    pushes(state, sizeof(uint64_t) + value.size(), [&](uint64_t i) {
        const uint64_t key = i % kKeys;
        tables.cluster.push(tables.sparse, std::span(&key, 1), value);
    });
}

BENCHMARK(push_dense)->ArgName("keys")->Arg(1)->Arg(16)->UseManualTime();
BENCHMARK(push_sparse)->ArgName("keys")->Arg(1)->UseManualTime();

}  // namespace
}  // namespace weir::bench
