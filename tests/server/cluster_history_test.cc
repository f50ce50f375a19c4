// SPDX-License-Identifier: Apache-2.0
/// \file
/// Whole clusters (manager, 2 servers x 2 shards, 3 workers) in one thread, over a simulated
/// network with random delays: thousands of histories, each checked.
///
/// Every push of a key adds a bit of its own. So the sum of a key says which pushes it has counted,
/// a push counted twice carries into other bits, and one order of a key's pushes and pulls, in
/// which nothing stands before what had ended when it began, explains all pulls of that key if and
/// only if each has every bit that was certain when it began (a push was acknowledged, or a pull
/// had shown it) and none of a push that began after its end; with a bit it has all that were
/// certain when that push began; and of any two pulls one has all bits of the other.

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kHistoryKeys = 96;

/// What one worker has under way: one push or pull, with memory of its own.
struct Operation {
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
        width = static_cast<uint32_t>(1 + random.below(3) * random.below(50));
    }

    [[nodiscard]] TableSchema schema() const {
        return table_of(dense ? Layout::kDense : Layout::kSparse, "t", kHistoryKeys,
                        ValueType::kUInt64, width);
    }

    void choose_keys(Operation& op) {
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

    void begin(uint32_t worker, Operation& op) {
        ClientCore& client = *cluster->workers[worker];
        choose_keys(op);
        op.is_push = random.below(2) == 0;
        for (const uint64_t key : op.keys) {
            if (op.is_push && used[key] == 63) op.is_push = false;
        }
        const size_t bytes = op.keys.size() * width * sizeof(uint64_t);
        std::span<std::byte> values;
        if (random.below(3) == 0) {
            op.plain.assign(op.keys.size() * width, 0);
            values = std::as_writable_bytes(std::span(op.plain));
        } else {
            op.memory = cluster->memory_of(worker).allocate(bytes, 64);
            op.memory_bytes = bytes;
            values = {op.memory, bytes};
        }
        auto* const numbers = reinterpret_cast<uint64_t*>(values.data());
        const CallOptions options;
        if (op.is_push) {
            for (size_t i = 0; i < op.keys.size(); ++i) {
                const uint64_t key = op.keys[i];
                const uint64_t bit = uint64_t{1} << used[key]++;
                issued[key] |= bit;
                certain_before_push[key].push_back(certain[key]);
                for (uint32_t j = 0; j < width; ++j)
                    numbers[i * width + j] = bit;
            }
            op.call = op.by_range ? client.push(table[worker], op.range, values, options)
                                  : client.push(table[worker], op.keys, values, options);
        } else {
            op.certain_before = certain;
            op.call = op.by_range ? client.pull(table[worker], op.range, values, options)
                                  : client.pull(table[worker], op.keys, values, options);
        }
    }

    void end(uint32_t worker, Operation& op) {
        const Status ended = cluster->workers[worker]->take(op.call);
        INFO((ended ? "ok" : ended.error().message()));
        REQUIRE(ended.has_value());
        const auto* const numbers =
            op.memory == nullptr ? op.plain.data() : reinterpret_cast<uint64_t*>(op.memory);
        for (size_t i = 0; i < op.keys.size(); ++i) {
            const uint64_t key = op.keys[i];
            const uint64_t value = numbers[i * width];
            if (!op.is_push) {
                INFO("key " << key << ", width " << width << ", dense " << dense << ", range "
                            << op.by_range << ", keys " << op.keys.size() << ", plain "
                            << (op.memory == nullptr));
                REQUIRE(all_are(value, {numbers + i * width, width}));  // they change together
                REQUIRE(has_all(value, op.certain_before[key]));
                REQUIRE(has_all(issued[key], value));
                REQUIRE(shows_what_was_before(key, value));
                REQUIRE(is_in_line(key, value));
                pulled[key].push_back(value);
            }
            certain[key] |= value;
        }
        cluster->memory_of(worker).deallocate(op.memory, op.memory_bytes, 64);
        op = Operation();
    }

    static bool has_all(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

    static bool all_are(uint64_t value, std::span<const uint64_t> values) {
        return std::ranges::all_of(values, [&](uint64_t other) { return other == value; });
    }

    /// With every push that a pulled value shows, what was certain when that push began.
    bool shows_what_was_before(uint64_t key, uint64_t value) const {
        uint64_t before = 0;
        for (size_t push = 0; push < certain_before_push[key].size(); ++push) {
            if ((value >> push & 1) != 0) before |= certain_before_push[key][push];
        }
        return has_all(value, before);
    }

    /// Whether it comes before or after every value that was pulled so far.
    bool is_in_line(uint64_t key, uint64_t value) const {
        return std::ranges::all_of(pulled[key], [&](uint64_t other) {
            return has_all(value, other) || has_all(other, value);
        });
    }

    void run(size_t operation_count) {
        REQUIRE(cluster->start());
        for (uint32_t worker = 0; worker < 3; ++worker) {
            auto made = cluster->make_table(worker, schema());
            REQUIRE(made.has_value());
            table.push_back(*made);
        }
        std::vector<Operation> under_way(size_t{3} * 3);
        size_t begun = 0;
        size_t ended = 0;
        while (ended < operation_count) {
            bool any = false;
            for (size_t i = 0; i < under_way.size(); ++i) {
                const auto worker = static_cast<uint32_t>(i % 3);
                Operation& op = under_way[i];
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
        std::vector<uint64_t> values(kHistoryKeys * width);
        const auto call = cluster->workers[0]->pull(table[0], keys,
                                                    std::as_writable_bytes(std::span(values)), {});
        REQUIRE(cluster->finish(0, call).has_value());
        for (uint64_t key = 0; key < kHistoryKeys; ++key)
            REQUIRE(all_are(certain[key], std::span(values).subspan(key * width, width)));
    }

    Random random;
    std::unique_ptr<SimCluster> cluster;
    bool dense = false;
    uint32_t width = 1;
    size_t idle = 0;
    std::vector<TableInfo> table;  ///< by worker
    std::vector<uint64_t> used =
        std::vector<uint64_t>(kHistoryKeys, 0);  ///< pushes of a key so far
    std::vector<uint64_t> issued = std::vector<uint64_t>(kHistoryKeys, 0);  ///< their bits
    /// Those acknowledged, or shown by a pull that has ended.
    std::vector<uint64_t> certain = std::vector<uint64_t>(kHistoryKeys, 0);
    /// By key, of each of its pushes: what was certain when it began.
    std::vector<std::vector<uint64_t>> certain_before_push =
        std::vector<std::vector<uint64_t>>(kHistoryKeys);
    std::vector<std::vector<uint64_t>> pulled = std::vector<std::vector<uint64_t>>(kHistoryKeys);
};

}  // namespace

TEST_SUITE("cluster_history") {
    TEST_CASE(
        "every push is counted exactly once and every pull is explained, in thousands of "
        "histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(2000);
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            History(seed).run(40);
        }
    }
}

}  // namespace weir::test
