// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reading out a table at shards of a simulated cluster, while workers push; and cursors and
/// requests that no worker of ours sends.

#include <cstring>
#include <map>
#include <numeric>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/server/requests/row_scan.h"
#include "lib/store/rules/rule_registry.h"
#include "tests/cluster/malformed_frames.h"
#include "tests/cluster/raw_worker.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

ScanMessage scan_of(const TableInfo& table, uint64_t epoch) {
    ScanMessage message;
    message.epoch = epoch;
    message.table = table.schema.id;
    message.width = table.schema.width;
    message.value_type = static_cast<uint8_t>(table.schema.value_type);
    return message;
}

std::vector<uint64_t> keys_of(const ScanReply& reply) {
    std::vector<uint64_t> keys(reply.row_count);
    if ((reply.flags & ScanReply::kRange) != 0) {
        std::iota(keys.begin(), keys.end(), reply.first_key);
    } else if (!keys.empty()) {
        std::memcpy(keys.data(), reply.keys.data(), reply.keys.size());
    }
    return keys;
}

template <class T>
std::vector<T> values_of(const ScanReply& reply) {
    std::vector<T> values(reply.values.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), reply.values.data(), reply.values.size());
    return values;
}

/// The whole table, piece by piece; calls between(piece) before each request.
template <class Between>
std::map<uint64_t, uint64_t> read_out(StartedCluster& cluster, uint32_t worker, ScanMessage message,
                                      Between between) {
    std::map<uint64_t, uint64_t> seen;
    ClientCore& core = *cluster.workers[worker];
    message.epoch = core.epoch();
    size_t pieces = 0;
    for (uint32_t shard = 0; shard < core.shard_count(); ++shard) {
        message.begins = true;
        for (bool at_end = false; !at_end;) {
            REQUIRE(++pieces < 100'000);
            between();
            const auto call = core.scan(shard, message, 0);
            REQUIRE(cluster.run_until([&] { return core.done(call); }));
            const auto body = core.take_scan(call);
            REQUIRE(body.has_value());
            const auto reply = ScanReply::decode(*body, cluster.table.row_bytes);
            REQUIRE(reply.has_value());
            const auto keys = keys_of(*reply);
            const auto values = values_of<uint64_t>(*reply);
            REQUIRE(values.size() == keys.size());
            CHECK(std::ranges::is_sorted(keys));
            for (size_t i = 0; i < keys.size(); ++i)
                CHECK(seen.emplace(keys[i], values[i]).second);
            message.begins = false;
            message.cursor = reply->cursor;
            at_end = (reply->flags & ScanReply::kAtEnd) != 0;
        }
    }
    return seen;
}

}  // namespace

