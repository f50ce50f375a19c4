// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who is named as the cause when a worker gives up: a dead server that this client notices a
/// moment later, or else the worker.

#include "lib/worker/requests/held_failures.h"

#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kKeyCount = 8;

/// Worker 0 waits for worker 1's part of an iteration, at both servers.
class Waiting {
public:
    explicit Waiting(uint64_t silence_ns) : cluster(1, shape(), network(silence_ns)) {
        REQUIRE(cluster.start());
        table = *cluster.make_table(0, dense_table("numbers", kKeyCount));
        values.assign(kKeyCount * table.row_bytes, std::byte{});
        part = cluster.workers[0]->push(table, KeyRange{0, kKeyCount}, values, {1, 0});
        (void)cluster.run_until([] { return false; }, 3);
        before_ns = cluster.clock.now_ns();
    }

    /// Worker 1 gives up because, as it says, a server is dead.
    void give_up() {
        (void)cluster.workers[1]->leave(Error(Errc::kPeerLost, "server 1 is gone"), 0);
    }

    [[nodiscard]] uint64_t elapsed_ns() const { return cluster.clock.now_ns() - before_ns; }

    SimCluster cluster;
    TableInfo table;
    std::vector<std::byte> values;
    ClientCore::CallId part = 0;
    uint64_t before_ns = 0;

private:
    static SimShape shape() {
        SimShape shape;
        shape.shards = 1;
        shape.workers = 2;
        return shape;
    }

    static transport::sim::Options network(uint64_t silence_ns) {
        transport::sim::Options options;
        options.silence_ns = silence_ns;
        return options;
    }
};

bool names(const Status& ended, const char* text) {
    INFO(ended.error().message());
    return ended.error().message().find(text) != std::string::npos;
}

}  // namespace

TEST_SUITE("held failures") {
    TEST_CASE("a dead server is the error, not the worker that noticed it first and gave up") {
        Waiting job(HeldFailures::kHoldNs / 3);  // a death is noticed after twice that at most
        job.cluster.network.kill(1);
        job.give_up();
        const Status ended = job.cluster.finish(0, job.part);
        REQUIRE(ended.code() == Errc::kPeerLost);
        CAPTURE(ended.error().message());
        CHECK(names(ended, "server 1 (rank"));
        CHECK_FALSE(names(ended, "worker 1"));
        CHECK(job.elapsed_ns() < 5 * HeldFailures::kHoldNs);
    }

    TEST_CASE("a call that only living servers were asked for names the dead server, too") {
        Waiting job(HeldFailures::kHoldNs / 3);
        std::vector<std::byte> out(kKeyCount * job.table.row_bytes);
        std::vector<ClientCore::CallId> pulls;  // some keys are server 0's
        for (uint64_t key = 0; key < kKeyCount; ++key) {
            const auto into =
                std::span(out).subspan(key * job.table.row_bytes, job.table.row_bytes);
            pulls.push_back(
                job.cluster.workers[0]->pull(job.table, KeyRange{key, key + 1}, into, {1, 0}));
        }
        (void)job.cluster.run_until([] { return false; }, 3);
        job.cluster.network.kill(1);
        job.give_up();
        for (const auto pull : pulls) {
            const Status ended = job.cluster.finish(0, pull);
            REQUIRE(ended.code() == Errc::kPeerLost);
            CHECK(names(ended, "server 1 (rank"));
        }
    }

    TEST_CASE("a worker that gives up while all servers live is the error, after a moment") {
        Waiting job(HeldFailures::kHoldNs / 2);
        job.give_up();
        const Status ended = job.cluster.finish(0, job.part);
        REQUIRE(ended.code() == Errc::kPeerLost);
        CHECK(names(ended, "worker 1 died or gave up"));
        CHECK(job.elapsed_ns() >= HeldFailures::kHoldNs);
        CHECK(job.elapsed_ns() < 5 * HeldFailures::kHoldNs);
    }

    TEST_CASE("a server that is noticed too late does not change the error") {
        Waiting job(50 * HeldFailures::kHoldNs);
        job.cluster.network.kill(1);
        job.give_up();
        while (!job.cluster.workers[0]->done(job.part) && job.elapsed_ns() < kSecond) {
            // Not step(): the next event may be the loss of server 1, far away.
            job.cluster.network.advance_to(job.cluster.clock.now_ns() + kMillisecond);
            (void)job.cluster.manager->poll();
            (void)job.cluster.shards[0]->poll();
            (void)job.cluster.workers[0]->poll();
            (void)job.cluster.workers[1]->poll();
        }
        const Status ended = job.cluster.workers[0]->take(job.part);
        REQUIRE(ended.code() == Errc::kPeerLost);
        CHECK(names(ended, "worker 1 died or gave up"));
        CHECK(job.elapsed_ns() < 5 * HeldFailures::kHoldNs);
    }

    TEST_CASE("a worker that gave up itself does not wait for another cause") {
        Waiting job(HeldFailures::kHoldNs / 2);
        (void)job.cluster.workers[0]->leave(Error(Errc::kIo, "disk full"), 0);
        CHECK(job.cluster.finish(0, job.part).code() == Errc::kUnavailable);
        CHECK(job.elapsed_ns() < HeldFailures::kHoldNs / 2);
    }

    TEST_CASE("failures are due together, so long after the first; a lost server replaces them") {
        HeldFailures held;
        CHECK(held.take_due(~uint64_t{0}).empty());
        held.hold(1, Error(Errc::kPeerLost, "worker 1"), 100);
        held.hold(2, Error(Errc::kPeerLost, "worker 1"), 100 + HeldFailures::kHoldNs - 1);
        CHECK(held.take_due(100 + HeldFailures::kHoldNs - 1).empty());
        held.blame(Error(Errc::kPeerLost, "server 0"));
        const auto due = held.take_due(100 + HeldFailures::kHoldNs);
        REQUIRE(due.size() == 2);
        CHECK(due[0].request == 1);
        CHECK(due[1].request == 2);
        CHECK(due[0].error.error().message() == "server 0");
        CHECK(due[1].error.error().message() == "server 0");
        CHECK(held.empty());
    }
}

}  // namespace weir::test
