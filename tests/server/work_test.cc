// SPDX-License-Identifier: Apache-2.0
/// \file
/// Work that workers take in rounds: whoever dies or joins, all take it anew, and nobody waits for
/// who is gone. A whole cluster on simulated time.

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/wire/work_share.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

using CallId = ClientCore::CallId;

constexpr uint64_t kNever = 1'000'000 * kSecond;

class WorkCluster : public SimCluster {
public:
    explicit WorkCluster(OnWorkerLoss on_worker_loss = OnWorkerLoss::kReassign, uint64_t seed = 1)
        : WorkCluster(shape_of(on_worker_loss), seed) {}

    explicit WorkCluster(const SimShape& shape, uint64_t seed = 1) : SimCluster(seed, shape, {}) {
        REQUIRE(start());
    }

    static SimShape shape_of(OnWorkerLoss on_worker_loss) {
        SimShape shape;
        shape.on_worker_loss = on_worker_loss;
        return shape;
    }

    static SimShape with_work_lease(uint64_t work_lease_ns) {
        SimShape shape = shape_of(OnWorkerLoss::kReassign);
        shape.work_lease_ns = work_lease_ns;
        return shape;
    }

    /// As SIGSTOP does to its process.
    void stop_worker(uint32_t worker) {
        stopped.insert(workers[worker].get());
        stopped_hosts.insert(host_of_worker(worker));
    }

    void continue_worker(uint32_t worker) {
        stopped.erase(workers[worker].get());
        stopped_hosts.erase(host_of_worker(worker));
    }

    void pass(uint64_t ns) {
        const uint64_t end_ns = clock.now_ns() + ns;
        REQUIRE(run_until([&] { return clock.now_ns() >= end_ns; }));
    }

    /// These workers take work, which must be all there are.
    std::vector<WorkShare> take_all(const std::vector<uint32_t>& of) {
        std::vector<CallId> calls;
        for (const uint32_t worker : of)
            calls.push_back(workers[worker]->take_work(kPieces, kNever));
        std::vector<WorkShare> shares;
        for (size_t i = 0; i < of.size(); ++i)
            shares.push_back(share(of[i], calls[i]));
        return shares;
    }

    WorkShare share(uint32_t worker, CallId call) {
        REQUIRE(run_until([&] { return workers[worker]->done(call); }));
        auto taken = workers[worker]->take_share(call);
        REQUIRE(taken.has_value());
        return *std::move(taken);
    }

    CallId part(uint32_t worker, const TableInfo& table, uint64_t iteration) {
        CallOptions options;
        options.iteration = iteration;
        options.deadline_ns = kNever;
        return workers[worker]->push(table, KeyRange{0, 8}, std::as_bytes(std::span(ones_)),
                                     options);
    }

    Status asks(uint32_t worker, WorkAsk what) {
        return finish(worker, workers[worker]->ask_about_work(what));
    }

    void kill(uint32_t worker) {
        network.kill(host_of_worker(worker));
        workers[worker].reset();
    }

    static constexpr uint32_t kPieces = 12;

private:
    std::vector<float> ones_ = std::vector<float>(8, 1);
};

/// Each piece is in one share, and the shares are of one round.
void check_whole(const std::vector<WorkShare>& shares, uint64_t round) {
    std::vector<uint32_t> pieces;
    for (size_t i = 0; i < shares.size(); ++i) {
        CHECK(shares[i].round == round);
        CHECK(shares[i].index == i);
        CHECK(shares[i].worker_count == shares.size());
        CHECK(shares[i].piece_count == WorkCluster::kPieces);
        pieces.insert(pieces.end(), shares[i].pieces.begin(), shares[i].pieces.end());
    }
    std::ranges::sort(pieces);
    std::vector<uint32_t> all(WorkCluster::kPieces);
    std::iota(all.begin(), all.end(), 0U);
    CHECK(pieces == all);
}

