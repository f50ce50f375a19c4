// SPDX-License-Identifier: Apache-2.0
/// \file
/// A shard and the parts of iterations: which wait and how long, which make their iteration fail, and who
/// hears of that.

#include <algorithm>
#include <array>
#include <cstring>

#include <doctest/doctest.h>

#include "tests/cluster/raw_worker_cluster.h"

namespace weir::test {

TEST_SUITE("shard_iterations") {
    TEST_CASE("parts beyond the window wait, as many as may wait, and nothing is lost") {
        SimShape shape = one_shard(2);
        shape.waiting_bytes_max = 40'000;
        RawWorkerCluster with(shape);
        TableSchema wanted = sums_schema();
        wanted.max_delay = 2;
        auto table = with.cluster.make_table(0, wanted);
        REQUIRE(table.has_value());
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeysOfSums, 1);
        constexpr uint64_t kParts = 60;
        for (uint64_t i = 1; i <= kParts; ++i) {
            wire::FrameHeader header = range_request(wire::Kind::kPush, i, kKeysOfSums);
            header.flags |= wire::kAggregate | wire::kIteration;
            header.iteration = i;
            header.parts = 1;
            with.raw.send(shard, header, std::as_bytes(std::span(ones)));
        }
        with.raw.run();
        uint64_t busy = 0;
        for (uint64_t i = 1; i <= kParts; ++i) {
            if (with.raw.answer(i) == nullptr) continue;
            CHECK(with.raw.answer(i)->header.status == Errc::kBusy);
            CHECK(i > 20);
            ++busy;
        }
        CHECK(busy > 20);
        for (uint64_t i = 1; i <= 20; ++i) {
            REQUIRE(
                with.cluster.finish(0, push_sums(with.cluster, 0, *table, ones, in_iteration(i))));
            (void)with.raw.run_until([&] { return with.raw.answer(i) != nullptr; });
            REQUIRE(with.raw.answer(i) != nullptr);
            CHECK(with.raw.answer(i)->header.status == Errc::kOk);
        }
        CHECK(pull_sums(with.cluster, *table) == std::vector<double>(kKeysOfSums, 40));
    }

    TEST_CASE("a dense table whose window does not fit into a server's memory is not made") {
        SimShape shape = one_shard();
        shape.server_memory_bytes = size_t{8} << 20;
        SimCluster cluster(6, shape, {});
        REQUIRE(cluster.start());
        TableSchema wanted = sums_schema(1 << 17);  // 1 MiB of values
        wanted.max_delay = 7;
        const auto refused = cluster.make_table(0, wanted);
        REQUIRE(refused.code() == Errc::kNoMemory);
        const std::string& text = refused.error().message();
        INFO(text);
        CHECK(text.find("table 'sums': the sums of its 8 open iterations (max_delay 7) need "
                        "8388608 bytes on this shard, and only ") != std::string::npos);
        wanted.name = "fits";
        wanted.max_delay = 3;
        CHECK(cluster.make_table(0, wanted).has_value());
    }

    TEST_CASE("parts of iterations that a busy shard refuses are sent again until it takes them") {
        SimShape shape = one_shard(2);
        shape.waiting_bytes_max = 4'000;
        SimCluster cluster(3, shape, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, sums_schema());
        REQUIRE(table.has_value());
        const std::vector<double> ones(kKeysOfSums, 1);
        constexpr uint64_t kIterations = 30;
        std::vector<ClientCore::CallId> ahead;
        for (uint64_t i = 1; i <= kIterations; ++i)
            ahead.push_back(push_sums(cluster, 0, *table, ones, in_iteration(i)));
        cluster.run_idle(20);
        for (uint64_t i = 1; i <= kIterations; ++i)
            CHECK(cluster.finish(1, push_sums(cluster, 1, *table, ones, in_iteration(i)))
                      .has_value());
        for (const auto call : ahead)
            CHECK(cluster.finish(0, call).has_value());
        CHECK(pull_sums(cluster, *table) == std::vector<double>(kKeysOfSums, 2 * kIterations));
    }

