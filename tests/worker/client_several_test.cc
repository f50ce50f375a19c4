// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls that push or pull in several tables, pushes that want values, and which messages they take.

#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"
#include "tests/worker/task_cluster.h"
#include "transport/fault/fault.h"

namespace weir::test {
namespace {

constexpr uint64_t kSeveralKeys = 40;

/// Workers with two tables of uint64_t, a sparse one and a dense one.
class SeveralTables : public SimCluster {
public:
    explicit SeveralTables(SimShape shape = one_shard(), transport::sim::Options links = {})
        : SimCluster(1, shape, links) {
        REQUIRE(start());
        for (const TableSchema& schema :
             {table_of(Layout::kSparse, "users", kSeveralKeys, ValueType::kUInt64),
              table_of(Layout::kDense, "items", kSeveralKeys, ValueType::kUInt64)}) {
            auto made = make_table(0, schema);
            REQUIRE(made.has_value());
            tables.push_back(*made);
        }
        std::iota(keys.begin(), keys.end(), 0);
    }

    [[nodiscard]] Operation push(size_t table, std::span<const uint64_t> values,
                                 std::span<uint64_t> out = {}) {
        Operation operation = on(table, wire::Kind::kPush);
        operation.values = std::as_bytes(values);
        operation.row_bytes = tables[table].pushed_row_bytes;
        operation.out = std::as_writable_bytes(out);
        operation.out_row_bytes = out.empty() ? 0 : tables[table].row_bytes;
        return operation;
    }

    [[nodiscard]] Operation pull(size_t table, std::span<uint64_t> out) {
        Operation operation = on(table, wire::Kind::kPull);
        operation.out = std::as_writable_bytes(out);
        operation.out_row_bytes = tables[table].row_bytes;
        return operation;
    }

    [[nodiscard]] Status run(std::vector<Operation> operations, uint32_t worker = 0) {
        return finish(worker, workers[worker]->start(std::move(operations)));
    }

    [[nodiscard]] std::vector<uint64_t> values(size_t table) {
        std::vector<uint64_t> out(kSeveralKeys);
        REQUIRE(run({pull(table, out)}));
        return out;
    }

    /// Messages that the worker has sent and received while `act` ran.
    template <class Act>
    [[nodiscard]] std::pair<uint64_t, uint64_t> messages(Act&& act) {
        const transport::EndpointCounters before = workers[0]->endpoint_counters();
        act();
        const transport::EndpointCounters& after = workers[0]->endpoint_counters();
        return {after.messages_sent - before.messages_sent,
                after.messages_received - before.messages_received};
    }

