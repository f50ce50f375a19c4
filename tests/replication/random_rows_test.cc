// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rows that begin with random values: the same bits at whoever holds a key, whatever has happened before.

#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/initial_rows.h"
#include "tests/cluster/equal_copies.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kRandomKeys = 600;
constexpr uint32_t kRandomWidth = 3;

/// A table of random rows that have backups. Some keys are pushed to, some of them by 0.
class RandomRows : public SimCluster {
public:
    RandomRows(Layout layout, const InitialValue& initial) : SimCluster(1, shape_of_three(), {}) {
        REQUIRE(start());
        REQUIRE(run_until([&] { return is_at_rest(); }));  // so backups make their rows themselves
        TableSchema schema =
            table_of(layout, "rows", kRandomKeys, ValueType::kFloat32, kRandomWidth);
        schema.initial_value = initial;
        table_ = *make_table(0, schema);
        for (uint64_t i = 0; i < kRandomKeys; ++i)
            keys_[i] = layout == Layout::kDense ? i : i * 1'000'003;
        const InitialRows rows(initial, ValueType::kFloat32, kRandomWidth);
        for (size_t i = 0; i < kRandomKeys; ++i)
            rows.fill(keys_[i], reinterpret_cast<std::byte*>(&expected_[i * kRandomWidth]));
    }

    /// Adds a number to every third key from `first` on, which makes their rows.
    void push(size_t first, float number) {
        std::vector<uint64_t> keys;
        for (size_t i = first; i < kRandomKeys; i += 3) {
            keys.push_back(keys_[i]);
            for (size_t at = i * kRandomWidth; at < (i + 1) * kRandomWidth; ++at)
                expected_[at] += number;
        }
        const std::vector<float> numbers(keys.size() * kRandomWidth, number);
        const auto call = workers[0]->push(table_, keys, std::as_bytes(std::span(numbers)), {});
        REQUIRE(finish(0, call));
    }

    void check() {
        std::vector<float> found(kRandomKeys * kRandomWidth);
        const auto call =
            workers[0]->pull(table_, keys_, std::as_writable_bytes(std::span(found)), {});
        REQUIRE(finish(0, call));
        CHECK(found == expected_);
    }

    /// Each segment has its backup, which is equal to the primary.
    void check_copies() {
        REQUIRE(run_until([&] { return is_at_rest(); }));
        run_idle(50);
        const View view = managers_view();
        for (size_t i = 0; i < view.segments().size(); ++i) {
            const ViewSegment& segment = view.segments()[i];
            check_equal_copies(*find_shard(*view.shard(segment.primary)),
                               *find_shard(*view.shard(segment.backups[0])), view.range(i));
        }
    }

    [[nodiscard]] bool is_at_rest() const {
        return std::ranges::all_of(manager->view().segments(), [](const ViewSegment& segment) {
            return segment.backup_count() == 1 && !segment.has_learner();
        });
    }

private:
    static SimShape shape_of_three() {
        SimShape shape;
        shape.servers = 3;
        shape.shards = 1;
        shape.workers = 1;
        shape.replicas = 1;
        shape.is_manager_apart = true;
        return shape;
    }

    TableInfo table_;
    std::vector<uint64_t> keys_ = std::vector<uint64_t>(kRandomKeys);
    std::vector<float> expected_ = std::vector<float>(kRandomKeys * kRandomWidth);
};

}  // namespace

TEST_SUITE("random rows") {
    TEST_CASE("rows begin with the same bits after moves, and at backups that take over") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            for (const InitialValue& initial : {uniform(-1, 1, 7), normal(0.5, 2, 9)}) {
                CAPTURE(layout == Layout::kDense);
                RandomRows cluster(layout, initial);
                cluster.check();
                cluster.push(0, 1);
                cluster.push(1, 0);  // their rows are made, and begin
                cluster.check();
                cluster.check_copies();
                (void)cluster.add_server({.shards = 1});
                REQUIRE(cluster.run_until([&] {
                    return cluster.manager->view().servers().size() == 4 && cluster.is_at_rest();
                }));
                cluster.check();
                cluster.check_copies();
                for (const uint32_t killed : {1, 0}) {
                    const uint64_t epoch = cluster.manager->view().epoch();
                    cluster.kill_host(killed);
                    cluster.check();
                    REQUIRE(cluster.run_until([&] {
                        return cluster.manager->view().epoch() > epoch && cluster.is_at_rest();
                    }));
                    cluster.push(killed, 0.5F);  // rows that their new primaries make, and others
                    cluster.push(2, 0.25F);
                    cluster.check();
                    cluster.check_copies();
                }
            }
        }
    }
}

}  // namespace weir::test
