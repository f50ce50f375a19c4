// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "tests/cluster/move_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

/// What the acknowledged pushes add up to, by table and key.
using Sums = std::map<std::pair<uint32_t, uint64_t>, int64_t>;

/// Pushes of random lists and ranges by all workers.
class RandomPushes {
public:
    RandomPushes(MoveCluster& cluster, Random& random) : cluster_(cluster), random_(random) {}

    void push_one() {
        const auto table = static_cast<uint32_t>(random_.below(cluster_.schemas.size()));
        const TableSchema& schema = cluster_.schemas[table];
        MoveWorker& worker = *cluster_.workers[random_.below(cluster_.workers.size())];
        const auto value = static_cast<int64_t>(1 + random_.below(1U << 30));
        if (schema.layout == Layout::kDense && random_.below(2) == 0) {
            const uint64_t begin = random_.below(schema.key_count);
            const KeyRange keys{
                begin,
                std::min(schema.key_count, begin + 1 + random_.below(schema.width > 3 ? 3 : 30))};
            for (uint64_t key = keys.begin; key < keys.end; ++key)
                sums[{table, key}] += value;
            return worker.push(table, keys, value);
        }
        std::vector<uint64_t> keys = lists_[{table, random_.below(4)}];
        if (keys.empty() || random_.below(3) == 0) {
            const uint64_t count =
                1 + random_.below(random_.below(2) == 0 || schema.width > 1 ? 3 : 40);
            keys.clear();
            for (uint64_t i = 0; i < count; ++i)
                keys.push_back(random_.below(schema.layout == Layout::kDense ? schema.key_count
                                                                             : uint64_t{500}));
            std::ranges::sort(keys);
            keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
            lists_[{table, random_.below(4)}] = keys;
        }
        for (const uint64_t key : keys)
            sums[{table, key}] += value;
        worker.push(table, std::move(keys), value);
    }

    Sums sums;

private:
    MoveCluster& cluster_;
    Random& random_;
    std::map<std::pair<uint32_t, uint64_t>, std::vector<uint64_t>> lists_;
};

/// Servers join and leave, connections break, and pushes go on: in the end every value is the sum
/// of what was pushed to it.
struct MoveCounts {
    uint64_t complete = 0;
    uint64_t stopped = 0;
    uint64_t answers = 0;
    uint64_t resent = 0;
};

void run_history(uint64_t seed, MoveCounts& counts) {
    Random random(seed);
    MoveShape shape;
    shape.servers = 1 + static_cast<uint32_t>(random.below(3));
    shape.shards = 1 + static_cast<uint32_t>(random.below(2));
    shape.points = 1 + static_cast<uint32_t>(random.below(5));
    shape.faults = std::make_shared<transport::Faults>(seed);
    shape.faults->not_now = random.below(2) == 0 ? 0.1 : 0;
    shape.faults->delay_polls_max = random.below(2) == 0 ? 4 : 0;
    MoveCluster cluster(seed, shape);
    (void)cluster.make_table(testing::dense_table("d", 300, ValueType::kInt64));
    TableSchema wide = testing::dense_table("w", 12, ValueType::kInt64, 30);
    wide.width = random.below(2) == 0 ? 30 : 3;
    (void)cluster.make_table(wide);
    (void)cluster.make_table(testing::sparse_table("s", ValueType::kInt64));
    RandomPushes pushes(cluster, random);
    const bool has_late_table = random.below(2) == 0;
    const uint64_t steps = 300 + random.below(1200);
    const uint64_t joins_at = random.below(steps);
    const uint64_t leaves_at = random.below(2 * steps);
    const uint64_t late_at = random.below(steps);
    for (uint64_t i = 0; i < steps; ++i) {
        if (random.below(4) == 0) pushes.push_one();
        if (i == joins_at) cluster.join_server();
        if (i == leaves_at && cluster.membership->view().servers().size() > 1)
            cluster.leave_server(
                cluster.membership->view()
                    .servers()[random.below(cluster.membership->view().servers().size())]
                    .number);
        if (i == late_at && has_late_table)
            (void)cluster.make_table(testing::dense_table("late", 100, ValueType::kInt64));
        if (random.below(200) == 0)
            cluster.workers[random.below(cluster.workers.size())]->break_connections();
        if (random.below(60) == 0) cluster.break_streams();
        for (uint64_t n = random.below(20); n > 0; --n)
            (void)cluster.step();
    }
    REQUIRE(cluster.run_until([&] { return cluster.is_quiet(); }));
    shape.faults->not_now = 0;
    counts.complete += cluster.complete;
    counts.stopped += cluster.stopped;
    for (const auto& worker : cluster.workers) {
        counts.answers += worker->answers;
        counts.resent += worker->resent;
    }
    MoveReader reader(cluster);
    for (const auto& pushed : pushes.sums) {
        const auto where = pushed.first;
        INFO("table " << where.first << ", key " << where.second);
        REQUIRE(reader.value(where.first, where.second) == pushed.second);
    }
}

