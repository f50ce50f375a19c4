// SPDX-License-Identifier: Apache-2.0
/// \file
/// Reading out a table at shards of a simulated cluster, while workers push; and cursors and
/// requests that no worker of ours sends.

#include <array>
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

/// Of a piece of rows with one value.
struct Rows {
    ScanReply reply;
    std::vector<uint64_t> keys;
    std::vector<uint64_t> values;
};

/// Asks a shard with so much memory, and takes what it wrote.
Result<Rows> ask(StartedCluster& cluster, ClientCore& core, uint32_t shard,
                 const ScanMessage& message, size_t bytes = 4096) {
    const auto call = core.scan(shard, message, Block(core.memory(), bytes), 0);
    REQUIRE(cluster.run_until([&] { return core.done(call); }));
    auto scanned = core.take_scan(call);
    if (!scanned) return scanned.error();
    REQUIRE(scanned->memory);
    const auto reply = ScanReply::decode(scanned->body);
    REQUIRE(reply.has_value());
    Rows rows{*reply, std::vector<uint64_t>(reply->row_count),
              std::vector<uint64_t>(reply->row_count)};
    const ScanColumns columns{sizeof(uint64_t), 0};
    REQUIRE(columns.bytes(reply->row_count) <= bytes);
    if (reply->row_count == 0) return rows;
    const std::byte* const memory = scanned->memory.data();
    std::memcpy(rows.keys.data(), memory, rows.keys.size() * sizeof(uint64_t));
    std::memcpy(rows.values.data(), memory + columns.values_at(reply->row_count),
                rows.values.size() * sizeof(uint64_t));
    return rows;
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
            const auto rows = ask(cluster, core, shard, message);
            REQUIRE(rows.has_value());
            for (size_t i = 0; i < rows->keys.size(); ++i)
                CHECK(seen.emplace(rows->keys[i], rows->values[i]).second);
            message.begins = false;
            message.by_row = (rows->reply.flags & ScanReply::kByRow) != 0;
            message.cursor = rows->reply.cursor;
            at_end = (rows->reply.flags & ScanReply::kAtEnd) != 0;
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
            const uint64_t key_count = 20'000;
            StartedCluster cluster(seed + round, {}, sparse_table("t", ValueType::kUInt64));
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
        }
    }

    TEST_CASE("only the keys and positions that were asked for come") {
        StartedCluster cluster(3, {}, sparse_table("t", ValueType::kUInt64));
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

    TEST_CASE("columns lie one behind the other, with zeros between them") {
        HeapMemory memory;
        KnownLists lists(memory, 0);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        TableSchema schema{.name = "t", .layout = Layout::kSparse, .width = 3, .rule = "adagrad"};
        schema.parameters.value = {0.5, 0.01};
        const auto table =
            *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists);
        std::vector<uint64_t> keys(2001);
        std::iota(keys.begin(), keys.end(), 5);
        std::vector<float> pushed(keys.size() * 3);
        std::iota(pushed.begin(), pushed.end(), 1.0F);
        REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(pushed))));
        for (uint8_t wanted = 0; wanted < 4; ++wanted) {
            RowScan scan;
            ScanMessage message;
            message.columns = wanted;
            const ScanColumns columns = RowScan::columns_of(*table, message);
            CHECK(columns.value_bytes == ((wanted & 1) != 0 ? 12 : 0));
            CHECK(columns.state_bytes == ((wanted & 2) != 0 ? 12 : 0));
            size_t rows = 0;
            for (bool at_end = false; !at_end;) {
                const size_t rows_max = columns.rows_in(1000);
                CHECK(columns.bytes(rows_max) <= 1000);
                const ScanReply reply =
                    *scan.list(*table, message, PositionSet::whole_ring(), rows_max);
                REQUIRE(reply.row_count <= rows_max);
                std::vector<std::byte> out(columns.bytes(reply.row_count), std::byte{0xee});
                scan.copy(*table, columns, out);
                for (size_t i = 0; i < reply.row_count; ++i) {
                    uint64_t key = 0;
                    std::memcpy(&key, out.data() + i * sizeof key, sizeof key);
                    const auto found = table->rows_for_pull({&key, 1});
                    REQUIRE(found->rows[0] != kNoRow);
                    std::array<std::byte, 12> expected{};
                    if ((wanted & 1) != 0) {
                        REQUIRE(table->pull(*found, expected));
                        CHECK(std::memcmp(expected.data(),
                                          out.data() + columns.values_at(reply.row_count) + i * 12,
                                          12) == 0);
                    }
                    if ((wanted & 2) != 0) {
                        table->copy_state(found->rows, expected);
                        CHECK(std::memcmp(expected.data(),
                                          out.data() + columns.state_at(reply.row_count) + i * 12,
                                          12) == 0);
                    }
                }
                if (reply.row_count % 2 == 1 && (wanted & 2) != 0)
                    CHECK(out.back() == std::byte{0});
                rows += reply.row_count;
                at_end = (reply.flags & ScanReply::kAtEnd) != 0;
                message.begins = false;
                message.by_row = (reply.flags & ScanReply::kByRow) != 0;
                message.cursor = reply.cursor;
            }
            CHECK(rows == keys.size());
        }
        CHECK(ScanColumns{12, 0}.rows_in(23) == 0);
        CHECK(ScanColumns{12, 0}.rows_in(24) == 1);
    }

    TEST_CASE("any cursor is answered, and a walk from it ends") {
        WEIR_TEST_SEED(seed, 72);
        Random random(seed);
        StartedCluster cluster(seed, one_shard(2), sparse_table("t", ValueType::kUInt64));
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
                const auto rows = ask(cluster, core, 0, message);
                REQUIRE(rows.has_value());
                at_end = (rows->reply.flags & ScanReply::kAtEnd) != 0;
                message.by_row = (rows->reply.flags & ScanReply::kByRow) != 0;
                message.cursor = rows->reply.cursor;
            }
            CHECK(at_end);
        }
    }

    TEST_CASE("scans that cannot be served are refused, each for its reason") {
        StartedCluster cluster(5, one_shard(), sparse_table("t", ValueType::kUInt64));
        ClientCore& core = cluster.client();
        const auto code_of = [&](auto change) {
            ScanMessage message = scan_of(cluster.table, core.epoch());
            change(message);
            return ask(cluster, core, 0, message).code();
        };
        CHECK(code_of([](ScanMessage&) {}) == Errc::kOk);
        CHECK(code_of([](ScanMessage& m) { m.table = 7; }) == Errc::kNotFound);
        CHECK(code_of([](ScanMessage& m) { m.table = ~0U; }) == Errc::kNotFound);
        // The worker waits for the view that is missing.
        CHECK(code_of([](ScanMessage& m) { m.epoch = 0; }) == Errc::kDeadline);
        CHECK(code_of([](ScanMessage& m) { m.epoch = 1000; }) == Errc::kDeadline);
        CHECK(code_of([](ScanMessage& m) { m.width = 2; }) == Errc::kTypeMismatch);
        CHECK(code_of([](ScanMessage& m) { m.value_type = 200; }) == Errc::kTypeMismatch);
        CHECK(ask(cluster, core, 0, scan_of(cluster.table, core.epoch()), 15).code() ==
              Errc::kInvalidArgument);
        CHECK(ask(cluster, core, 3, scan_of(cluster.table, 1)).code() == Errc::kStaleEpoch);
        const auto dense = cluster.make_table(0, dense_table("d", 10, ValueType::kUInt64));
        REQUIRE(dense.has_value());
        CHECK(ask(cluster, core, 0, scan_of(*dense, core.epoch())).code() ==
              Errc::kInvalidArgument);
    }

    TEST_CASE("a scan at a server that dies ends as a pull does") {
        StartedCluster cluster(9, {}, sparse_table("t", ValueType::kUInt64));
        ClientCore& core = cluster.client();
        const auto open =
            core.scan(3, scan_of(cluster.table, core.epoch()), Block(core.memory(), 4096), 0);
        cluster.network.kill(1);
        REQUIRE(cluster.run_until([&] { return core.done(open); }));
        CHECK(core.take_scan(open).code() == Errc::kPeerLost);
        CHECK(ask(cluster, core, 3, scan_of(cluster.table, core.epoch())).code() ==
              Errc::kPeerLost);
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
        backwards.memory.length_bytes = wire::kRequestBytesMax + 1;
        backwards.positions = {PositionRange{}};
        bodies.push_back(backwards.encode());
        backwards = scan_of(*made, 1);
        backwards.columns = 8;
        bodies.push_back(backwards.encode());
        backwards = scan_of(*made, 1);
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
        ClientCore& core = *cluster.workers[0];
        const auto call = core.scan(0, scan_of(*made, 1), Block(core.memory(), 4096), 0);
        REQUIRE(cluster.run_until([&] { return core.done(call); }));
        CHECK(core.take_scan(call).has_value());
    }
}

}  // namespace weir::test
