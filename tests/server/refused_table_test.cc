// SPDX-License-Identifier: Apache-2.0
/// \file
/// A table that one shard has no memory for: it leaves nothing behind, and may be asked for again.

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint64_t kRefusedKeys = 100'000;

/// With `max_delay` 63, each of two shards needs 13 MB or more for the sums.
TableSchema windowed_table(uint32_t max_delay) {
    TableSchema schema = dense_table("w", kRefusedKeys);
    schema.max_delay = max_delay;
    return schema;
}

/// One server, whose two shards have together memory for one such window.
class ShortCluster : public SimCluster {
public:
    explicit ShortCluster(uint64_t seed, uint32_t manager_count = 1)
        : SimCluster(seed, shape_of(manager_count), {}) {
        REQUIRE(start());
        before_ = memory_of_server(0).bytes_in_use();
        memory_of_server(0).set_limit(before_ + (size_t{20} << 20));
    }

    [[nodiscard]] size_t used_bytes() { return memory_of_server(0).bytes_in_use() - before_; }

    void check_refused(const Result<TableInfo>& table) {
        REQUIRE_FALSE(table.has_value());
        INFO(table.error().message());
        CHECK(table.code() == Errc::kNoMemory);
        CHECK(table.error().message().find("choose a smaller max_delay") != std::string::npos);
    }

    void check_push(const TableInfo& table) {
        const std::vector<float> ones(kRefusedKeys, 1);
        CHECK(finish(0, workers[0]->push(table, KeyRange{0, kRefusedKeys},
                                         std::as_bytes(std::span(ones)), {}))
                  .has_value());
        std::vector<float> out(kRefusedKeys);
        CHECK(finish(1, workers[1]->pull(table, KeyRange{0, kRefusedKeys},
                                         std::as_writable_bytes(std::span(out)), {}))
                  .has_value());
        CHECK(out == ones);
    }

private:
    static SimShape shape_of(uint32_t manager_count) {
        SimShape shape;
        shape.servers = 1;
        shape.workers = 2;
        shape.managers = manager_count;
        shape.is_manager_apart = manager_count > 1;
        return shape;
    }

    size_t before_ = 0;
};

}  // namespace

TEST_SUITE("refused table") {
    TEST_CASE("a table that fits on one of two shards leaves nothing, and a smaller one is made") {
        for (const uint32_t managers : {1, 3}) {
            CAPTURE(managers);
            ShortCluster cluster(1, managers);
            const auto call = cluster.workers[1]->create_table(windowed_table(63));
            cluster.check_refused(cluster.make_table(0, windowed_table(63)));
            REQUIRE(cluster.run_until([&] { return cluster.workers[1]->done(call); }));
            cluster.run_idle(5);
            CHECK(cluster.used_bytes() == 0);
            CHECK(cluster.finish(1, cluster.workers[1]->open_table("w")).code() == Errc::kNotFound);

            const auto table = cluster.make_table(0, windowed_table(3));
            REQUIRE(table.has_value());
            CHECK(table->schema.max_delay == 3);
            CHECK(cluster.used_bytes() > 0);
            const auto plain = cluster.make_table(0, dense_table("plain", kRefusedKeys));
            REQUIRE(plain.has_value());
            cluster.check_push(*plain);
        }
    }

    TEST_CASE("managers of which another one leads know nothing of a refused table") {
        ShortCluster cluster(1, 3);
        cluster.check_refused(cluster.make_table(0, windowed_table(63)));
        const uint32_t leader = cluster.leading_manager();
        REQUIRE(leader != ~uint32_t{0});
        cluster.kill_manager(leader);
        const auto table = cluster.make_table(0, windowed_table(0));
        INFO((table ? "" : table.error().message()));
        REQUIRE(table.has_value());
        cluster.check_push(*table);
    }

    TEST_CASE("a server that joins takes no memory for a refused table, whenever it comes") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 30; ++seed) {
            INFO("WEIR_SEED=" << seed);
            ShortCluster cluster(seed);
            const bool is_before = seed % 2 == 0;
            const auto call = cluster.workers[0]->create_table(windowed_table(63));
            if (!is_before) {
                for (uint64_t i = 0; i < seed * 3; ++i)
                    (void)cluster.step();
            }
            (void)cluster.add_server();
            REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
            cluster.check_refused(cluster.workers[0]->take_table(call));
            REQUIRE(cluster.run_until([&] {
                return cluster.managers_view().servers().size() == 2 &&
                       cluster.shards.back()->epoch() != 0;
            }));
            cluster.run_idle(20);
            for (const auto& shard : cluster.shards)
                CHECK(std::ranges::all_of(shard->tables(),
                                          [](const auto& table) { return table == nullptr; }));
            const auto table = cluster.make_table(0, windowed_table(0));
            REQUIRE(table.has_value());
            cluster.check_push(*table);
        }
    }
}

}  // namespace weir::test