TEST_SUITE("moves") {
    TEST_CASE("no push is lost or done twice while segments move, in many histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t last = first + testing::histories_or(100);
        MoveCounts counts;
        for (uint64_t seed = first; seed < last; ++seed) {
            INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
            run_history(seed, counts);
        }
        MESSAGE("segments moved: " << counts.complete << ", views that took some: "
                                   << counts.stopped << ", pushes: " << counts.answers
                                   << ", sent again: " << counts.resent);
    }

    TEST_CASE(
        "what a joiner was about to serve when it died is served by who had it, with all pushes") {
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            INFO("seed " << seed);
            MoveCluster cluster(seed, {});
            const uint32_t table =
                cluster.make_table(testing::dense_table("t", 1000, ValueType::kInt64));
            for (uint64_t key = 0; key < 1000; key += 50)
                cluster.workers[0]->push(table, KeyRange{key, key + 50}, 7);
            REQUIRE(cluster.run_until([&] { return cluster.is_quiet(); }));
            cluster.join_server();
            // One of the losers may have stopped: what it has handed over it has still.
            const size_t losers = 2 - seed % 2;
            REQUIRE(cluster.run_until([&] {
                if (cluster.random.below(8) == 0)
                    cluster.workers[1]->push(table, KeyRange{480, 520}, 0);
                const size_t count = cluster.membership->losers().size();
                return count > 0 && count <= losers;
            }));
            REQUIRE(cluster.membership->view().epoch() <= 4);
            for (uint64_t key = 0; key < 500; key += 50)
                cluster.workers[1]->push(table, KeyRange{key, key + 50}, 100);
            cluster.kill_server(2);
            REQUIRE(cluster.run_until([&] { return cluster.is_quiet(); }));
            CHECK_FALSE(cluster.has_loss);
            MoveReader reader(cluster);
            for (uint64_t key = 0; key < 1000; key += 7)
                CHECK(reader.value(table, key) == 7 + (key < 500 ? 100 : 0));
        }
    }

    TEST_CASE("a joiner without memory gets nothing, and everything goes on") {
        WEIR_TEST_SEED(seed, 1);
        MoveCluster cluster(seed, {});
        TableSchema wide = testing::dense_table("t", 1000, ValueType::kInt64, 20);
        const uint32_t table = cluster.make_table(wide);
        for (uint64_t key = 0; key < 1000; key += 4)
            cluster.workers[0]->push(table, KeyRange{key, key + 4}, 7);
        REQUIRE(cluster.run_until([&] { return cluster.is_quiet(); }));
        cluster.join_server(20'000);
        REQUIRE(cluster.run_until([&] { return cluster.refused > 0; }));
        cluster.workers[1]->push(table, KeyRange{40, 44}, 100);
        REQUIRE(cluster.run_until([&] { return cluster.is_quiet(); }));
        CHECK_FALSE(cluster.has_loss);
        MoveReader reader(cluster);
        for (uint64_t key = 0; key < 1000; key += 7)
            CHECK(reader.value(table, key) == 7 + (key >= 40 && key < 44 ? 100 : 0));
    }

    TEST_CASE("a server that joins gets its share of a dense table, with the values") {
        WEIR_TEST_SEED(seed, 1);
        MoveCluster cluster(seed, {});
        const uint32_t table =
            cluster.make_table(testing::dense_table("t", 1000, ValueType::kInt64));
        cluster.workers[0]->push(table, KeyRange{0, 50}, 7);
        cluster.workers[1]->push(table, KeyRange{40, 60}, 100);
        REQUIRE(cluster.run_until([&] { return cluster.is_quiet(); }));
        cluster.join_server();
        REQUIRE(cluster.run_until(
            [&] { return cluster.is_quiet() && cluster.membership->view().epoch() > 2; }));
        CHECK(cluster.complete > 0);
        CHECK(cluster.stopped > 0);
        CHECK_FALSE(cluster.membership->view().segments_of(2).empty());
        MoveReader reader(cluster);
        for (uint64_t key = 0; key < 70; ++key) {
            const int64_t expected = (key < 50 ? 7 : 0) + (key >= 40 && key < 60 ? 100 : 0);
            CHECK(reader.value(table, key) == expected);
        }
    }
}

}  // namespace
}  // namespace weir::test
