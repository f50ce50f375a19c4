// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls that may take very long because they wait for other workers: they go on while their
/// servers answer, and end soon when a server has stopped, though its connections stay open.

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"
#include "tests/log_lines.h"

namespace weir::test {
namespace {

constexpr uint64_t kSlowKeys = 64;
constexpr uint64_t kUsualNs = 30 * kSecond;  // ClientCoreOptions::deadline_ns
constexpr uint64_t kLongNs = 10'000 * kSecond;

class LongCalls {
public:
    LongCalls() : cluster(1, shape(), {}) {
        REQUIRE(cluster.start());
        table = *cluster.make_table(0, dense_table("numbers", kSlowKeys));
        values.assign(kSlowKeys * table.pushed_row_bytes, std::byte{});
        out.assign(kSlowKeys * table.row_bytes, std::byte{});
    }

    [[nodiscard]] ClientCore::CallId push(uint32_t worker, uint64_t deadline_ns = kLongNs) {
        return cluster.workers[worker]->push(table, KeyRange{0, kSlowKeys}, values,
                                             {1, deadline_ns});
    }

    [[nodiscard]] ClientCore::CallId pull(KeyRange keys, uint64_t deadline_ns = kLongNs) {
        const std::span<std::byte> into = std::span(out).subspan(
            keys.begin * table.row_bytes, keys.key_count() * table.row_bytes);
        return cluster.workers[0]->pull(table, keys, into, {1, deadline_ns});
    }

    /// Server 1 does nothing any more. Its machine lives and keeps the connections.
    void stop_server_1() {
        stopped_ = std::move(cluster.shards.back());
        cluster.shards.pop_back();
    }

    /// The same of the manager.
    void stop_manager() { stopped_manager_ = std::move(cluster.manager); }

    /// A push of worker 0 that waits for worker 1, and has done so for long.
    [[nodiscard]] ClientCore::CallId long_push() {
        const auto first = push(0);
        pass(3 * kUsualNs);
        REQUIRE_FALSE(cluster.workers[0]->done(first));
        return first;
    }

    /// The call of worker 0 has ended because server 1 has given no sign of life.
    void check_ended_by_server_1(ClientCore::CallId call) {
        const Status ended = cluster.finish(0, call);
        REQUIRE(ended.code() == Errc::kDeadline);
        const std::string text = ended.error().message();
        CAPTURE(text);
        CHECK(text.find("server 1 (rank") != std::string::npos);
        CHECK(text.find("gave no sign of life for 15000 ms after it was asked for one") !=
              std::string::npos);
        CHECK(text.find("; the push may have been applied, once at most") != std::string::npos);
    }

    /// Lets `ns` pass; everybody polls often meanwhile.
    void pass(uint64_t ns) {
        const uint64_t end_ns = cluster.clock.now_ns() + ns;
        while (cluster.clock.now_ns() < end_ns) {
            cluster.clock.advance(kSecond / 2);
            (void)cluster.run_until([] { return false; }, 100);
        }
    }

    SimCluster cluster;
    TableInfo table;
    std::vector<std::byte> values;
    std::vector<std::byte> out;

private:
    static SimShape shape() {
        SimShape shape;
        shape.shards = 1;
        shape.workers = 2;
        return shape;
    }

