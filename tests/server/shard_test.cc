// SPDX-License-Identifier: Apache-2.0
/// \file
/// A shard and workers that break the rules: which requests it refuses, which wait and how long,
/// and that the requests of one worker do not harm those of another.

#include "lib/server/shard.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include <doctest/doctest.h>

#include "tests/server/raw_worker.h"

namespace weir::test {
namespace {

constexpr uint64_t kKeys = 16;

TableSchema schema(uint64_t keys = kKeys) {
    return dense_table("sums", keys, ValueType::kFloat64);
}

CallOptions iteration(uint64_t number) {
    CallOptions options;
    options.iteration = number;
    return options;
}

/// A push or pull of keys [0, count) of the first table, as a client would make it.
wire::FrameHeader request(wire::Kind kind, uint64_t number, uint32_t count) {
    wire::FrameHeader header;
    header.kind = kind;
    header.flags = wire::kKeysRange | wire::kValuesInline;
    header.value_type = static_cast<uint8_t>(ValueType::kFloat64);
    header.request = number;
    header.epoch = 1;
    header.count = count;
    return header;
}

ClientCore::CallId push_all(SimCluster& cluster, uint32_t worker, const TableInfo& table,
                            std::span<const double> values, const CallOptions& options = {}) {
    return cluster.workers[worker]->push(table, KeyRange{0, values.size()}, std::as_bytes(values),
                                         options);
}

std::vector<double> pull_all(SimCluster& cluster, const TableInfo& table) {
    std::vector<double> values(table.schema.key_count, -1);
    const auto pull =
        cluster.workers[0]->pull(table, KeyRange{0, values.size()},
                                 std::as_writable_bytes(std::span(values)), CallOptions());
    REQUIRE(cluster.finish(0, pull).has_value());
    return values;
}

/// A cluster of one shard and two workers, the second of which is played by the test.
struct WithRawWorker {
    explicit WithRawWorker(const SimShape& shape = one_shard(2),
                           const transport::sim::Options& options = {})
        : cluster(1, shape, options), raw(cluster, 50) {
        cluster.workers[1].reset();
        raw.join(1);
        REQUIRE(raw.run_until([&] { return cluster.workers[0]->ready(); }));
    }

    [[nodiscard]] TableInfo make_table(uint64_t keys = kKeys) {
        auto table = cluster.make_table(0, schema(keys));
        REQUIRE(table.has_value());
        return *table;
    }

    SimCluster cluster;
    RawWorker raw;
};

/// A worker that always has several pulls of all keys under way, into registered memory.
class SteadyReader {
public:
    SteadyReader(SimCluster& cluster, const TableInfo& table) : cluster_(cluster), table_(table) {
        for (size_t i = 0; i < pulls_.size(); ++i) {
            memory_[i] = cluster.memory_of(0).allocate(bytes(), 64);
            begin(i);
        }
    }

    void step() {
        (void)cluster_.step();
        for (size_t i = 0; i < pulls_.size(); ++i) {
            if (!cluster_.workers[0]->done(pulls_[i])) continue;
            REQUIRE(cluster_.workers[0]->take(pulls_[i]).has_value());
            const auto* const values = reinterpret_cast<const double*>(memory_[i]);
            last_ = values[0];
            torn_ |= std::any_of(values, values + table_.schema.key_count,
                                 [&](double value) { return value != last_; });
            ++count_;
            begin(i);
        }
    }

    [[nodiscard]] uint64_t count() const { return count_; }

    [[nodiscard]] double last() const { return last_; }

    [[nodiscard]] bool torn() const { return torn_; }

private:
    [[nodiscard]] size_t bytes() const { return table_.schema.key_count * sizeof(double); }

    void begin(size_t i) {
        pulls_[i] = cluster_.workers[0]->pull(table_, KeyRange{0, table_.schema.key_count},
                                              {memory_[i], bytes()}, CallOptions());
    }

