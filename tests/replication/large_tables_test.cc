// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables that are larger than what copies take as one change: they are read from a checkpoint, and copied
/// anew, in pieces. How much memory that takes beyond the pools.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/checkpoint_folder.h"
#include "tests/cluster/equal_copies.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/heap_bytes.h"
#include "tests/log_lines.h"

namespace weir::test {
namespace {

constexpr uint32_t kLargeWidth = 128;
constexpr uint64_t kLargeKeys = 80'000;  // 40 MiB of values
constexpr size_t kLargeChangeBytes = size_t{1} << 20;
/// Of the 64 MiB per stream. There are at most six streams here, and a table that waited in memory as a
/// whole would take more at one shard alone.
constexpr size_t kHeapBytesMax = size_t{16} << 20;

TableSchema large_table(Layout layout) {
    TableSchema schema = layout == Layout::kDense
                             ? dense_table("large", kLargeKeys, ValueType::kFloat32)
                             : sparse_table("large", ValueType::kFloat32);
    schema.width = kLargeWidth;
    return schema;
}

SimShape shape_with_limit(uint32_t servers, uint32_t replicas) {
    SimShape shape;
    shape.servers = servers;
    shape.shards = 1;
    shape.workers = 1;
    shape.replicas = replicas;
    shape.is_manager_apart = true;
    shape.change_bytes_max = kLargeChangeBytes;
    return shape;
}

/// Runs until `over`. Returns how much more than now was on the heap at any instant.
template <class Over>
size_t heap_growth_until(SimCluster& cluster, Over&& over) {
    const size_t before = testing::heap_bytes();
    size_t most = before;
    size_t turn = 0;
    REQUIRE(cluster.run_until([&] {
        if (turn++ % 16 == 0) most = std::max(most, testing::heap_bytes());
        return over();
    }));
    return most - before;
}

bool has_copies_of_large(const SimCluster& cluster) {
    const View view = cluster.manager->view();
    return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
        return segment.backup_count() == cluster.shape().replicas;
    });
}

void check_copies_of_large(const SimCluster& cluster) {
    const View view = cluster.manager->view();
    for (size_t i = 0; i < view.segments().size(); ++i) {
        const ViewSegment& segment = view.segments()[i];
        for (size_t b = 0; b < segment.backup_count(); ++b) {
            check_equal_copies(*cluster.find_shard(*view.shard(segment.primary)),
                               *cluster.find_shard(*view.shard(segment.backups[b])), view.range(i));
        }
    }
}

void push_large(SimCluster& cluster, const TableInfo& table) {
    constexpr uint64_t kStep = 2000;
    const std::vector<float> ones(kStep * kLargeWidth, 1.5F);
    std::vector<uint64_t> keys(kStep);
    for (uint64_t first = 0; first < kLargeKeys; first += kStep) {
        for (uint64_t i = 0; i < kStep; ++i)
            keys[i] = first + i;
        REQUIRE(cluster.finish(
            0, cluster.workers[0]->push(table, keys, std::as_bytes(std::span(ones)), {})));
    }
}

/// The sum of all values of some keys all over the table.
double sum_of_some_large(SimCluster& cluster, const TableInfo& table) {
    std::vector<uint64_t> keys;
    for (uint64_t key = 7; key < kLargeKeys; key += 1009)
        keys.push_back(key);
    std::vector<float> out(keys.size() * kLargeWidth);
    REQUIRE(cluster.finish(
        0, cluster.workers[0]->pull(table, keys, std::as_writable_bytes(std::span(out)), {})));
    double sum = 0;
    for (const float value : out)
        sum += value;
    return sum / static_cast<double>(out.size());
}