    std::vector<TableInfo> tables;
    std::vector<uint64_t> keys = std::vector<uint64_t>(kSeveralKeys);
    std::vector<uint64_t> ones = std::vector<uint64_t>(kSeveralKeys, 1);

private:
    [[nodiscard]] Operation on(size_t table, wire::Kind kind) const {
        Operation operation;
        operation.table = &tables[table];
        operation.kind = kind;
        operation.keys = keys;
        return operation;
    }
};

const std::pair<uint64_t, uint64_t> kOneEachWay{1, 1};

}  // namespace

TEST_SUITE("client_several") {
    TEST_CASE("what a call pushes and pulls in two tables is one message each way") {
        SeveralTables cluster;
        REQUIRE(cluster.run({cluster.push(0, cluster.ones)}));  // the worker has greeted the shard
        CHECK(cluster.messages([&] {
            REQUIRE(cluster.run({cluster.push(0, cluster.ones), cluster.push(1, cluster.ones)}));
        }) == kOneEachWay);
        std::vector<uint64_t> users(kSeveralKeys), items(kSeveralKeys);
        CHECK(cluster.messages([&] {
            REQUIRE(cluster.run({cluster.pull(0, users), cluster.pull(1, items)}));
        }) == kOneEachWay);
        CHECK(users == std::vector<uint64_t>(kSeveralKeys, 2));
        CHECK(items == std::vector<uint64_t>(kSeveralKeys, 1));
    }

    TEST_CASE("to each of several shards there is one message") {
        SimShape shape;
        shape.workers = 1;
        SeveralTables cluster(shape);
        REQUIRE(cluster.run({cluster.push(0, cluster.ones)}));
        const uint64_t shards = cluster.workers[0]->shard_count();
        REQUIRE(shards > 1);
        CHECK(cluster.messages([&] {
            REQUIRE(cluster.run({cluster.push(0, cluster.ones), cluster.push(1, cluster.ones)}));
        }) == std::pair{shards, shards});
    }

    TEST_CASE("what does not fit into one message goes in several") {
        SimShape shape = one_shard();
        shape.message_bytes_max = 1024;
        SeveralTables cluster(shape);
        REQUIRE(cluster.run({cluster.push(0, cluster.ones)}));
        for (int i = 0; i < 3; ++i)
            REQUIRE(cluster.run({cluster.push(0, cluster.ones), cluster.push(1, cluster.ones)}));
        CHECK(cluster.values(0) == std::vector<uint64_t>(kSeveralKeys, 4));
        CHECK(cluster.values(1) == std::vector<uint64_t>(kSeveralKeys, 3));
    }

    TEST_CASE("the same table twice: both pushes count, in order") {
        SeveralTables cluster;
        const std::vector<uint64_t> twos(kSeveralKeys, 2);
        REQUIRE(cluster.run({cluster.push(0, cluster.ones), cluster.push(0, twos)}));
        REQUIRE(cluster.run({cluster.push(0, cluster.ones)}));
        CHECK(cluster.values(0) == std::vector<uint64_t>(kSeveralKeys, 4));
    }

    TEST_CASE("the error of one table is that of the call, and the others count") {
        SeveralTables cluster;
        Operation wrong = cluster.push(1, cluster.ones);
        wrong.values = wrong.values.first(8);
        check_failed(cluster.run({cluster.push(0, cluster.ones), wrong}), Errc::kInvalidArgument,
                     "table 'items': 40 keys need 40 values, 1 each; got 1");
        CHECK(cluster.values(0) == std::vector<uint64_t>(kSeveralKeys, 0));  // nothing was sent
    }

    TEST_CASE("in an iteration each table counts its own part, and one may not be there twice") {
        SeveralTables cluster;
        const auto in_first = [](Operation operation) {
            operation.options.iteration = 1;
            return operation;
        };
        check_failed(cluster.run({in_first(cluster.push(0, cluster.ones)),
                                  in_first(cluster.push(0, cluster.ones))}),
                     Errc::kInvalidArgument,
                     "table 'users': it is twice in one push of iteration 1");
        REQUIRE(cluster.run(
            {in_first(cluster.push(0, cluster.ones)), in_first(cluster.push(1, cluster.ones))}));
        CHECK(cluster.workers[0]->next_iteration(cluster.tables[0].schema.id) == 2);
        CHECK(cluster.workers[0]->next_iteration(cluster.tables[1].schema.id) == 2);
        CHECK(cluster.values(1) == std::vector<uint64_t>(kSeveralKeys, 1));
    }

    TEST_CASE("parts in several tables wait for those before them in each") {
        SeveralTables cluster;
        ClientCore& client = *cluster.workers[0];
        const auto gate = client.push(cluster.tables[0], std::span(cluster.keys).first(1),
                                      std::as_bytes(std::span(cluster.ones).first(1)), {});
        const TaskId after = client.name_task(gate);
        std::vector<ClientCore::CallId> calls;
        for (uint64_t iteration = 1; iteration <= 3; ++iteration) {
            std::vector<Operation> operations{cluster.push(0, cluster.ones)};
            if (iteration == 1) operations.push_back(cluster.push(1, cluster.ones));
            for (Operation& one : operations) {
                one.options.iteration = iteration;
                if (iteration == 1) one.options.after = std::span(&after, 1);
            }
            calls.push_back(client.start(std::move(operations)));
        }
        for (const auto call : calls)
            REQUIRE(cluster.finish(0, call));
        std::vector<uint64_t> expected(kSeveralKeys, 3);
        ++expected[0];
        CHECK(cluster.values(0) == expected);
        CHECK(cluster.values(1) == std::vector<uint64_t>(kSeveralKeys, 1));
        REQUIRE(cluster.finish(0, gate));
    }

    TEST_CASE("a push that wants values shows itself, in the reply and in registered memory") {
        for (const bool maps_memory : {false, true}) {
            for (const bool by_range : {false, true}) {
                transport::sim::Options network;
                network.maps_memory = maps_memory;
                network.copied_bytes_max = 64;  // more goes by address
                SeveralTables cluster(one_shard(), network);
                const size_t table = by_range ? 1 : 0;
                Block registered(cluster.memory_of(0), kSeveralKeys * sizeof(uint64_t));
                for (uint64_t round = 1; round <= 4; ++round) {
                    std::vector<uint64_t> plain(kSeveralKeys);
                    std::span<uint64_t> out = plain;
                    if (round % 2 == 0)
                        out = {reinterpret_cast<uint64_t*>(registered.data()), kSeveralKeys};
                    Operation both = cluster.push(table, cluster.ones, out);
                    both.by_range = by_range;
                    both.range = {0, kSeveralKeys};
                    REQUIRE(cluster.run({both}));
                    CHECK(std::vector(out.begin(), out.end()) ==
                          std::vector<uint64_t>(kSeveralKeys, round));
                }
            }
        }
    }

    TEST_CASE("a push that wants values is one message each way") {
        SeveralTables cluster;
        REQUIRE(cluster.run({cluster.push(0, cluster.ones)}));
        std::vector<uint64_t> out(kSeveralKeys);
        CHECK(cluster.messages([&] {
            REQUIRE(cluster.run({cluster.push(0, cluster.ones, out)}));
        }) == kOneEachWay);
        CHECK(out == std::vector<uint64_t>(kSeveralKeys, 2));
    }

    TEST_CASE("which keys were pushed is known of a sparse table, and of no dense one") {
        SeveralTables cluster;
        const std::vector<uint64_t> pushed{3, 17};
        REQUIRE(cluster.finish(
            0, cluster.workers[0]->push(cluster.tables[0], pushed,
                                        std::as_bytes(std::span(cluster.ones).first(2)), {})));
        std::vector<uint8_t> flags(kSeveralKeys, 7);
        const auto ask = [&](size_t table) {
            std::vector<uint64_t> none(kSeveralKeys);
            Operation asks = cluster.pull(table, none);
            asks.asks_written = true;
            asks.out = std::as_writable_bytes(std::span(flags));
            asks.out_row_bytes = 1;
            return cluster.run({asks});
        };
        REQUIRE(ask(0));
        for (uint64_t key = 0; key < kSeveralKeys; ++key)
            CHECK(flags[key] == (key == 3 || key == 17 ? 1 : 0));
        check_failed(ask(1), Errc::kInvalidArgument, "only sparse tables know which were pushed");
    }
}

}  // namespace weir::test