/// Workers 0 and 1, which are left, share all the work, keep what they had in the first round, and train
/// on a new table. `first`: the shares of that round
void check_second_round(WorkCluster& job, const std::vector<WorkShare>& first) {
    const std::vector<WorkShare> second = job.take_all({0, 1});
    check_whole(second, 2);
    for (size_t i = 0; i < second.size(); ++i)
        CHECK(std::ranges::includes(second[i].pieces, first[i].pieces));
    const TableInfo next = *job.make_table(1, dense_table("second", 8));
    const CallId one = job.part(0, next, 1);
    CHECK(job.finish(1, job.part(1, next, 1)).has_value());
    CHECK(job.finish(0, one).has_value());
}

}  // namespace

TEST_SUITE("work") {
    TEST_CASE("work is dealt out when all ask, and a worker's death ends what waits for it") {
        WorkCluster job;
        const CallId early = job.workers[0]->take_work(WorkCluster::kPieces, kNever);
        job.run_idle(50);
        CHECK_FALSE(job.workers[0]->done(early));
        std::vector<WorkShare> shares = job.take_all({1, 2});
        shares.insert(shares.begin(), job.share(0, early));
        check_whole(shares, 1);

        const TableInfo table = *job.make_table(0, dense_table("first", 8));
        const CallId kept = job.part(0, table, 1);
        const CallId waits = job.workers[1]->barrier(kNever);
        job.run_idle(50);
        CHECK_FALSE(job.workers[0]->done(kept));
        job.kill(2);
        CHECK(job.finish(0, kept).code() == Errc::kReassigned);
        CHECK(job.finish(1, waits).code() == Errc::kReassigned);
        // Who did not wait learns it at the next call that would.
        CHECK(job.finish(1, job.part(1, table, 1)).code() == Errc::kReassigned);
        CHECK(job.finish(1, job.workers[1]->barrier(kNever)).code() == Errc::kReassigned);
        CHECK(job.make_table(1, dense_table("second", 8)).code() == Errc::kReassigned);

        check_second_round(job, shares);
        // The tables of the first round keep their values, and take no parts.
        CHECK(job.finish(0, job.part(0, table, 2)).code() == Errc::kReassigned);
        std::vector<float> out(8, -1);
        const CallId pull =
            job.workers[0]->pull(table, KeyRange{0, 8}, std::as_writable_bytes(std::span(out)), {});
        CHECK(job.finish(0, pull).has_value());
        CHECK(out == std::vector<float>(8, 0));
    }

    TEST_CASE("a worker that joins gets a part of the work, and a server that joins keeps to it") {
        WorkCluster job;
        (void)job.take_all({0, 1, 2});
        const TableInfo table = *job.make_table(0, dense_table("first", 8));
        const CallId waits = job.part(0, table, 1);
        (void)job.add_joining_worker();
        REQUIRE(job.run_until([&] { return job.workers[3]->ready(); }));
        CHECK(job.make_table(3, dense_table("second", 8)).code() == Errc::kReassigned);
        job.run_idle(50);
        CHECK_FALSE(job.workers[0]->done(waits));  // it has not asked for work
        const CallId asks = job.workers[3]->take_work(1, kNever);
        CHECK(job.finish(0, waits).code() == Errc::kReassigned);
        std::vector<WorkShare> shares = job.take_all({0, 1, 2});
        shares.push_back(job.share(3, asks));
        check_whole(shares, 2);
        for (const WorkShare& share : shares)
            CHECK(share.pieces.size() == 3);
        job.add_server();
        REQUIRE(job.run_until([&] { return job.manager->view().servers().size() == 3; }));
        job.run_idle(200);
        CHECK(job.finish(0, job.part(0, table, 2)).code() == Errc::kReassigned);
    }

    TEST_CASE("a question for work that timed out is withdrawn: the others wait for its worker") {
        WorkCluster job;
        const CallId impatient = job.workers[0]->take_work(WorkCluster::kPieces, kMillisecond);
        const Status ended = job.finish(0, impatient);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().message().find("not all workers asked for work") != std::string::npos);
        const CallId second = job.workers[1]->take_work(WorkCluster::kPieces, kNever);
        const CallId third = job.workers[2]->take_work(WorkCluster::kPieces, kNever);
        job.run_idle(50);
        CHECK_FALSE(job.workers[1]->done(second));
        std::vector<WorkShare> shares = job.take_all({0});
        shares.push_back(job.share(1, second));
        shares.push_back(job.share(2, third));
        check_whole(shares, 1);
    }

    TEST_CASE("a share that comes too late for its worker's call ends the round") {
        uint64_t late = 0;
        for (uint64_t seed = 1; seed <= 300 && late < 3; ++seed) {
            const uint64_t deadline_ns = 1000 * (1 + seed % 50);
            CAPTURE(seed);
            WorkCluster job(OnWorkerLoss::kReassign, seed);
            const CallId second = job.workers[1]->take_work(WorkCluster::kPieces, kNever);
            const CallId third = job.workers[2]->take_work(WorkCluster::kPieces, kNever);
            job.run_idle(50);
            // A client looks at the clock in some of its polls only: which ones, differs.
            for (uint64_t polls = seed % 67; polls > 0; --polls)
                (void)job.workers[0]->poll();
            const CallId first = job.workers[0]->take_work(WorkCluster::kPieces, deadline_ns);
            REQUIRE(job.run_until([&] { return job.workers[0]->done(first); }));
            const bool is_in_time = job.workers[0]->take_share(first).has_value();
            job.run_idle(50);
            if (is_in_time || !job.workers[1]->done(second)) continue;
            ++late;
            (void)job.share(1, second);
            (void)job.share(2, third);
            CHECK(job.finish(1, job.workers[1]->barrier(kNever)).code() == Errc::kReassigned);
            check_whole(job.take_all({0, 1, 2}), 2);
        }
        CHECK(late > 0);
    }

    TEST_CASE("a worker that gives up ends the job of the others, also if they wait for work") {
        WorkCluster job;
        const CallId first = job.workers[0]->take_work(WorkCluster::kPieces, kNever);
        const CallId second = job.workers[1]->take_work(WorkCluster::kPieces, kNever);
        (void)job.workers[2]->leave(Error(Errc::kIo, "disk full"), 0);
        for (const auto& [worker, call] : {std::pair(0U, first), std::pair(1U, second)}) {
            const Status ended = job.finish(worker, call);
            CHECK(ended.code() == Errc::kPeerLost);
            CHECK(ended.error().message().find("disk full") != std::string::npos);
        }
    }

    TEST_CASE("a worker that has come to its end is not missed") {
        WorkCluster job;
        (void)job.take_all({0, 1, 2});
        const TableInfo table = *job.make_table(0, dense_table("first", 8));
        CHECK(job.finish(2, job.workers[2]->leave({}, 0)).has_value());
        job.run_idle(50);
        const CallId one = job.part(0, table, 1);
        CHECK(job.finish(1, job.part(1, table, 1)).has_value());
        CHECK(job.finish(0, one).has_value());
    }

    TEST_CASE("a worker that gives its work back ends the round, and is not missed") {
        WorkCluster job;
        const std::vector<WorkShare> shares = job.take_all({0, 1, 2});
        const TableInfo table = *job.make_table(0, dense_table("first", 8));
        const CallId waits = job.part(0, table, 1);
        const CallId meets = job.workers[1]->barrier(kNever);
        CHECK(job.asks(2, WorkAsk::kMayGiveBack).has_value());
        job.run_idle(50);
        CHECK_FALSE(job.workers[0]->done(waits));
        CHECK(job.asks(2, WorkAsk::kGiveBack).has_value());
        CHECK(job.finish(0, waits).code() == Errc::kReassigned);
        CHECK(job.finish(1, meets).code() == Errc::kReassigned);
        CHECK(job.asks(2, WorkAsk::kGiveBack).code() == Errc::kUnavailable);
        const CallId again = job.workers[2]->take_work(WorkCluster::kPieces, kNever);
        CHECK(job.finish(2, again).code() == Errc::kUnavailable);
        CHECK(job.finish(2, job.workers[2]->leave({}, 0)).has_value());

        check_second_round(job, shares);

        CHECK(job.asks(1, WorkAsk::kGiveBack).has_value());
        CHECK(job.finish(1, job.workers[1]->leave({}, 0)).has_value());
        const Status last = job.asks(0, WorkAsk::kGiveBack);
        REQUIRE(last.code() == Errc::kUnavailable);
        CHECK(last.error().text().find("no other process has a worker") != std::string::npos);
        check_whole(job.take_all({0}), 3);
    }

    TEST_CASE("a worker that has given its work back has not done it") {
        WorkCluster job;
        (void)job.take_all({0, 1, 2});
        CHECK(job.asks(2, WorkAsk::kGiveBack).has_value());
        CHECK(job.finish(2, job.workers[2]->leave({}, 0)).has_value());
        job.kill(0);
        job.kill(1);
        REQUIRE(job.run_until([&] { return job.manager->is_ending(); }));
        REQUIRE(job.manager->outcome().code() == Errc::kPeerLost);
        CHECK(job.manager->outcome().error().text().find("no worker finished its work") == 0);
    }

    TEST_CASE("work is not given back to a job that is being stopped, or takes nothing over") {
        WorkCluster keeps(OnWorkerLoss::kContinue);
        (void)keeps.take_all({0, 1, 2});
        CHECK(keeps.asks(0, WorkAsk::kGiveBack).code() == Errc::kUnavailable);
        SimShape shape = WorkCluster::shape_of(OnWorkerLoss::kReassign);
        bool is_being_stopped = false;
        shape.is_being_stopped = [&] { return is_being_stopped; };
        WorkCluster job(shape);
        (void)job.take_all({0, 1, 2});
        CHECK(job.asks(0, WorkAsk::kMayGiveBack).has_value());
        is_being_stopped = true;
        CHECK(job.asks(0, WorkAsk::kMayGiveBack).code() == Errc::kCancelled);
        CHECK(job.asks(0, WorkAsk::kGiveBack).code() == Errc::kCancelled);
        const TableInfo table = *job.make_table(0, dense_table("first", 8));
        const CallId one = job.part(0, table, 1);
        const CallId two = job.part(1, table, 1);
        CHECK(job.finish(2, job.part(2, table, 1)).has_value());
        CHECK(job.finish(0, one).has_value());
        CHECK(job.finish(1, two).has_value());
    }

    TEST_CASE("who joins when the work is done gets none, and the others end as they were to") {
        WorkCluster job;
        (void)job.take_all({0, 1, 2});
        (void)job.add_joining_worker();
        REQUIRE(job.run_until([&] { return job.workers[3]->ready(); }));
        const CallId asks = job.workers[3]->take_work(1, kNever);  // it ends the round
        const CallId met = job.workers[1]->barrier(kNever);
        CHECK(job.finish(1, met).code() == Errc::kReassigned);
        CHECK(job.asks(3, WorkAsk::kFinish).code() == Errc::kInvalidArgument);
        const CallId again = job.workers[1]->take_work(WorkCluster::kPieces, kNever);
        CHECK(job.asks(0, WorkAsk::kFinish).has_value());
        CHECK(job.finish(3, asks).code() == Errc::kNotFound);
        CHECK(job.finish(1, again).code() == Errc::kNotFound);
        const CallId late = job.workers[2]->take_work(WorkCluster::kPieces, kNever);
        CHECK(job.finish(2, late).code() == Errc::kNotFound);
        CHECK(job.finish(3, job.workers[3]->leave({}, 0)).has_value());
        job.kill(2);  // that is no reason to do the work again
        const CallId last = job.workers[0]->barrier(kNever);
        CHECK(job.finish(1, job.workers[1]->barrier(kNever)).has_value());
        CHECK(job.finish(0, last).has_value());
    }

    TEST_CASE("the pieces of a worker that is stopped go to the others once its lease has ended") {
        WorkCluster job(WorkCluster::with_work_lease(5 * kSecond));
        const std::vector<WorkShare> first = job.take_all({0, 1, 2});
        // Its process gives signs of life while the worker computes for as long as it likes.
        const CallId met = job.workers[0]->barrier(kNever);
        job.stopped.insert(job.workers[2].get());
        job.pass(60 * kSecond);
        CHECK_FALSE(job.workers[0]->done(met));
        // A stop that is shorter than the lease costs nothing.
        job.stop_worker(2);
        job.pass(5 * kSecond);
        job.continue_worker(2);
        job.pass(60 * kSecond);
        CHECK_FALSE(job.workers[0]->done(met));
        job.stop_worker(2);
        const uint64_t since_ns = job.clock.now_ns();
        CHECK(job.finish(0, met).code() == Errc::kReassigned);
        const uint64_t waited_ns = job.clock.now_ns() - since_ns;
        CHECK(waited_ns > 5 * kSecond);
        CHECK(waited_ns < 7 * kSecond);
        check_second_round(job, first);
        job.continue_worker(2);  // it is told
        const Status told = job.finish(2, job.workers[2]->barrier(kNever));
        CHECK(told.error().text().find("goes on without this process") != std::string::npos);
        const CallId last = job.workers[0]->barrier(kNever);
        CHECK(job.finish(1, job.workers[1]->barrier(kNever)).has_value());
        CHECK(job.finish(0, last).has_value());
    }

    TEST_CASE(
        "without a lease, or where nobody takes its work over, a stopped worker is waited for") {
        SimShape other = WorkCluster::with_work_lease(5 * kSecond);
        other.on_worker_loss = OnWorkerLoss::kContinue;
        for (const SimShape& shape : {WorkCluster::with_work_lease(0), other}) {
            WorkCluster job(shape);
            (void)job.take_all({0, 1, 2});
            const CallId met = job.workers[0]->barrier(kNever);
            job.stop_worker(2);
            job.pass(60 * kSecond);
            CHECK_FALSE(job.workers[0]->done(met));
        }
    }

    TEST_CASE("random ends: whoever stays goes from round to round, and sums are whole") {
        WEIR_TEST_SEED(first, 1);
        for (uint64_t seed = first; seed < first + testing::histories_or(100); ++seed) {
            INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
            Random random(seed);
            SimShape shape;
            shape.workers = 4;
            shape.on_worker_loss = OnWorkerLoss::kReassign;
            SimCluster job(seed, shape, {});
            REQUIRE(job.start());
            enum class Does { kTakes, kMakes, kPushes, kMeets, kEnds, kGivesBack, kLeaves };

            struct Worker {
                Does does = Does::kTakes;
                CallId call = 0;
                bool is_busy = false;
                WorkShare share;
                TableInfo table;
                uint64_t iteration = 0;
            };

            std::vector<Worker> workers(shape.workers);
            std::vector<uint64_t> gone_after;
            std::vector<bool> gives_back;
            for (uint32_t i = 0; i + 1 < shape.workers; ++i) {
                gone_after.push_back(random.below(3000));
                gives_back.push_back(random.below(2) == 0);
            }
            const std::vector<double> one(1, 1);
            uint64_t steps = 0;
            uint64_t rounds = 0;
            const auto turn = [&](uint32_t i) {
                Worker& w = workers[i];
                ClientCore& client = *job.workers[i];
                if (w.is_busy && !client.done(w.call)) return;
                Errc ended = Errc::kOk;
                if (std::exchange(w.is_busy, false)) {
                    if (w.does == Does::kTakes) {
                        auto share = client.take_share(w.call);
                        REQUIRE(share.has_value());
                        w.share = *std::move(share);
                        w.does = Does::kMakes;
                    } else if (w.does == Does::kMakes) {
                        auto table = client.take_table(w.call);
                        ended = table.code();
                        if (table) w.table = *std::move(table);
                        w.iteration = 0;
                        if (table) w.does = Does::kPushes;
                    } else {
                        ended = client.take(w.call).code();
                        const bool has_met = w.does == Does::kMeets;
                        if (ended == Errc::kOk && w.iteration == 20)
                            w.does = has_met ? Does::kEnds : Does::kMeets;
                    }
                }
                REQUIRE((ended == Errc::kOk || ended == Errc::kReassigned));
                if (ended == Errc::kReassigned) w.does = Does::kTakes;
                if (w.does == Does::kEnds) return;
                w.is_busy = true;
                if (w.does == Does::kTakes) w.call = client.take_work(8, kNever);
                if (w.does == Does::kMakes) {
                    w.call = client.create_table(dense_table(
                        "round " + std::to_string(w.share.round), 8, ValueType::kFloat64));
                }
                if (w.does == Does::kMeets) w.call = client.barrier(kNever);
                if (w.does == Does::kPushes) {
                    CallOptions options;
                    options.iteration = ++w.iteration;
                    options.deadline_ns = kNever;
                    w.call = client.push(w.table, KeyRange{w.share.index, w.share.index + 1},
                                         std::as_bytes(std::span(one)), options);
                }
                rounds = std::max(rounds, w.share.round);
            };
            /// Lets a worker end its call, give its work back, and leave.
            const auto leaves = [&](uint32_t i) {
                Worker& w = workers[i];
                ClientCore& client = *job.workers[i];
                if (w.is_busy && !client.done(w.call)) return false;
                const bool has_given_back = w.does == Does::kGivesBack;
                const bool has_left = w.does == Does::kLeaves;
                if (std::exchange(w.is_busy, true)) {
                    const Status ended = client.take(w.call);
                    if (has_given_back || has_left) REQUIRE(ended.has_value());
                }
                if (has_left) return true;
                w.call = has_given_back ? client.leave({}, 0)
                                        : client.ask_about_work(WorkAsk::kGiveBack);
                w.does = has_given_back ? Does::kLeaves : Does::kGivesBack;
                return false;
            };
            const bool over = job.run_until([&] {
                bool all = true;
                for (uint32_t i = 0; i < shape.workers; ++i) {
                    if (job.workers[i] == nullptr) continue;
                    if (i < gone_after.size() && steps > gone_after[i]) {
                        const bool is_gone = !gives_back[i] || leaves(i);
                        if (!gives_back[i]) job.network.kill(job.host_of_worker(i));
                        if (is_gone) job.workers[i].reset();
                        all &= is_gone;
                        continue;
                    }
                    turn(i);
                    all &= workers[i].does == Does::kEnds;
                }
                ++steps;
                return all;
            });
            REQUIRE(over);
            // Who is left has done all iterations of the last round, each with all of its workers.
            for (uint32_t i = 0; i < shape.workers; ++i) {
                if (job.workers[i] == nullptr || workers[i].share.round != rounds) continue;
                std::vector<double> out(8, -1);
                const CallId pull = job.workers[i]->pull(
                    workers[i].table, KeyRange{0, 8}, std::as_writable_bytes(std::span(out)), {});
                REQUIRE(job.finish(i, pull).has_value());
                for (uint32_t key = 0; key < 8; ++key)
                    REQUIRE(out[key] == (key < workers[i].share.worker_count ? 20 : 0));
            }
        }
    }
}

}  // namespace weir::test
