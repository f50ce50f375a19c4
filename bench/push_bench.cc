// SPDX-License-Identifier: Apache-2.0
// What the software of a small push costs, both sides and both rings, on one core: no transfer from
// core to core, no waiting. Limit: the same two records through two bare rings.
// Usage: push_bench [--brief]
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/node/manager.h"
#include "lib/server/shard.h"
#include "lib/worker/client_core.h"
#include "transport/shm/byte_ring.h"
#include "transport/shm/shm.h"

namespace weir::bench {
namespace {

double median(std::vector<double> numbers) {
    std::ranges::sort(numbers);
    return numbers[numbers.size() / 2];
}

/// Manager, a shard and a worker, polled in turn.
class Cluster {
public:
    Cluster()
        : manager_({.shape = {1, 1, 4, 1}, .server_ranks = {}, .worker_ranks = {}}, endpoint(),
                   clock_),
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

    /// One round trip.
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

/// Two rings as the transport's, but nothing around them.
class BareRings {
public:
    /// There and back.
    void pass(uint32_t push_bytes, uint32_t reply_bytes) {
        pass(there_, push_bytes);
        pass(back_, reply_bytes);
    }

private:
    struct Ring {
        HeapMemory heap;
        Block block{heap, 1 << 20};  // begins at a line
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

template <class Work>
double nanoseconds(uint64_t count, Work&& work) {
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    for (uint64_t i = 0; i < count; ++i)
        work(i);
    return static_cast<double>(clock.now_ns() - begin_ns) / static_cast<double>(count);
}

/// `body_bytes`: of the push's message, behind its header.
template <class Work>
void report(const char* name, uint64_t count, int rounds, uint32_t body_bytes, Work&& work) {
    const auto push_bytes =
        static_cast<uint32_t>(offsetof(wire::FrameHeader, iteration) + body_bytes);
    BareRings bare;
    std::vector<double> ours;
    std::vector<double> limits;
    for (int round = 0; round < rounds; ++round) {
        ours.push_back(nanoseconds(count, work));
        limits.push_back(
            nanoseconds(count, [&](uint64_t) { bare.pass(push_bytes, wire::kHeaderBytesMin); }));
    }
    fmt::print("{:<38} {:>10.0f} {:>10.0f} ns {:>6.1f} x\n", name, median(ours), median(limits),
               median(ours) / median(limits));
}

void run(bool brief) {
    constexpr uint64_t kKeys = 1024;
    const uint64_t count = brief ? 1000 : 200'000;
    const int rounds = brief ? 1 : 9;
    Cluster cluster;
    const TableInfo dense = cluster.make_table({.name = "dense", .key_count = kKeys});
    const TableInfo sparse = cluster.make_table({.name = "sparse", .layout = Layout::kSparse});
    const std::vector<float> values(16, 0.5F);
    const auto bytes = [&](size_t number) {
        return std::as_bytes(std::span(values).first(number));
    };
    fmt::print("{:<38} {:>10} {:>10}\n", "work, both sides on one core", "push", "bare rings");
    report("1 key of a dense table", count, rounds, 4, [&](uint64_t i) {
        const uint64_t key = i % kKeys;
        cluster.push(dense, KeyRange{key, key + 1}, bytes(1));
    });
    report("16 keys of a dense table", count, rounds, 64, [&](uint64_t i) {
        const uint64_t key = i % (kKeys - 16);
        cluster.push(dense, KeyRange{key, key + 16}, bytes(16));
    });
    report("1 key of a sparse table", count, rounds, 12, [&](uint64_t i) {
        const uint64_t key = i % kKeys;
        cluster.push(sparse, std::span(&key, 1), bytes(1));
    });
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
    const bool brief = argc > 1 && std::strcmp(argv[1], "--brief") == 0;
    weir::bench::run(brief);
    return 0;
}