/// A checkpoint of a job with such a table, of which all values are 1.5.
CheckpointFolder written_large(Layout layout) {
    CheckpointFolder folder;
    SimShape shape{.servers = 1, .shards = 2, .workers = 1};
    shape.checkpoints = folder.options();
    StartedCluster cluster(1, shape, large_table(layout));
    push_large(cluster, cluster.table);
    const auto asked = cluster.client().checkpoint(0);
    REQUIRE(cluster.finish(0, asked));
    return folder;
}

}  // namespace

TEST_SUITE("large tables") {
    TEST_CASE("a job with copies goes on from a checkpoint of any size, in bounded memory") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            const CheckpointFolder folder = written_large(layout);
            for (const uint32_t replicas : {1U, 2U}) {
                INFO("replicas " << replicas << ", dense " << (layout == Layout::kDense));
                SimShape shape = shape_with_limit(3, replicas);
                folder.resume(shape);
                SimCluster cluster(2, shape, {.maps_memory = true});
                REQUIRE(cluster.start());
                const auto call = cluster.workers[0]->create_table(large_table(layout));
                const size_t grown =
                    heap_growth_until(cluster, [&] { return cluster.workers[0]->done(call); });
                MESSAGE("heap beyond the pools: " << (grown >> 10) << " KiB");
                CHECK(grown < kHeapBytesMax);
                const auto table = cluster.workers[0]->take_table(call);
                REQUIRE(table.has_value());
                REQUIRE(has_copies_of_large(cluster));
                check_copies_of_large(cluster);  // before anybody has pushed
                CHECK(sum_of_some_large(cluster, *table) == 1.5);
                push_large(cluster, *table);
                cluster.run_idle(20);
                check_copies_of_large(cluster);
            }
        }
    }

    TEST_CASE("copies that are lost while a table is read are made anew, and all rows arrive") {
        const CheckpointFolder folder = written_large(Layout::kSparse);
        for (uint64_t turns = 500; turns < 8000; turns += 1500) {
            INFO("turns " << turns);
            SimShape shape = shape_with_limit(4, 1);
            folder.resume(shape);
            SimCluster cluster(turns, shape, {});
            REQUIRE(cluster.start());
            const auto call = cluster.workers[0]->create_table(large_table(Layout::kSparse));
            uint64_t turn = 0;
            (void)cluster.run_until(
                [&] { return ++turn > turns || cluster.workers[0]->done(call); });
            cluster.shards[1].reset();
            cluster.kill_host(1);
            REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
            const auto table = cluster.workers[0]->take_table(call);
            REQUIRE(table.has_value());
            CHECK(sum_of_some_large(cluster, *table) == 1.5);
            REQUIRE(cluster.run_until([&] {
                return cluster.manager->view().servers().size() == 3 &&
                       has_copies_of_large(cluster);
            }));
            cluster.run_idle(20);
            check_copies_of_large(cluster);
        }
    }

    TEST_CASE("lost copies are made anew in bounded memory") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            INFO("dense " << (layout == Layout::kDense));
            SimCluster cluster(1, shape_with_limit(3, 1), {.maps_memory = true});
            REQUIRE(cluster.start());
            const auto table = cluster.make_table(0, large_table(layout));
            REQUIRE(table.has_value());
            push_large(cluster, *table);
            cluster.shards[2].reset();
            cluster.kill_host(2);
            const size_t grown = heap_growth_until(cluster, [&] {
                return cluster.manager->view().servers().size() == 2 &&
                       has_copies_of_large(cluster);
            });
            MESSAGE("heap beyond the pools: " << (grown >> 10) << " KiB");
            CHECK(grown < kHeapBytesMax);
            cluster.run_idle(20);
            check_copies_of_large(cluster);
        }
    }

    TEST_CASE("a copy that takes over while it applies a long change has all of it, once") {
        SimShape shape = shape_with_limit(3, 1);
        shape.change_bytes_max = Streams::kChangeBytesMax;
        SimCluster cluster(1, shape, {.maps_memory = true});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, large_table(Layout::kDense));
        REQUIRE(table.has_value());
        const View view = cluster.manager->view();
        const auto value_at = [&](const Shard& shard, uint64_t key) {
            float value = 0;
            const auto row = shard.tables()[0]->rows->values({key, key + 1});
            REQUIRE(row.has_value());
            std::memcpy(&value, row->data(), sizeof value);
            return value;
        };
        // A primary, and the shard that has a part of its iteration.
        using Torn = std::optional<std::pair<uint32_t, uint32_t>>;
        const auto find_torn = [&]() -> Torn {
            const PositionMap& map = table->positions;
            for (uint32_t backup = 0; backup < 3; ++backup) {
                std::map<uint32_t, std::set<float>> seen;
                for (size_t i = 0; i < view.segments().size(); ++i) {
                    const ViewSegment& segment = view.segments()[i];
                    if (segment.backups[0] != backup) continue;
                    const Shard& shard = *cluster.shards[backup];
                    std::set<float>& values = seen[segment.primary];
                    values.insert(value_at(shard, map.first_key_at(view.range(i).first)));
                    values.insert(value_at(shard, map.end_key_at(view.range(i).last) - 1));
                    if (values.size() > 1) return std::pair{segment.primary, backup};
                }
            }
            return std::nullopt;
        };
        const std::vector<float> ones(kLargeKeys * kLargeWidth, 1);
        const auto call = cluster.workers[0]->push(
            *table, KeyRange{0, kLargeKeys}, std::as_bytes(std::span(ones)), {.iteration = 1});
        Torn torn;
        REQUIRE(cluster.run_until([&] { return (torn = find_torn()).has_value(); }));
        // The end of the stream and the view are there when it goes on.
        cluster.stopped.insert(cluster.shards[torn->second].get());
        cluster.shards[torn->first].reset();
        cluster.kill_host(torn->first);
        cluster.run_idle(100);
        cluster.stopped.clear();
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
        CHECK(cluster.workers[0]->take(call));
        REQUIRE(cluster.run_until([&] {
            return cluster.manager->view().servers().size() == 2 && has_copies_of_large(cluster);
        }));
        CHECK(sum_of_some_large(cluster, *table) == 1);
        cluster.run_idle(20);
        check_copies_of_large(cluster);
    }

    TEST_CASE(
        "an iteration that changes more than copies can take fails at its first part too many") {
        const testing::LogLines log;
        SimShape shape = shape_with_limit(2, 1);
        shape.workers = 2;
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, large_table(Layout::kSparse));
        REQUIRE(table.has_value());
        const auto part = [&](uint32_t worker, uint64_t iteration, uint64_t first, uint64_t count) {
            std::vector<uint64_t> keys;
            for (uint64_t key = first; key < first + count; ++key)
                keys.push_back(key);
            const std::vector<float> ones(count * kLargeWidth, 1);
            return cluster.workers[worker]->push(*table, keys, std::as_bytes(std::span(ones)),
                                                 {.iteration = iteration});
        };
        // 4,000 rows of 512 bytes at each shard are two times as much as copies take; 1,500 of them fit,
        // also if both workers push to them.
        auto one = part(0, 1, 0, 4000);
        auto other = part(1, 1, 4000, 4000);
        for (const Status& ended : {cluster.finish(0, one), cluster.finish(1, other)}) {
            CHECK(ended.code() == Errc::kNoMemory);
            CHECK(ended.error().text().find("see in its log which limit was reached") !=
                  std::string::npos);
        }
        CHECK(log.count("copies take at most 1 MiB of a change") > 0);
        for (uint64_t iteration = 2; iteration < 5; ++iteration) {
            one = part(0, iteration, 0, 3000);
            other = part(1, iteration, 0, 3000);
            CHECK(cluster.finish(0, one));
            CHECK(cluster.finish(1, other));
        }
        cluster.run_idle(20);
        check_copies_of_large(cluster);
    }
}

}  // namespace weir::test
