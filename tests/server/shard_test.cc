// SPDX-License-Identifier: Apache-2.0
/// \file
/// A shard and workers that break the rules: which requests it refuses, which wait and how long,
/// and that the requests of one worker do not harm those of another.

#include "lib/server/shard.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <doctest/doctest.h>

#include "tests/cluster/raw_worker_cluster.h"

namespace weir::test {
namespace {

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
        auto table = cluster.make_table(0, sums_schema());
        REQUIRE(table.has_value());
        RawWorker raw(cluster, 50);
        const auto connection = raw.hello(*cluster.shards[0], 0);
        CHECK(raw.run_until([&] { return raw.is_closed(connection); }));
        const std::vector<double> ones(kKeysOfSums, 1);
        std::array<ClientCore::CallId, 3> calls{};
        for (uint32_t worker = 0; worker < 3; ++worker)
            calls[worker] = push_sums(cluster, worker, *table, ones, in_iteration(1));
        for (uint32_t worker = 0; worker < 3; ++worker)
            CHECK(cluster.finish(worker, calls[worker]).has_value());
        CHECK(pull_sums(cluster, *table) == std::vector<double>(kKeysOfSums, 3));
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
        wire::FrameHeader pull = testing::frame_header(wire::Kind::kPull, 1);
        pull.flags = wire::kKeysRange | wire::kValuesInline;
        pull.epoch = 2;
        raw.send(connection, pull);
        raw.run();
        CHECK_FALSE(raw.is_closed(connection));
        pull.epoch = 1;
        raw.send(connection, pull);
        CHECK(raw.run_until([&] { return raw.is_closed(connection); }));
    }

    TEST_CASE("strangers that come before the view are closed by it, or at once") {
        SimCluster cluster(1, one_shard(2), {});
        RawWorker raw(cluster, 50);
        const auto wrapped = raw.hello(*cluster.shards[0], uint64_t{1} << 32);
        const auto stranger = raw.hello(*cluster.shards[0], 1 << 20);
        CHECK(raw.run_until([&] { return raw.is_closed(wrapped) && raw.is_closed(stranger); }));
        REQUIRE(cluster.start());
        auto table = cluster.make_table(0, sums_schema());
        REQUIRE(table.has_value());
        CHECK(
            cluster.finish(0, push_sums(cluster, 0, *table, std::vector<double>(kKeysOfSums, 2))));
        CHECK(pull_sums(cluster, *table) == std::vector<double>(kKeysOfSums, 2));
    }

