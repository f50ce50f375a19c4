// SPDX-License-Identifier: Apache-2.0
/// \file
/// Whole clusters (manager, 2 servers x 2 shards, 3 workers) in one thread, over a simulated
/// network with random delays: thousands of histories, each checked by CountedPushes.

#include <optional>
#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/cluster/counted_pushes.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint64_t kHistoryKeys = 96;

/// What one worker has under way: one push or pull, with memory of its own.
struct RingOperation {
    bool is_push = false;
    ClientCore::CallId call = 0;
    std::vector<uint64_t> keys;
    KeyRange range;
    bool by_range = false;
    std::byte* memory = nullptr;
    size_t memory_bytes = 0;
    std::vector<uint64_t> plain;           ///< values in memory that is not registered
    std::vector<uint64_t> certain_before;  ///< pull: by key, what was certain when it began
};

struct History {
    explicit History(uint64_t seed) : random(seed) {
        SimShape shape;
        shape.message_bytes_max = random.below(2) == 0 ? 8192 : 1024;
        shape.fetch_bytes_max = random.below(2) == 0 ? 512 : 1 << 20;
        shape.eager_bytes = random.below(2) == 0 ? 64 : 4096;
        transport::sim::Options options;
        options.maps_memory = random.below(2) == 0;
        options.delay_ns_max = kMicrosecond * (2 + random.below(100));
        options.loss = random.below(4) == 0 ? 0.02 : 0;
        options.step_bytes = 64;
        cluster = std::make_unique<SimCluster>(random(), shape, options);
        dense = random.below(2) == 0;
        counted.emplace(kHistoryKeys,
                        static_cast<uint32_t>(1 + random.below(3) * random.below(50)));
    }

    [[nodiscard]] TableSchema schema() const {
        return table_of(dense ? Layout::kDense : Layout::kSparse, "t", kHistoryKeys,
                        ValueType::kUInt64, counted->width());
    }

    void choose_keys(RingOperation& op) {
        op.by_range = dense && random.below(2) == 0;
        if (op.by_range) {
            op.range.begin = random.below(kHistoryKeys);
            op.range.end = op.range.begin + 1 + random.below(kHistoryKeys - op.range.begin);
            for (uint64_t key = op.range.begin; key < op.range.end; ++key)
                op.keys.push_back(key);
            return;
        }
        std::set<uint64_t> chosen;
        // Long lists come again and again, so that shards know them by their hash.
        const uint64_t how_many =
            random.below(3) == 0 ? kHistoryKeys - random.below(3) : 1 + random.below(6);
        for (uint64_t i = 0; chosen.size() < how_many; ++i) {
            chosen.insert(how_many > kHistoryKeys / 2 ? i : random.below(kHistoryKeys));
        }
        op.keys.assign(chosen.begin(), chosen.end());
    }

    void begin(uint32_t worker, RingOperation& op) {
        ClientCore& client = *cluster->workers[worker];
        choose_keys(op);
        op.is_push = random.below(2) == 0 && counted->may_push(op.keys);
        const size_t count = op.keys.size() * counted->width();
        const size_t bytes = count * sizeof(uint64_t);
        std::span<std::byte> values;
        if (random.below(3) == 0) {
            op.plain.assign(count, 0);
            values = std::as_writable_bytes(std::span(op.plain));
        } else {
            op.memory = cluster->memory_of(worker).allocate(bytes, 64);
            op.memory_bytes = bytes;
            values = {op.memory, bytes};
        }
        auto* const numbers = reinterpret_cast<uint64_t*>(values.data());
        const CallOptions options;
        if (op.is_push) {
            counted->begin_push(op.keys, {numbers, count});
            op.call = op.by_range ? client.push(table[worker], op.range, values, options)
                                  : client.push(table[worker], op.keys, values, options);
        } else {
            op.certain_before = counted->begin_pull();
            op.call = op.by_range ? client.pull(table[worker], op.range, values, options)
                                  : client.pull(table[worker], op.keys, values, options);
        }
    }

    void end(uint32_t worker, RingOperation& op) {
        const Status ended = cluster->workers[worker]->take(op.call);
        INFO((ended ? "ok" : ended.error().message()));
        REQUIRE(ended.has_value());
        const auto* const numbers =
            op.memory == nullptr ? op.plain.data() : reinterpret_cast<uint64_t*>(op.memory);
        const std::span values(numbers, op.keys.size() * counted->width());
        if (op.is_push) {
            counted->end_push(op.keys, values);
        } else {
            counted->end_pull(op.keys, values, op.certain_before);
        }
        cluster->memory_of(worker).deallocate(op.memory, op.memory_bytes, 64);
        op = RingOperation();
    }

    void run(size_t operation_count) {
        REQUIRE(cluster->start());
        for (uint32_t worker = 0; worker < 3; ++worker) {
            auto made = cluster->make_table(worker, schema());
            REQUIRE(made.has_value());
            table.push_back(*made);
        }
        std::vector<RingOperation> under_way(size_t{3} * 3);
        size_t begun = 0;
        size_t ended = 0;
        while (ended < operation_count) {
            bool any = false;
            for (size_t i = 0; i < under_way.size(); ++i) {
                const auto worker = static_cast<uint32_t>(i % 3);
                RingOperation& op = under_way[i];
                if (op.call == 0 && begun < operation_count && random.below(4) == 0) {
                    begin(worker, op);
                    ++begun;
                    any = true;
                } else if (op.call != 0 && cluster->workers[worker]->done(op.call)) {
                    end(worker, op);
                    ++ended;
                    any = true;
                }
            }
            const bool moved = cluster->step();
            idle = any || moved ? 0 : idle + 1;
            REQUIRE(idle < 1000);
        }
        check_all();
    }

    /// Every acknowledged push is counted exactly once.
    void check_all() {
        std::vector<uint64_t> keys(kHistoryKeys);
        for (uint64_t key = 0; key < kHistoryKeys; ++key)
            keys[key] = key;
        std::vector<uint64_t> values(kHistoryKeys * counted->width());
        const auto call = cluster->workers[0]->pull(table[0], keys,
                                                    std::as_writable_bytes(std::span(values)), {});
        REQUIRE(cluster->finish(0, call).has_value());
        counted->check_all(values);
    }

    Random random;
    std::unique_ptr<SimCluster> cluster;
    bool dense = false;
    std::optional<CountedPushes> counted;
    size_t idle = 0;
    std::vector<TableInfo> table;  ///< by worker
};

}  // namespace

TEST_SUITE("cluster_history") {
    TEST_CASE(
        "every push is counted exactly once and every pull is explained, in thousands of "
        "histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(500);
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            History(seed).run(40);
        }
    }
}

}  // namespace weir::test
