// SPDX-License-Identifier: Apache-2.0
/// \file
/// Parts of iterations that name keys which the shard has, but is not primary of: copies of another
/// shard's, and what it has given away. And rows that parts make before they count.

#include <algorithm>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/byte_codec.h"
#include "lib/key/key_list.h"
#include "tests/cluster/equal_copies.h"
#include "tests/cluster/raw_worker_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kManyKeys = 1024;

enum class Named : uint8_t { kRange, kList, kKnownList };

SimShape with_copies() {
    SimShape shape = one_shard(2);
    shape.servers = 2;
    shape.replicas = 1;
    return shape;
}

/// What all shards have sent, to anybody.
uint64_t bytes_sent(SimCluster& cluster) {
    uint64_t bytes = 0;
    for (uint32_t shard = 0; shard < cluster.shards.size(); ++shard) {
        const auto call = cluster.workers[0]->stats(shard);
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
        const auto stats = cluster.workers[0]->take_stats(call);
        REQUIRE(stats.has_value());
        bytes += stats->bytes_sent;
    }
    return bytes;
}

/// A sparse table that has copies; iterations wait for both workers.
class SparseSums : public SimCluster {
public:
    SparseSums() : SimCluster(1, shape_of_two(), {}) {
        REQUIRE(start());
        table = *make_table(0, sparse_table("sums", ValueType::kFloat64));
        run_idle(50);
    }

    /// Adds 1 to each of the keys.
    ClientCore::CallId push_ones(const std::vector<uint64_t>& keys, const CallOptions& options) {
        ones_.assign(keys.size(), 1.0);
        return workers[0]->push(table, keys, std::as_bytes(std::span(ones_)), options);
    }

    TableInfo table;

private:
    static SimShape shape_of_two() {
        SimShape shape = with_copies();
        shape.workers = 2;
        return shape;
    }

    std::vector<double> ones_;
};

/// The first keys of a dense table whose primary is shard 0, side by side.
KeyRange keys_of_first_shard(const View& view) {
    const PositionMap map = PositionMap::dense(kManyKeys);
    KeyRange keys;
    for (uint64_t key = 0; key < kManyKeys && keys.key_count() < 2 * kRememberedKeysMin; ++key) {
        if (view.owner(map.position(key)) != 0) {
            keys = {};
        } else if (keys.empty()) {
            keys = {key, key + 1};
        } else {
            keys.end = key + 1;
        }
    }
    REQUIRE(keys.key_count() == 2 * kRememberedKeysMin);
    return keys;
}

void check_copies(const SimCluster& cluster) {
    const View view = cluster.managers_view();
    size_t compared = 0;
    for (size_t i = 0; i < view.segments().size(); ++i) {
        const ViewSegment& segment = view.segments()[i];
        for (size_t b = 0; b < segment.backup_count(); ++b, ++compared) {
            check_equal_copies(*cluster.find_shard(*view.shard(segment.primary)),
                               *cluster.find_shard(*view.shard(segment.backups[b])), view.range(i));
        }
    }
    REQUIRE(compared > 0);
}

/// A shard that joined has its share, and nothing is on its way.
bool has_settled(const View& view, uint32_t joined) {
    return view.shard(joined) != nullptr && !view.segments_of(joined).empty() &&
           std::ranges::none_of(view.segments(), &ViewSegment::has_learner);
}

/// A part of the first iteration, of ones.
void send_part(RawWorker& raw, transport::ConnectionId shard, uint64_t number, uint64_t epoch,
               const KeyRange& keys, Named named) {
    std::vector<uint64_t> list(keys.key_count());
    std::iota(list.begin(), list.end(), keys.begin);
    wire::FrameHeader header =
        range_request(wire::Kind::kPush, number, static_cast<uint32_t>(list.size()));
    header.epoch = static_cast<uint32_t>(epoch);
    header.time = static_cast<uint32_t>(number);
    header.iteration = 1;
    header.parts = 1;
    header.flags = wire::kValuesInline | wire::kAggregate | wire::kIteration;
    ByteWriter body;
    switch (named) {
        case Named::kRange:
            header.flags |= wire::kKeysRange;
            header.first = keys.begin;
            break;
        case Named::kList:
            header.flags |= wire::kKeysInline;
            body.raw(std::as_bytes(std::span(list)));
            break;
        case Named::kKnownList:
            header.flags |= wire::kKeysKnown;
            header.first = list_id(list).hash;
            body.number(list.front()).number(list.back());
            break;
    }
    const std::vector<double> ones(list.size(), 1.0);
    body.raw(std::as_bytes(std::span(ones)));
    raw.send(shard, header, body.bytes());
}