    TEST_CASE("pushes get their turn among pulls that never pause, where memory is not mapped") {
        constexpr uint64_t kManyKeys = 1 << 13;
        for (const bool aggregate : {false, true}) {
            INFO("aggregate " << aggregate);
            SimCluster cluster(2, one_shard(2), {});
            REQUIRE(cluster.start());
            auto table = cluster.make_table(0, sums_schema(kManyKeys));
            REQUIRE(table.has_value());
            SteadyReader reader(cluster, *table);
            const std::vector<double> ones(kManyKeys, 1);
            for (uint64_t round = 1; round <= 5; ++round) {
                CallOptions options;
                if (aggregate) options.iteration = round;
                options.deadline_ns = kSecond;
                const auto push = push_sums(cluster, 1, *table, ones, options);
                if (aggregate) (void)push_sums(cluster, 0, *table, {}, options);
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
            auto table = cluster.make_table(0, sums_schema(kManyKeys));
            REQUIRE(table.has_value());
            const std::vector<double> ones(kManyKeys, 1);
            for (int i = 0; i < 50; ++i)
                (void)push_sums(cluster, 1, *table, ones);
            // All requests arrive, then the reads get no answers.
            for (int i = 0; i < 60; ++i)
                (void)cluster.step();
            cluster.network.partition(0, cluster.host_of_worker(1));
            CallOptions soon;
            soon.deadline_ns = kSecond;
            CHECK(cluster.finish(0, push_sums(cluster, 0, *table, ones, soon)).has_value());
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
        RawWorkerCluster with(shape);
        const TableInfo table = with.make_table();
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeysOfSums, 1);
        constexpr uint64_t kPushes = 100;
        const auto push_part = [&](uint64_t number, uint64_t iteration, uint64_t parts) {
            wire::FrameHeader header = range_request(wire::Kind::kPush, number, kKeysOfSums);
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
        REQUIRE(with.cluster.finish(0, push_sums(with.cluster, 0, table, ones, in_iteration(1))));
        for (uint64_t i = 0; i < busy; ++i)
            push_part(2000 + i, 2, kPushes);
        REQUIRE(with.cluster.finish(0, push_sums(with.cluster, 0, table, ones, in_iteration(2))));
        CHECK(pull_sums(with.cluster, table) == std::vector<double>(kKeysOfSums, 3 + kPushes));
        push_part(5000, 3, 1);
        push_part(5001, 4, 1);
        CHECK(with.raw.answer(5001) == nullptr);  // it waits
        push_part(5002, 6, 1);
        // A part of iteration 5 may have been answered busy, so that one comes first.
        REQUIRE(with.raw.answer(5002) != nullptr);
        CHECK(with.raw.answer(5002)->header.status == Errc::kBusy);
        CHECK(with.raw.answer(5002)->header.first == 4);
    }

    TEST_CASE("requests that had to wait for the network count no longer than they do") {
        constexpr uint64_t kManyKeys = 1 << 12;
        SimShape shape = one_shard(1);
        shape.waiting_bytes_max = 20'000;  // less than forty
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        auto table = cluster.make_table(0, sums_schema(kManyKeys));
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

    TEST_CASE(
        "a push that was executed is acknowledged again, on any connection, and not applied") {
        RawWorkerCluster with;
        const TableInfo table = with.make_table();
        const std::vector<double> ones(kKeysOfSums, 1);
        const auto push = [&](transport::ConnectionId to, uint64_t number, uint32_t time,
                              uint32_t predecessor) {
            wire::FrameHeader header = range_request(wire::Kind::kPush, number, kKeysOfSums);
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
        CHECK(pull_sums(with.cluster, table) == std::vector<double>(kKeysOfSums, 3));
        const auto second = with.raw.hello(*with.cluster.shards[0], 1, 2);
        REQUIRE(with.raw.run_until([&] { return with.raw.is_closed(first); }));
        CHECK(push(second, 11, 2, 0) == Errc::kOk);
        CHECK(push(second, 12, 4, 1) == Errc::kOk);
        CHECK(pull_sums(with.cluster, table) == std::vector<double>(kKeysOfSums, 3));
        CHECK(push(second, 13, 5, 2) == Errc::kOk);
        CHECK(pull_sums(with.cluster, table) == std::vector<double>(kKeysOfSums, 4));
        const auto late = with.raw.hello(*with.cluster.shards[0], 1, 1);
        CHECK(with.raw.run_until([&] { return with.raw.is_closed(late); }));
        // A time whose low half is lower than that of the clock, told in full.
        wire::FrameHeader far = testing::frame_header(wire::Kind::kHello, 2);
        far.first = 1;
        with.raw.send(second, far, FarTimeMessage{0, uint64_t{3} << 32}.encode());
        CHECK(push(second, 14, 1, 3) == Errc::kOk);
        CHECK(pull_sums(with.cluster, table) == std::vector<double>(kKeysOfSums, 5));
        CHECK_FALSE(with.raw.is_closed(second));
    }

    TEST_CASE("a push of an earlier epoch is refused with the shard's, a later one's waits") {
        RawWorkerCluster with;
        const TableInfo table = with.make_table();
        const auto shard = with.raw.hello(*with.cluster.shards[0], 1);
        const std::vector<double> ones(kKeysOfSums, 1);
        for (const uint32_t epoch : {0U, 0xffffffffU, 0x80000002U}) {
            wire::FrameHeader header =
                range_request(wire::Kind::kPush, 10 + uint64_t{epoch}, kKeysOfSums);
            header.epoch = epoch;
            with.raw.send(shard, header, std::as_bytes(std::span(ones)));
            const uint64_t number = header.request;
            REQUIRE(with.raw.run_until([&] { return with.raw.answer(number) != nullptr; }));
            CHECK(with.raw.answer(number)->header.status == Errc::kStaleEpoch);
            CHECK(with.raw.answer(number)->header.first == 1);
        }
        CHECK(pull_sums(with.cluster, table) == std::vector<double>(kKeysOfSums, 0));
        with.raw.send(shard, range_request(wire::Kind::kPush, 20, kKeysOfSums),
                      std::as_bytes(std::span(ones)));
        REQUIRE(with.raw.run_until([&] { return with.raw.answer(20) != nullptr; }));
        CHECK(with.raw.answer(20)->header.status == Errc::kOk);
        CHECK(pull_sums(with.cluster, table) == std::vector<double>(kKeysOfSums, 1));
        wire::FrameHeader early = range_request(wire::Kind::kPush, 12, kKeysOfSums);
        early.epoch = 2;
        with.raw.send(shard, early, std::as_bytes(std::span(ones)));
        with.raw.run();
        CHECK(with.raw.answer(12) == nullptr);
    }
}

}  // namespace weir::test