    TEST_CASE("a part that its worker cannot send fails its iteration for everybody at once") {
        SimShape shape = one_shard(2);
        shape.worker_memory_bytes = 0;  // the values of many keys are not registered
        shape.message_bytes_max = 1024;
        SimCluster cluster(4, shape, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, sums_schema(kKeysOfSums * 1000));
        REQUIRE(table.has_value());
        const std::vector<double> few(kKeysOfSums, 1);
        const std::vector<double> many(kKeysOfSums * 1000, 1);
        const uint64_t before_ns = cluster.clock.now_ns();
        const auto waiting = push_sums(cluster, 1, *table, few, in_iteration(1));
        const Status own = cluster.finish(0, push_sums(cluster, 0, *table, many, in_iteration(1)));
        CHECK(own.code() == Errc::kNoMemory);
        const Status others = cluster.finish(1, waiting);
        REQUIRE_FALSE(others.has_value());
        INFO(others.error().message());
        CHECK(others.code() == Errc::kCancelled);
        CHECK(others.error().message().find("iteration 1 failed at shard 0 of server 0") !=
              std::string::npos);
        CHECK(others.error().message().find("worker 0") != std::string::npos);
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        const auto next = push_sums(cluster, 1, *table, few, in_iteration(2));
        CHECK(cluster.finish(0, push_sums(cluster, 0, *table, few, in_iteration(2))).has_value());
        CHECK(cluster.finish(1, next).has_value());
    }

    TEST_CASE("a part of another type fails its iteration, one with a bad key too") {
        for (const bool bad_key : {true, false}) {
            RawWorkerCluster with;
            const auto table =
                with.cluster.make_table(0, sparse_table("sums", ValueType::kFloat64));
            REQUIRE(table.has_value());
            const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
            const std::vector<uint64_t> keys{3, 2};
            const std::vector<double> ones(2, 1);
            const auto own = with.cluster.workers[0]->push(*table, std::vector<uint64_t>{5},
                                                           std::as_bytes(std::span(ones).first(1)),
                                                           in_iteration(1));
            wire::FrameHeader header = range_request(wire::Kind::kPush, 7, 2);
            header.flags =
                wire::kKeysInline | wire::kValuesInline | wire::kAggregate | wire::kIteration;
            header.iteration = 1;
            header.parts = 1;
            if (!bad_key) header.value_type = static_cast<uint8_t>(ValueType::kInt64);
            std::vector<std::byte> body(32);
            std::memcpy(body.data(), keys.data(), 16);
            std::memcpy(body.data() + 16, ones.data(), 16);
            with.raw.send(shard, header, body);
            const Status ended = with.cluster.finish(0, own);
            REQUIRE_FALSE(ended.has_value());
            INFO(ended.error().message());
            CHECK(ended.error().message().find("iteration 1 failed at shard 0") !=
                  std::string::npos);
            CHECK(ended.code() == (bad_key ? Errc::kInvalidArgument : Errc::kTypeMismatch));
            REQUIRE(with.raw.run_until([&] { return with.raw.answer(7) != nullptr; }));
            CHECK(with.raw.answer(7)->header.status == ended.code());
        }
    }

    TEST_CASE("pulls that wait for an iteration leave room for the part that ends it") {
        SimShape shape = one_shard(2);
        shape.waiting_bytes_max = 4'096;  // eight
        transport::sim::Options options;
        options.maps_memory = false;  // so that parts have to be fetched
        SimCluster cluster(1, shape, options);
        REQUIRE(cluster.start());
        constexpr uint64_t kManyKeys = 1 << 12;
        constexpr uint64_t kPulls = 100;
        constexpr uint64_t kIterations = 8;
        const auto table = cluster.make_table(0, sums_schema(kManyKeys));
        REQUIRE(table.has_value());
        const std::span memory(cluster.memory_of(0).allocate(kManyKeys * sizeof(double), 64),
                               kManyKeys * sizeof(double));
        std::fill_n(reinterpret_cast<double*>(memory.data()), kManyKeys, 1.0);
        ClientCore& client = *cluster.workers[0];
        std::vector<double> out(kIterations * kPulls);
        std::vector<ClientCore::CallId> calls;
        for (size_t i = 0; i < out.size(); ++i) {
            const uint64_t now = i / kPulls + 1;
            if (i % kPulls == 0)
                calls.push_back(client.push(*table, {0, kManyKeys}, memory, in_iteration(now)));
            calls.push_back(client.pull(*table, {0, 1},
                                        std::as_writable_bytes(std::span(out).subspan(i, 1)),
                                        in_iteration(now)));
        }
        cluster.run_idle(20);
        const std::vector<double> ones(kManyKeys, 1);
        for (uint64_t i = 1; i <= kIterations; ++i)
            CHECK(cluster.finish(1, push_sums(cluster, 1, *table, ones, in_iteration(i))));
        for (const auto call : calls)
            REQUIRE(cluster.finish(0, call));
        CHECK(out.back() == 2 * kIterations);
    }