TEST_SUITE("scan") {
    TEST_CASE("each key comes once, with a value that it had meanwhile, while workers push") {
        WEIR_TEST_SEED(seed, 71);
        for (uint64_t round = 0; round < 6; ++round) {
            Random random(seed + round);
            const bool is_dense = round % 3 == 2;
            const uint64_t key_count = is_dense ? 3000 : 20'000;
            SimShape shape;
            shape.message_bytes_max = 4096;
            StartedCluster cluster(seed + round, shape,
                                   is_dense ? dense_table("t", key_count, ValueType::kUInt64)
                                            : sparse_table("t", ValueType::kUInt64));
            std::map<uint64_t, uint64_t> sums;  // what was pushed so far
            const auto push = [&](uint32_t worker, uint64_t count) {
                std::map<uint64_t, uint64_t> chosen;
                for (uint64_t i = 0; i < count; ++i)
                    chosen.emplace(random.below(key_count), 1 + random.below(9));
                std::vector<uint64_t> keys;
                std::vector<uint64_t> deltas;
                for (const auto& [key, delta] : chosen) {
                    keys.push_back(key);
                    deltas.push_back(delta);
                    sums[key] += delta;
                }
                const auto call = cluster.workers[worker]->push(
                    cluster.table, keys, std::as_bytes(std::span(deltas)), {});
                REQUIRE(cluster.finish(worker, call));
            };
            push(1, 2000);
            const auto before = sums;
            const auto seen = read_out(cluster, 0, scan_of(cluster.table, 0), [&] {
                if (random.below(4) == 0) push(1 + static_cast<uint32_t>(random.below(2)), 100);
            });
            for (const auto& [key, sum] : before) {
                const auto at = seen.find(key);
                REQUIRE(at != seen.end());
                CHECK((at->second >= sum && at->second <= sums[key]));
            }
            for (const auto& [key, value] : seen)
                CHECK(value <= sums[key]);
            if (is_dense) CHECK(seen.size() == key_count);
        }
    }

    TEST_CASE("only the keys and positions that were asked for come") {
        for (const bool is_dense : {true, false}) {
            StartedCluster cluster(3, {},
                                   is_dense ? dense_table("t", 1000, ValueType::kUInt64)
                                            : sparse_table("t", ValueType::kUInt64));
            std::vector<uint64_t> keys(1000);
            std::iota(keys.begin(), keys.end(), 0);
            const auto call =
                cluster.client().push(cluster.table, keys, std::as_bytes(std::span(keys)), {});
            REQUIRE(cluster.finish(0, call));
            ScanMessage message = scan_of(cluster.table, 0);
            message.first_key = 100;
            message.last_key = 299;
            const auto seen = read_out(cluster, 0, message, [] {});
            CHECK(seen.size() == 200);
            CHECK(seen.begin()->first == 100);
            CHECK(seen.rbegin()->first == 299);
            message.first_key = message.last_key = 999;
            CHECK(read_out(cluster, 0, message, [] {}).size() == 1);
            message = scan_of(cluster.table, 0);
            message.positions = {PositionRange{1, uint64_t{1} << 61},
                                 PositionRange{uint64_t{1} << 62, uint64_t{1} << 63}};
            const PositionSet wanted(message.positions);
            size_t expected = 0;
            for (const uint64_t key : keys) {
                if (wanted.contains(cluster.table.positions.position(key))) ++expected;
            }
            CHECK(read_out(cluster, 0, message, [] {}).size() == expected);
        }
    }

    TEST_CASE("rows longer than a message come as keys alone") {
        HeapMemory memory;
        KnownLists lists(memory, 0);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto table =
            *TableShard::make({.name = "t", .layout = Layout::kSparse, .width = 1000},
                              PositionSet::whole_ring(), rules, memory, lists);
        std::vector<uint64_t> keys(2000);
        std::iota(keys.begin(), keys.end(), 5);
        const std::vector<float> ones(keys.size() * 1000, 1.0F);
        REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(ones))));
        RowScan scan;
        ScanMessage message;
        size_t rows = 0;
        for (bool at_end = false; !at_end;) {
            const auto body = scan.run(*table, message, PositionSet::whole_ring(), 1024);
            CHECK(body.size() <= 1024);
            const auto reply = ScanReply::decode(body, 4000);
            REQUIRE(reply.has_value());
            CHECK((reply->flags & ScanReply::kKeysOnly) != 0);
            rows += reply->row_count;
            at_end = (reply->flags & ScanReply::kAtEnd) != 0;
            message.begins = false;
            message.cursor = reply->cursor;
        }
        CHECK(rows == keys.size());
    }

    TEST_CASE("any cursor is answered, and a walk from it ends") {
        WEIR_TEST_SEED(seed, 72);
        Random random(seed);
        for (const bool is_dense : {true, false}) {
            SimShape shape = one_shard(2);
            StartedCluster cluster(seed, shape,
                                   is_dense ? dense_table("t", 500, ValueType::kUInt64)
                                            : sparse_table("t", ValueType::kUInt64));
            std::vector<uint64_t> keys(500);
            std::iota(keys.begin(), keys.end(), 0);
            const auto call =
                cluster.client().push(cluster.table, keys, std::as_bytes(std::span(keys)), {});
            REQUIRE(cluster.finish(0, call));
            ClientCore& core = cluster.client();
            for (int i = 0; i < 100; ++i) {
                ScanMessage message = scan_of(cluster.table, core.epoch());
                message.begins = false;
                message.cursor = i == 0 ? 0 : i == 1 ? ~uint64_t{0} : random();
                bool at_end = false;
                for (int step = 0; step < 20 && !at_end; ++step) {
                    const auto asked = core.scan(0, message, 0);
                    REQUIRE(cluster.run_until([&] { return core.done(asked); }));
                    const auto body = core.take_scan(asked);
                    REQUIRE(body.has_value());
                    const auto reply = ScanReply::decode(*body, 8);
                    REQUIRE(reply.has_value());
                    at_end = (reply->flags & ScanReply::kAtEnd) != 0;
                    message.cursor = reply->cursor;
                }
                CHECK(at_end);
            }
        }
    }

    TEST_CASE("scans that cannot be served are refused, each for its reason") {
        StartedCluster cluster(5, one_shard(), sparse_table("t", ValueType::kUInt64));
        ClientCore& core = cluster.client();
        const auto code_of = [&](auto change) {
            ScanMessage message = scan_of(cluster.table, core.epoch());
            change(message);
            const auto call = core.scan(0, message, 0);
            REQUIRE(cluster.run_until([&] { return core.done(call); }));
            return core.take_scan(call).code();
        };
        CHECK(code_of([](ScanMessage&) {}) == Errc::kOk);
        CHECK(code_of([](ScanMessage& m) { m.table = 7; }) == Errc::kNotFound);
        CHECK(code_of([](ScanMessage& m) { m.table = ~0U; }) == Errc::kNotFound);
        // The worker waits for the view that is missing.
        CHECK(code_of([](ScanMessage& m) { m.epoch = 0; }) == Errc::kDeadline);
        CHECK(code_of([](ScanMessage& m) { m.epoch = 1000; }) == Errc::kDeadline);
        CHECK(code_of([](ScanMessage& m) { m.width = 2; }) == Errc::kTypeMismatch);
        CHECK(code_of([](ScanMessage& m) { m.value_type = 200; }) == Errc::kTypeMismatch);
        CHECK(core.take_scan(core.scan(3, scan_of(cluster.table, 1), 0)).code() ==
              Errc::kStaleEpoch);
    }

    TEST_CASE("a scan at a server that dies ends as a pull does") {
        StartedCluster cluster(9, {}, sparse_table("t", ValueType::kUInt64));
        ClientCore& core = cluster.client();
        const auto open = core.scan(3, scan_of(cluster.table, core.epoch()), 0);
        cluster.network.kill(1);
        REQUIRE(cluster.run_until([&] { return core.done(open); }));
        CHECK(core.take_scan(open).code() == Errc::kPeerLost);
        const auto next = core.scan(3, scan_of(cluster.table, core.epoch()), 0);
        REQUIRE(cluster.run_until([&] { return core.done(next); }));
        CHECK(core.take_scan(next).code() == Errc::kPeerLost);
    }

    TEST_CASE("a malformed scan closes the connection, and the others are served") {
        SimCluster cluster(1, one_shard(2), {});
        cluster.workers[1].reset();
        RawWorker raw(cluster, 99);
        raw.join(1);
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->ready(); }));
        const auto made = cluster.make_table(0, sparse_table("t", ValueType::kUInt64));
        REQUIRE(made.has_value());
        const std::vector<std::byte> good = scan_of(*made, 1).encode();
        std::vector<std::vector<std::byte>> bodies{
            {},
            {good.begin(), good.end() - 1},
            std::vector<std::byte>(good.size() + 1),
            std::vector<std::byte>(4000, std::byte{0xff}),
        };
        ScanMessage backwards = scan_of(*made, 1);
        backwards.first_key = 2;
        backwards.last_key = 1;
        bodies.push_back(backwards.encode());
        backwards = scan_of(*made, 1);
        backwards.positions = {PositionRange{2, 1}};
        bodies.push_back(backwards.encode());
        backwards.positions = {PositionRange{3, 4}, PositionRange{4, 5}};
        bodies.push_back(backwards.encode());
        backwards.positions.clear();
        bodies.push_back(backwards.encode());
        for (uint64_t i = 0; i <= ScanMessage::kRangesMax; ++i)
            backwards.positions.push_back({2 * i, 2 * i});
        bodies.push_back(backwards.encode());
        for (const auto& body : bodies) {
            cluster.clock.advance(RepeatedLog::kIntervalNs);
            const LogLines log;
            const auto connection = raw.hello(*cluster.shards[0], 1);
            raw.run();
            raw.send(connection, testing::frame_header(wire::Kind::kScan), body);
            REQUIRE(raw.run_until([&] { return raw.is_closed(connection); }));
            CHECK(closings(log, cluster.shards[0]->name(), "a malformed scan") == 1);
        }
        const auto call = cluster.workers[0]->scan(0, scan_of(*made, 1), 0);
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(call); }));
        CHECK(cluster.workers[0]->take_scan(call).has_value());
    }
}

}  // namespace weir::test