    SimCluster& cluster_;
    TableInfo table_;
    std::array<std::byte*, 4> memory_{};
    std::array<ClientCore::CallId, 4> pulls_{};
    uint64_t count_ = 0;
    double last_ = 0;
    bool torn_ = false;
};

}  // namespace

TEST_SUITE("shard") {
    TEST_CASE("a second connection that takes a worker's number is closed, the worker goes on") {
        SimCluster cluster(1, one_shard(3), {});
        REQUIRE(cluster.start());
        auto table = cluster.make_table(0, schema());
        REQUIRE(table.has_value());
        RawWorker raw(cluster, 50);
        const auto connection = raw.hello(*cluster.shards[0], 0);
        CHECK(raw.run_until([&] { return raw.is_closed(connection); }));
        const std::vector<double> ones(kKeys, 1);
        std::array<ClientCore::CallId, 3> calls{};
        for (uint32_t worker = 0; worker < 3; ++worker)
            calls[worker] = push_all(cluster, worker, *table, ones, iteration(1));
        for (uint32_t worker = 0; worker < 3; ++worker)
            CHECK(cluster.finish(worker, calls[worker]).has_value());
        CHECK(pull_all(cluster, *table) == std::vector<double>(kKeys, 3));
    }

    TEST_CASE("numbers of workers that are not in the job are refused, however large") {
        SimCluster cluster(1, one_shard(2), {});
        REQUIRE(cluster.start());
        RawWorker raw(cluster, 50);
        for (const uint64_t number : {uint64_t{1} << 20, uint64_t{1} << 32, ~uint64_t{0}}) {
            const auto connection = raw.hello(*cluster.shards[0], number);
            CHECK(raw.run_until([&] { return raw.is_closed(connection); }));
        }
        // This may be a worker of the next view. But then it knows that view.
        const auto connection = raw.hello(*cluster.shards[0], 2);
        wire::FrameHeader push = testing::frame_header(wire::Kind::kPush, 1);
        push.flags = wire::kKeysRange | wire::kValuesInline;
        push.epoch = 2;
        raw.send(connection, push);
        raw.run();
        CHECK_FALSE(raw.is_closed(connection));
        push.epoch = 1;
        raw.send(connection, push);
        CHECK(raw.run_until([&] { return raw.is_closed(connection); }));
    }

    TEST_CASE("strangers that come before the view are closed by it, or at once") {
        SimCluster cluster(1, one_shard(2), {});
        RawWorker raw(cluster, 50);
        const auto wrapped = raw.hello(*cluster.shards[0], uint64_t{1} << 32);
        const auto stranger = raw.hello(*cluster.shards[0], 1 << 20);
        CHECK(raw.run_until([&] { return raw.is_closed(wrapped) && raw.is_closed(stranger); }));
        REQUIRE(cluster.start());
        auto table = cluster.make_table(0, schema());
        REQUIRE(table.has_value());
        CHECK(cluster.finish(0, push_all(cluster, 0, *table, std::vector<double>(kKeys, 2))));
        CHECK(pull_all(cluster, *table) == std::vector<double>(kKeys, 2));
    }

    TEST_CASE("pushes get their turn among pulls that never pause, where memory is not mapped") {
        constexpr uint64_t kManyKeys = 1 << 13;
        for (const bool aggregate : {false, true}) {
            INFO("aggregate " << aggregate);
            SimCluster cluster(2, one_shard(2), {});
            REQUIRE(cluster.start());
            auto table = cluster.make_table(0, schema(kManyKeys));
            REQUIRE(table.has_value());
            SteadyReader reader(cluster, *table);
            const std::vector<double> ones(kManyKeys, 1);
            for (uint64_t round = 1; round <= 5; ++round) {
                CallOptions options;
                if (aggregate) options.iteration = round;
                options.deadline_ns = kSecond;
                const auto push = push_all(cluster, 1, *table, ones, options);
                if (aggregate) (void)push_all(cluster, 0, *table, {}, options);
                const uint64_t count_before = reader.count();
                for (int i = 0; i < 20'000 && !cluster.workers[1]->done(push); ++i)
                    reader.step();
                REQUIRE(cluster.workers[1]->done(push));
                REQUIRE(cluster.workers[1]->take(push).has_value());
                CHECK(reader.count() - count_before <= 20);
            }
            const uint64_t count_before = reader.count();
            for (int i = 0; i < 20'000 && reader.count() < count_before + 8; ++i)
                reader.step();
            CHECK(reader.count() >= count_before + 8);
            CHECK(reader.last() == 5);
            CHECK_FALSE(reader.torn());
        }
    }

    TEST_CASE("a worker whose memory does not answer holds up nobody else's pushes and pulls") {
        constexpr uint64_t kManyKeys = 1 << 12;
        for (const uint32_t operations_max : {1U, 4U, 64U}) {
            INFO("operations " << operations_max);
            transport::sim::Options options;
            options.operations_max = operations_max;
            options.tries_max = 1'000'000;  // the network itself never gives up
            options.silence_ns = 1000 * kSecond;
            SimCluster cluster(6, one_shard(2), options);
            REQUIRE(cluster.start());
            auto table = cluster.make_table(0, schema(kManyKeys));
            REQUIRE(table.has_value());
            const std::vector<double> ones(kManyKeys, 1);
            for (int i = 0; i < 50; ++i)
                (void)push_all(cluster, 1, *table, ones);
            // All requests arrive, then the reads get no answers.
            for (int i = 0; i < 60; ++i)
                (void)cluster.step();
            cluster.network.partition(0, cluster.host_of_worker(1));
            CallOptions soon;
            soon.deadline_ns = kSecond;
            CHECK(cluster.finish(0, push_all(cluster, 0, *table, ones, soon)).has_value());
            std::vector<uint64_t> keys(kManyKeys);
            std::iota(keys.begin(), keys.end(), 0);
            std::vector<double> out(kManyKeys);
            const auto pull = cluster.workers[0]->pull(
                *table, keys, std::as_writable_bytes(std::span(out)), soon);
            CHECK(cluster.finish(0, pull).has_value());
            CHECK(out[0] >= 1);
        }
    }

    TEST_CASE("more requests of one worker than may wait are answered busy, the others are done") {
        SimShape shape = one_shard(2);
        shape.waiting_bytes_max = 40'000;  // half of it is for parts that wait for an iteration
        WithRawWorker with(shape);
        const TableInfo table = with.make_table();
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeys, 1);
        constexpr uint64_t kPushes = 100;
        const auto push_part = [&](uint64_t number, uint64_t iteration, uint64_t parts) {
            wire::FrameHeader header = request(wire::Kind::kPush, number, kKeys);
            header.flags |= wire::kAggregate | wire::kIteration;
            header.iteration = iteration;
            header.parts = static_cast<uint32_t>(parts);
            with.raw.send(shard, header, std::as_bytes(std::span(ones)));
            with.raw.run();
        };
        push_part(1000, 1, 1);
        for (uint64_t i = 1; i <= kPushes; ++i)
            push_part(i, 2, kPushes);
        uint64_t busy = 0;
        for (uint64_t i = 1; i <= kPushes; ++i) {
            if (with.raw.answer(i) == nullptr) continue;
            CHECK(with.raw.answer(i)->header.status == Errc::kBusy);
            ++busy;
        }
        CHECK(busy > 60);
        CHECK(busy < 80);
        // Requests that wait are not lost, others are served, those that waited count no more.
        REQUIRE(with.cluster.finish(0, push_all(with.cluster, 0, table, ones, iteration(1))));
        for (uint64_t i = 0; i < busy; ++i)
            push_part(2000 + i, 2, kPushes);
        REQUIRE(with.cluster.finish(0, push_all(with.cluster, 0, table, ones, iteration(2))));
        CHECK(pull_all(with.cluster, table) == std::vector<double>(kKeys, 3 + kPushes));
        push_part(5000, 3, 1);
        push_part(5001, 4, 1);
        CHECK(with.raw.answer(5001) == nullptr);  // it waits
        push_part(5002, 6, 1);
        // A part of iteration 5 may have been answered busy, so that one comes first.
        REQUIRE(with.raw.answer(5002) != nullptr);
        CHECK(with.raw.answer(5002)->header.status == Errc::kBusy);
        CHECK(with.raw.answer(5002)->header.first == 4);
    }

    TEST_CASE("parts beyond the window wait, as many as may wait, and nothing is lost") {
        SimShape shape = one_shard(2);
        shape.waiting_bytes_max = 40'000;
        WithRawWorker with(shape);
        TableSchema wanted = schema();
        wanted.max_delay = 2;
        auto table = with.cluster.make_table(0, wanted);
        REQUIRE(table.has_value());
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeys, 1);
        constexpr uint64_t kParts = 60;
        for (uint64_t i = 1; i <= kParts; ++i) {
            wire::FrameHeader header = request(wire::Kind::kPush, i, kKeys);
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
            REQUIRE(with.cluster.finish(0, push_all(with.cluster, 0, *table, ones, iteration(i))));
            (void)with.raw.run_until([&] { return with.raw.answer(i) != nullptr; });
            REQUIRE(with.raw.answer(i) != nullptr);
            CHECK(with.raw.answer(i)->header.status == Errc::kOk);
        }
        CHECK(pull_all(with.cluster, *table) == std::vector<double>(kKeys, 40));
    }

    TEST_CASE("a dense table whose window does not fit into a server's memory is not made") {
        SimShape shape = one_shard();
        shape.server_memory_bytes = size_t{8} << 20;
        SimCluster cluster(6, shape, {});
        REQUIRE(cluster.start());
        TableSchema wanted = schema(1 << 17);  // 1 MiB of values
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
        const auto table = cluster.make_table(0, schema());
        REQUIRE(table.has_value());
        const std::vector<double> ones(kKeys, 1);
        constexpr uint64_t kIterations = 30;
        std::vector<ClientCore::CallId> ahead;
        for (uint64_t i = 1; i <= kIterations; ++i)
            ahead.push_back(push_all(cluster, 0, *table, ones, iteration(i)));
        cluster.run_idle(20);
        for (uint64_t i = 1; i <= kIterations; ++i)
            CHECK(cluster.finish(1, push_all(cluster, 1, *table, ones, iteration(i))).has_value());
        for (const auto call : ahead)
            CHECK(cluster.finish(0, call).has_value());
        CHECK(pull_all(cluster, *table) == std::vector<double>(kKeys, 2 * kIterations));
    }

    TEST_CASE("a part that its worker cannot send fails its iteration for everybody at once") {
        SimShape shape = one_shard(2);
        shape.worker_memory_bytes = 0;  // the values of many keys are not registered
        shape.message_bytes_max = 1024;
        SimCluster cluster(4, shape, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, schema(kKeys * 1000));
        REQUIRE(table.has_value());
        const std::vector<double> few(kKeys, 1);
        const std::vector<double> many(kKeys * 1000, 1);
        const uint64_t before_ns = cluster.clock.now_ns();
        const auto waiting = push_all(cluster, 1, *table, few, iteration(1));
        const Status own = cluster.finish(0, push_all(cluster, 0, *table, many, iteration(1)));
        CHECK(own.code() == Errc::kNoMemory);
        const Status others = cluster.finish(1, waiting);
        REQUIRE_FALSE(others.has_value());
        INFO(others.error().message());
        CHECK(others.code() == Errc::kCancelled);
        CHECK(others.error().message().find("iteration 1 failed at shard 0 of server 0") == 0);
        CHECK(others.error().message().find("worker 0") != std::string::npos);
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        const auto next = push_all(cluster, 1, *table, few, iteration(2));
        CHECK(cluster.finish(0, push_all(cluster, 0, *table, few, iteration(2))).has_value());
        CHECK(cluster.finish(1, next).has_value());
    }

    TEST_CASE("a part of another type fails its iteration, one with a bad key too") {
        for (const bool bad_key : {true, false}) {
            WithRawWorker with;
            const auto table =
                with.cluster.make_table(0, sparse_table("sums", ValueType::kFloat64));
            REQUIRE(table.has_value());
            const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
            const std::vector<uint64_t> keys{3, 2};
            const std::vector<double> ones(2, 1);
            const auto own = with.cluster.workers[0]->push(*table, std::vector<uint64_t>{5},
                                                           std::as_bytes(std::span(ones).first(1)),
                                                           iteration(1));
            wire::FrameHeader header = request(wire::Kind::kPush, 7, 2);
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
            CHECK(ended.error().message().find("iteration 1 failed at shard 0") == 0);
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
        const auto table = cluster.make_table(0, schema(kManyKeys));
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
                calls.push_back(client.push(*table, {0, kManyKeys}, memory, iteration(now)));
            calls.push_back(client.pull(*table, {0, 1},
                                        std::as_writable_bytes(std::span(out).subspan(i, 1)),
                                        iteration(now)));
        }
        cluster.run_idle(20);
        const std::vector<double> ones(kManyKeys, 1);
        for (uint64_t i = 1; i <= kIterations; ++i)
            CHECK(cluster.finish(1, push_all(cluster, 1, *table, ones, iteration(i))));
        for (const auto call : calls)
            REQUIRE(cluster.finish(0, call));
        CHECK(out.back() == 2 * kIterations);
    }

    TEST_CASE("requests that had to wait for the network count no longer than they do") {
        constexpr uint64_t kManyKeys = 1 << 12;
        SimShape shape = one_shard(1);
        shape.waiting_bytes_max = 20'000;  // less than forty
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        auto table = cluster.make_table(0, schema(kManyKeys));
        REQUIRE(table.has_value());
        const size_t bytes = kManyKeys * sizeof(double);
        std::byte* const memory = cluster.memory_of(0).allocate(bytes, 64);
        std::vector<uint64_t> keys(kManyKeys);
        std::iota(keys.begin(), keys.end(), 0);
        ClientCore& client = *cluster.workers[0];
        for (int i = 0; i < 60; ++i) {
            CHECK(cluster.finish(
                0, client.push(*table, KeyRange{0, kManyKeys}, {memory, bytes}, CallOptions())));
            CHECK(cluster.finish(
                0, client.pull(*table, KeyRange{0, kManyKeys}, {memory, bytes}, CallOptions())));
            CHECK(cluster.finish(0, client.pull(*table, keys, {memory, bytes}, CallOptions())));
        }
    }

    TEST_CASE("a part that names a list the shard does not know comes again, and counts once") {
        WithRawWorker with;
        const TableInfo table = with.make_table();
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeys, 1);
        const auto push = push_all(with.cluster, 0, table, ones, iteration(1));
        wire::FrameHeader header = request(wire::Kind::kPush, 1, 2);
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
        const std::vector<double> values = pull_all(with.cluster, table);
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
                WithRawWorker with(one_shard(2), options);
                const TableInfo table = with.make_table(kManyKeys);
                if (says_hello) (void)with.raw.hello(*with.cluster.shards[0], 1);
                const std::vector<double> ones(kManyKeys, 1);
                const uint64_t begin_ns = with.cluster.clock.now_ns();
                const auto call = push_all(with.cluster, 0, table, ones, iteration(1));
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

    TEST_CASE(
        "a push that was executed is acknowledged again, on any connection, and not applied") {
        WithRawWorker with;
        const TableInfo table = with.make_table();
        const std::vector<double> ones(kKeys, 1);
        const auto push = [&](transport::ConnectionId to, uint64_t number, uint32_t time,
                              uint32_t predecessor) {
            wire::FrameHeader header = request(wire::Kind::kPush, number, kKeys);
            header.time = time;
            header.set_predecessor(predecessor);
            with.raw.send(to, header, std::as_bytes(std::span(ones)));
            REQUIRE(with.raw.run_until([&] { return with.raw.answer(number) != nullptr; }));
            return with.raw.answer(number)->header.status;
        };
        const auto first = with.raw.hello(*with.cluster.shards[0], 1, 1);
        CHECK(push(first, 1, 1, 0) == Errc::kOk);
        CHECK(push(first, 2, 2, 1) == Errc::kOk);
        CHECK(push(first, 3, 4, 0) == Errc::kAgain);  // it names another one than the last
        CHECK(push(first, 4, 4, 2) == Errc::kOk);
        CHECK(pull_all(with.cluster, table) == std::vector<double>(kKeys, 3));
        const auto second = with.raw.hello(*with.cluster.shards[0], 1, 2);
        REQUIRE(with.raw.run_until([&] { return with.raw.is_closed(first); }));
        CHECK(push(second, 11, 2, 0) == Errc::kOk);
        CHECK(push(second, 12, 4, 1) == Errc::kOk);
        CHECK(pull_all(with.cluster, table) == std::vector<double>(kKeys, 3));
        CHECK(push(second, 13, 5, 2) == Errc::kOk);
        CHECK(pull_all(with.cluster, table) == std::vector<double>(kKeys, 4));
        const auto late = with.raw.hello(*with.cluster.shards[0], 1, 1);
        CHECK(with.raw.run_until([&] { return with.raw.is_closed(late); }));
        // A time whose low half is lower than that of the clock, told in full.
        wire::FrameHeader far = testing::frame_header(wire::Kind::kHello, 2);
        far.first = 1;
        with.raw.send(second, far, HelloMessage{0, uint64_t{3} << 32}.encode());
        CHECK(push(second, 14, 1, 3) == Errc::kOk);
        CHECK(pull_all(with.cluster, table) == std::vector<double>(kKeys, 5));
        CHECK_FALSE(with.raw.is_closed(second));
    }

    TEST_CASE("a push of an earlier epoch is refused with the shard's, a later one's waits") {
        WithRawWorker with;
        const TableInfo table = with.make_table();
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeys, 1);
        for (const uint32_t epoch : {0U, 0xffffffffU, 0x80000002U}) {
            wire::FrameHeader header = request(wire::Kind::kPush, 10 + uint64_t{epoch}, kKeys);
            header.epoch = epoch;
            with.raw.send(shard, header, std::as_bytes(std::span(ones)));
            const uint64_t number = header.request;
            REQUIRE(with.raw.run_until([&] { return with.raw.answer(number) != nullptr; }));
            CHECK(with.raw.answer(number)->header.status == Errc::kStaleEpoch);
            CHECK(with.raw.answer(number)->header.first == 1);
        }
        CHECK(pull_all(with.cluster, table) == std::vector<double>(kKeys, 0));
        with.raw.send(shard, request(wire::Kind::kPush, 20, kKeys), std::as_bytes(std::span(ones)));
        REQUIRE(with.raw.run_until([&] { return with.raw.answer(20) != nullptr; }));
        CHECK(with.raw.answer(20)->header.status == Errc::kOk);
        CHECK(pull_all(with.cluster, table) == std::vector<double>(kKeys, 1));
        wire::FrameHeader early = request(wire::Kind::kPush, 12, kKeys);
        early.epoch = 2;
        with.raw.send(shard, early, std::as_bytes(std::span(ones)));
        with.raw.run();
        CHECK(with.raw.answer(12) == nullptr);
    }
}

}  // namespace weir::test