    TEST_CASE("a part that names a list the shard does not know comes again, and counts once") {
        RawWorkerCluster with;
        const TableInfo table = with.make_table();
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeysOfSums, 1);
        const auto push = push_sums(with.cluster, 0, table, ones, in_iteration(1));
        wire::FrameHeader header = range_request(wire::Kind::kPush, 1, 2);
        header.flags = wire::kKeysKnown | wire::kValuesInline | wire::kAggregate | wire::kIteration;
        header.iteration = 1;
        header.parts = 1;
        header.first = 4711;  // no list has this hash
        const std::array<uint64_t, 2> ends{3, 5};
        std::vector<std::byte> body(32);
        std::memcpy(body.data(), ends.data(), 16);
        std::memcpy(body.data() + 16, ones.data(), 16);
        for (const uint64_t number : {1, 2}) {
            header.request = number;
            with.raw.send(shard, header, body);
            REQUIRE(with.raw.run_until([&] { return with.raw.answer(number) != nullptr; }));
            CHECK(with.raw.answer(number)->header.status == Errc::kUnknownList);
            CHECK_FALSE(with.cluster.workers[0]->done(push));
        }
        header.request = 3;
        header.flags =
            wire::kKeysInline | wire::kValuesInline | wire::kAggregate | wire::kIteration;
        with.raw.send(shard, header, body);  // a list of two keys: its ends are all of it
        REQUIRE(with.raw.run_until([&] { return with.raw.answer(3) != nullptr; }));
        CHECK(with.raw.answer(3)->header.status == Errc::kOk);
        CHECK(with.cluster.finish(0, push).has_value());
        const std::vector<double> values = pull_sums(with.cluster, table);
        CHECK(values[3] == 2);
        CHECK(values[4] == 1);
        CHECK(values[5] == 2);
    }

    TEST_CASE("whenever a worker dies, who waits for its part of an iteration is told at once") {
        constexpr uint64_t kManyKeys = 1 << 16;  // its values are fetched, in many steps
        for (const bool says_hello : {false, true}) {
            for (int steps = 0; steps < 60; steps += 4) {
                INFO("said hello " << says_hello << ", dead after " << steps << " steps");
                transport::sim::Options options;
                options.bytes_per_s = 1'000'000;
                options.silence_ns = 5 * kMillisecond;
                RawWorkerCluster with(one_shard(2), options);
                const TableInfo table = with.make_table(kManyKeys);
                if (says_hello) (void)with.raw.hello(*with.cluster.shards[0], 1);
                const std::vector<double> ones(kManyKeys, 1);
                const uint64_t begin_ns = with.cluster.clock.now_ns();
                const auto call = push_sums(with.cluster, 0, table, ones, in_iteration(1));
                for (int i = 0; i < steps; ++i)
                    (void)with.cluster.step();
                with.cluster.network.kill(50);
                const Status ended = with.cluster.finish(0, call);
                REQUIRE(ended.code() == Errc::kPeerLost);
                CHECK(ended.error().message().find("worker 1") != std::string::npos);
                CHECK(with.cluster.clock.now_ns() - begin_ns < kSecond);
            }
        }
    }
}

}  // namespace weir::test