TEST_SUITE("unserved_keys") {
    TEST_CASE("a part that names keys of copies is refused, and changes no copy") {
        for (const Named named : {Named::kRange, Named::kList, Named::kKnownList}) {
            CAPTURE(static_cast<int>(named));
            RawWorkerCluster with(with_copies());
            SimCluster& cluster = with.cluster;
            const TableInfo table = with.make_table(kManyKeys);
            cluster.run_idle(50);  // copies are made
            const View view = cluster.managers_view();
            const KeyRange keys = keys_of_first_shard(view);
            std::vector<uint64_t> list(keys.key_count());
            std::iota(list.begin(), list.end(), keys.begin);
            const std::vector<double> ones(list.size(), 1.0);
            for (int i = 0; i < 3; ++i) {  // so often that the copy knows the list
                const auto push =
                    cluster.workers[0]->push(table, list, std::as_bytes(std::span(ones)), {});
                REQUIRE(cluster.finish(0, push));
            }
            const auto own = push_sums(cluster, 0, table, ones, in_iteration(1));
            const auto shard = with.raw.hello(*cluster.shards[1], 1);
            send_part(with.raw, shard, 7, view.epoch(), keys, named);
            REQUIRE(with.raw.run_until([&] { return with.raw.answer(7) != nullptr; }));
            CHECK(with.raw.answer(7)->header.status ==
                  (named == Named::kKnownList ? Errc::kUnknownList : Errc::kOutOfRange));
            cluster.run_idle(50);
            CHECK(cluster.workers[0]->done(own) == (named != Named::kKnownList));
            check_copies(cluster);
        }
    }

    TEST_CASE("a part that names keys which the shard has given away is refused") {
        for (const Named named : {Named::kRange, Named::kList}) {
            CAPTURE(static_cast<int>(named));
            RawWorkerCluster with;
            SimCluster& cluster = with.cluster;
            constexpr uint64_t kKeys = 200;
            const TableInfo table = with.make_table(kKeys);
            const auto shard = with.raw.hello(*cluster.shards[0], 1);
            const uint64_t epoch = cluster.managers_view().epoch();
            // Some wait for the very view that takes half of their keys from the shard.
            for (uint64_t i = 1; i <= 8; ++i)
                send_part(with.raw, shard, i, epoch + i, {0, kKeys}, named);
            (void)cluster.add_server({.shards = 1});
            REQUIRE(with.raw.run_until([&] { return has_settled(cluster.managers_view(), 1); }));
            with.raw.run();
            // The iteration ends, and its rule runs on what the shard still has.
            const std::vector<double> ones(kKeys, 1.0);
            const Status own =
                cluster.finish(0, push_sums(cluster, 0, table, ones, in_iteration(1)));
            CHECK(own.code() == Errc::kOutOfRange);
            with.raw.run();
            bool is_any_refused = false;
            for (uint64_t i = 1; i <= 8; ++i) {
                const auto* const answer = with.raw.answer(i);
                is_any_refused |= answer != nullptr && answer->header.status == Errc::kOutOfRange;
            }
            CHECK(is_any_refused);
            CHECK(pull_sums(cluster, table).size() == kKeys);
        }
    }

    TEST_CASE("rows of keys that are new have copies before their iteration is closed") {
        SparseSums cluster;
        std::vector<uint64_t> keys(100);
        std::iota(keys.begin(), keys.end(), 5);
        const auto push = cluster.push_ones(keys, in_iteration(1));
        cluster.run_idle(50);
        CHECK_FALSE(cluster.workers[0]->done(push));
        size_t rows = 0;
        for (const auto& shard : cluster.shards)
            rows += shard->tables()[0]->rows->row_count();
        CHECK(rows == 2 * keys.size());
        check_copies(cluster);
        // Also at a server that comes meanwhile.
        (void)cluster.add_server({.shards = 1});
        REQUIRE(cluster.run_until([&] { return has_settled(cluster.managers_view(), 2); }));
        cluster.run_idle(50);
        check_copies(cluster);
    }

    TEST_CASE(
        "of a waiting part, copies get rows of new keys only before the iteration is closed") {
        SparseSums cluster;
        std::vector<uint64_t> keys(2000);
        std::iota(keys.begin(), keys.end(), 5);
        REQUIRE(cluster.finish(0, cluster.push_ones(keys, {})).has_value());
        cluster.run_idle(50);
        keys.push_back(1'000'000);
        const uint64_t before = bytes_sent(cluster);
        (void)cluster.push_ones(keys, in_iteration(1));
        cluster.run_idle(50);
        CHECK(bytes_sent(cluster) - before < keys.size());  // a row of each would be 16 times that
        check_copies(cluster);
    }

    TEST_CASE(
        "of an iteration, copies get the rows that it has changed, however long the table is") {
        SparseSums cluster;
        const TableInfo dense =
            *cluster.make_table(0, dense_table("dense", 20'000, ValueType::kFloat64));
        cluster.run_idle(50);
        std::vector<uint64_t> keys(20'000);
        std::iota(keys.begin(), keys.end(), 0);
        REQUIRE(cluster.finish(0, cluster.push_ones(keys, {})).has_value());
        const std::vector<double> ones(100, 1.0);
        const auto push = [&](const auto& which, uint64_t iteration) {
            const auto bytes = std::as_bytes(std::span(ones));
            std::vector<ClientCore::CallId> calls;
            for (size_t worker = 0; worker < 2; ++worker) {
                for (const TableInfo& table : {cluster.table, dense})
                    calls.push_back(cluster.workers[worker]->push(
                        table, which, bytes.first(which.size() * 8), in_iteration(iteration)));
            }
            for (size_t i = 0; i < calls.size(); ++i)
                REQUIRE(cluster.finish(static_cast<uint32_t>(i / 2), calls[i]).has_value());
            cluster.run_idle(50);
        };
        const std::vector<uint64_t> some{3, 4, 5, 6000, 6001, 13'000, 19'999};
        push(some, 1);  // the sparse table begins to know the keys of its rows
        const uint64_t before = bytes_sent(cluster);
        push(some, 2);
        CHECK(bytes_sent(cluster) - before < 10'000);  // of 640,000 in both tables
        check_copies(cluster);
    }

    TEST_CASE("rows that a push makes before there is no more memory have copies") {
        std::vector<uint64_t> keys(100'000);
        std::iota(keys.begin(), keys.end(), 5);
        const std::vector<double> ones(keys.size(), 1.0);
        bool is_any_half_made = false;
        for (size_t room = size_t{256} << 10; room <= size_t{8} << 20; room *= 2) {
            CAPTURE(room);
            SimCluster cluster(1, with_copies(), {});
            REQUIRE(cluster.start());
            const auto table = cluster.make_table(0, sparse_table("sums", ValueType::kFloat64));
            REQUIRE(table.has_value());
            cluster.run_idle(50);
            RegisteredMemory& memory = cluster.memory_of_server(0);
            memory.set_limit(memory.bytes_in_use() + room);
            const auto push =
                cluster.workers[0]->push(*table, keys, std::as_bytes(std::span(ones)), {});
            const Status pushed = cluster.finish(0, push);
            const TableShard& rows = *cluster.shards[0]->tables()[0]->rows;
            is_any_half_made |= !pushed && rows.row_count() > 0;
            memory.set_limit(~size_t{0});
            cluster.run_idle(50);
            check_copies(cluster);
        }
        CHECK(is_any_half_made);
    }
}

}  // namespace
}  // namespace weir::test