    std::unique_ptr<Shard> stopped_;
    std::unique_ptr<Manager> stopped_manager_;
};

}  // namespace

TEST_SUITE("signs of life") {
    TEST_CASE("a call waits for another worker for many usual deadlines, while servers answer") {
        LongCalls job;
        const auto first = job.push(0);
        job.pass(10 * kUsualNs);
        REQUIRE_FALSE(job.cluster.workers[0]->done(first));
        const auto second = job.push(1);
        CHECK(job.cluster.finish(0, first).has_value());
        CHECK(job.cluster.finish(1, second).has_value());
    }

    TEST_CASE("pushes and pulls of iterations, and barriers, have no deadline by default") {
        LongCalls job;
        ClientCore& waits = *job.cluster.workers[0];
        const auto push = job.push(0, 0);
        const auto pull = job.pull({0, 1}, 0);
        const auto barrier = waits.barrier(0);
        // They wait for those, and then for the other worker as well.
        const std::vector<TaskId> after{waits.name_task(push)};
        const auto task = waits.wait_for(0, after);
        std::vector<std::byte> out(job.out.size());
        const auto later_pull =
            waits.pull(job.table, KeyRange{0, kSlowKeys}, out, {.after = after});
        job.pass(10 * kUsualNs);
        for (const auto call : {push, pull, barrier, task, later_pull})
            REQUIRE_FALSE(waits.done(call));
        const auto others = job.push(1);
        CHECK(job.cluster.finish(0, push).has_value());
        CHECK(job.cluster.finish(0, pull).has_value());
        CHECK(job.cluster.finish(0, task).has_value());
        CHECK(job.cluster.finish(0, later_pull).has_value());
        CHECK(job.cluster.finish(1, others).has_value());
        CHECK_FALSE(waits.done(barrier));
        (void)job.cluster.workers[1]->barrier(0);
        CHECK(job.cluster.finish(0, barrier).has_value());
    }

    TEST_CASE("a worker that waits for long says once for whom") {
        LongCalls job;
        const auto first = job.push(0);
        const auto second = job.pull({0, 1});
        const testing::LogLines lines(LogLevel::kWarning);
        job.pass(29 * kSecond);
        CHECK(lines.text().empty());
        job.pass(10 * kUsualNs);
        CHECK(lines.count("has waited") == 1);
        CHECK(lines.has("worker 0 has waited for 3"));
        CHECK(
            lines.has(" s for parts of iteration 1 of table 'numbers' that others have not pushed: "
                      "worker 1 (rank "));
        const auto others = job.push(1);
        for (const auto call : {first, second})
            CHECK(job.cluster.finish(0, call).has_value());
        CHECK(job.cluster.finish(1, others).has_value());
        // The next one to be told is twice as long.
        const auto barrier = job.cluster.workers[1]->barrier(0);
        job.pass(kUsualNs + 2 * kSecond);
        CHECK(lines.count("has waited") == 2);
        CHECK(lines.has("worker 1 has waited for 3"));
        CHECK(
            lines.has(" s at a barrier, to which others have not come: "
                      "worker 0 (rank "));
        (void)job.cluster.workers[0]->barrier(0);
        CHECK(job.cluster.finish(1, barrier).has_value());
        const auto again = job.cluster.workers[1]->barrier(0);
        job.pass(kUsualNs + 2 * kSecond);
        CHECK(lines.count("has waited") == 2);
        job.pass(2 * kUsualNs);
        CHECK(lines.count("has waited") == 3);
        (void)job.cluster.workers[0]->barrier(0);
        CHECK(job.cluster.finish(1, again).has_value());
    }

    TEST_CASE("a push of an iteration with a deadline fails there, and says how to have none") {
        LongCalls job;
        const auto first = job.push(0, kUsualNs);
        job.pass(kUsualNs + kSecond);
        const Status ended = job.cluster.finish(0, first);
        REQUIRE(ended.code() == Errc::kDeadline);
        CAPTURE(ended.error().message());
        CHECK(ended.error().message().find(
                  "did not answer before the deadline; it may still wait for another worker's part "
                  "of iteration 1: without a deadline of its own the call waits for as long as "
                  "that one computes") != std::string::npos);
    }

    TEST_CASE("a server that stops ends the call within the usual deadline, and is named") {
        LongCalls job;
        const auto first = job.long_push();
        const uint64_t before_ns = job.cluster.clock.now_ns();
        job.stop_server_1();
        job.check_ended_by_server_1(first);
        CHECK(job.cluster.clock.now_ns() - before_ns < kUsualNs + kSecond);
    }

    TEST_CASE("a server to which no connection lasts ends the call as well, and is named") {
        for (const bool opens : {false, true}) {
            CAPTURE(opens);
            LongCalls job;
            const auto first = job.long_push();
            const uint64_t before_ns = job.cluster.clock.now_ns();
            const transport::sim::HostId worker = job.cluster.host_of_worker(0);
            constexpr transport::sim::HostId kServer = 1;
            if (!opens) job.cluster.network.partition(worker, kServer);
            while (!job.cluster.workers[0]->done(first)) {
                // Before the server can answer anything.
                if (opens) job.cluster.network.reset(worker, kServer);
                job.cluster.clock.advance(kMillisecond);
                (void)job.cluster.step();
                REQUIRE(job.cluster.clock.now_ns() - before_ns < kUsualNs + kSecond);
            }
            job.check_ended_by_server_1(first);
        }
    }

    TEST_CASE("a barrier waits for many usual deadlines, and ends when the manager has stopped") {
        LongCalls job;
        ClientCore& worker = *job.cluster.workers[0];
        const auto first = worker.barrier(kLongNs);
        job.pass(10 * kUsualNs);
        REQUIRE_FALSE(worker.done(first));
        CHECK(job.cluster.finish(1, job.cluster.workers[1]->barrier(0)).has_value());
        CHECK(job.cluster.finish(0, first).has_value());
        const auto second = worker.barrier(kLongNs);
        job.pass(kUsualNs);
        const uint64_t before_ns = job.cluster.clock.now_ns();
        job.stop_manager();
        const Status ended = job.cluster.finish(0, second);
        REQUIRE(ended.code() == Errc::kDeadline);
        CAPTURE(ended.error().message());
        CHECK(ended.error().message().find("the manager (rank 0) gave no sign of life") == 0);
        CHECK(ended.error().message().find("applied") == std::string::npos);
        CHECK(job.cluster.clock.now_ns() - before_ns < kUsualNs + kSecond);
    }

    TEST_CASE("calls that wait for the other servers only go on") {
        LongCalls job;
        const auto first = job.push(0);
        job.stop_server_1();
        std::vector<ClientCore::CallId> pulls;
        for (uint64_t key = 0; key < kSlowKeys; ++key)
            pulls.push_back(job.pull({key, key + 1}));
        CHECK(job.cluster.finish(0, first).code() == Errc::kDeadline);
        job.pass(2 * kUsualNs);
        size_t ended = 0;
        for (const auto pull : pulls)
            ended += job.cluster.workers[0]->done(pull) ? 1 : 0;
        CHECK(ended > 0);          // those of server 1
        CHECK(ended < kSlowKeys);  // those of server 0 wait for worker 1
        const auto second = job.push(1);
        size_t good = 0;
        for (const auto pull : pulls)
            good += job.cluster.finish(0, pull).has_value() ? 1 : 0;
        CHECK(good == kSlowKeys - ended);
        CHECK(job.cluster.finish(1, second).code() == Errc::kDeadline);
    }
}

}  // namespace weir::test
