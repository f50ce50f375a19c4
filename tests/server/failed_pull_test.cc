// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a pull hears of an iteration that has failed: nothing that a backup could not keep. Parts of an
/// open iteration come again to a shard that takes over, and may have their effect there.

#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kPulledKeys = 40;

/// Two servers, of which each has the backups of the other, and three workers in a table's iterations.
class FailingRounds : public SimCluster {
public:
    FailingRounds() : SimCluster(1, shape_of(), {.maps_memory = true}) {
        REQUIRE(start());
        TableSchema schema = dense_table("rounds", kPulledKeys, ValueType::kUInt64);
        schema.max_delay = 1;
        auto made = make_table(0, schema);
        REQUIRE(made.has_value());
        table_ = *std::move(made);
        REQUIRE(run_until([&] { return has_all_copies(); }));
    }

    [[nodiscard]] ClientCore::CallId push(uint32_t worker, CallOptions options) {
        return workers[worker]->push(table_, KeyRange{0, kPulledKeys},
                                     std::as_bytes(std::span(ones_)), options);
    }

    [[nodiscard]] ClientCore::CallId pull(uint32_t worker, uint64_t iteration) {
        return workers[worker]->pull(table_, KeyRange{0, kPulledKeys},
                                     std::as_writable_bytes(std::span(values_)), {iteration});
    }

    void pass(uint64_t ns) {
        const uint64_t end_ns = clock.now_ns() + ns;
        REQUIRE(run_until([&] { return clock.now_ns() >= end_ns; }));
    }

private:
    static SimShape shape_of() {
        SimShape shape;
        shape.shards = 1;
        shape.workers = 3;
        shape.replicas = 1;
        shape.is_manager_apart = true;
        return shape;
    }

    [[nodiscard]] bool has_all_copies() const {
        const View view = manager->view();
        return std::ranges::all_of(
            view.segments(), [](const ViewSegment& segment) { return segment.backup_count() > 0; });
    }

    TableInfo table_;
    std::vector<uint64_t> ones_ = std::vector<uint64_t>(kPulledKeys, 1);
    std::vector<uint64_t> values_ = std::vector<uint64_t>(kPulledKeys);
};

}  // namespace

TEST_SUITE("failed_pull") {
    TEST_CASE("a pull hears of a failure when all copies know that the iteration is closed") {
        FailingRounds cluster;
        // It cannot leave in time, and the iteration fails by that.
        for (const uint32_t server : {0, 1})
            cluster.network.partition(cluster.host_of_worker(0), server);
        CallOptions hurried{1};
        hurried.deadline_ns = kMillisecond;
        const auto withdrawn = cluster.push(0, hurried);
        cluster.pass(100 * kMillisecond);
        CHECK_FALSE(cluster.finish(0, withdrawn).has_value());
        for (const uint32_t server : {0, 1})
            cluster.network.heal(cluster.host_of_worker(0), server);
        const auto part = cluster.push(1, {1});
        cluster.pass(kSecond);
        const auto pull = cluster.pull(1, 1);
        cluster.pass(100 * kMillisecond);
        CHECK_FALSE(cluster.workers[1]->done(pull));  // the iteration is open
        cluster.network.partition(0, 1);
        const auto last = cluster.push(2, {1});
        cluster.pass(100 * kMillisecond);
        const auto later = cluster.pull(1, 1);
        cluster.pass(100 * kMillisecond);
        CHECK_FALSE(cluster.workers[1]->done(pull));  // it is closed, but no backup knows it
        CHECK_FALSE(cluster.workers[1]->done(later));
        CHECK_FALSE(cluster.workers[2]->done(last));
        cluster.network.heal(0, 1);
        for (const auto call : {part, pull, later})
            CHECK_FALSE(cluster.finish(1, call).has_value());
        CHECK_FALSE(cluster.finish(2, last).has_value());
    }
}

}  // namespace weir::test
