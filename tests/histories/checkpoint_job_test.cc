// SPDX-License-Identifier: Apache-2.0
/// \file
/// Checkpoints of jobs on a simulated network, and jobs that go on from them with other numbers of
/// servers, shards and workers.

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/checkpoint/folder.h"
#include "tests/cluster/answer_order.h"
#include "tests/histories/machinery/checkpoint_history.h"
#include "tests/log_lines.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

TableSchema counters(const char* name) {
    return table_of(Layout::kSparse, name, 0, ValueType::kUInt64);
}

Status checkpoint_now(SimCluster& cluster, uint32_t worker = 0) {
    const auto call = cluster.workers[worker]->checkpoint(0);
    REQUIRE(cluster.run_until([&] { return cluster.workers[worker]->done(call); }));
    const auto number = cluster.workers[worker]->take_checkpoint(call);
    return number ? Status() : Status(number.error());
}

/// Three servers with copies. There is a checkpoint with ones under `keys` of table "w".
SimShape copied_job(CheckpointFolder& folder, const std::vector<uint64_t>& keys) {
    SimShape shape{.servers = 3, .shards = 1, .workers = 1};
    shape.is_manager_apart = true;
    shape.replicas = 1;
    shape.checkpoints = folder.options();
    StartedCluster first(1, shape, counters("w"));
    const std::vector<uint64_t> ones(keys.size(), 1);
    REQUIRE(first.finish(
        0, first.client().push(first.table, keys, std::as_bytes(std::span(ones)), {})));
    REQUIRE(checkpoint_now(first));
    return shape;
}

/// What a shard says of its own steps of a checkpoint; the other reports come of an order.
bool is_step(const wire::Frame& frame, size_t /*bytes*/) {
    using Step = CheckpointReport::Step;
    if (frame.header.kind != wire::Kind::kCheckpoint) return false;
    const auto report = CheckpointReport::decode(frame.values);
    return report && (report->step == Step::kChunk || report->step == Step::kSaved);
}

/// With one manager in a third of the histories: then hosts are cut from it, and clocks drift.
void run_checkpoints_with_managers(uint64_t histories) {
    const uint64_t first = testing::seed_or(1);
    uint64_t given_up = 0;
    HistoryCounts sum;
    for (uint64_t seed = first; seed < first + histories; ++seed) {
        INFO("WEIR_SEED=" << seed);
        CheckpointHistory history(seed, {.of_servers = seed % 2 == 1,
                                         .of_disk = seed % 4 >= 2,
                                         .of_managers = seed % 3 != 0,
                                         .of_network = true});
        history.run();
        const HistoryCounts& counts = history.counts();
        given_up += history.given_up_count();
        sum.leaders_failed += counts.leaders_failed;
        sum.leaders_failed_writing += counts.leaders_failed_writing;
        sum.managers_with_servers += counts.managers_with_servers;
        sum.handovers += counts.handovers;
        sum.servers_killed += counts.servers_killed;
        sum.partings += counts.partings;
        sum.cuts += counts.cuts;
    }
    MESSAGE(fmt::format(
        "{} managers failed that led, {} of them while a checkpoint was written, {} with a server; "
        "{} checkpoints were given up for that; {} were to hand over, {} servers died, {} hosts "
        "were cut off, {} only lost connections",
        sum.leaders_failed, sum.leaders_failed_writing, sum.managers_with_servers, given_up,
        sum.handovers, sum.servers_killed, sum.partings, sum.cuts));
    // Histories that no longer reach what they are there for fail.
    CHECK(sum.leaders_failed_writing >= testing::fewest_of(histories, 1.1));
    CHECK(given_up >= testing::fewest_of(histories, 0.6));
    CHECK(sum.managers_with_servers >= testing::fewest_of(histories, 0.2));
    CHECK(sum.handovers >= testing::fewest_of(histories, 1.2));
    CHECK(sum.servers_killed >= testing::fewest_of(histories, 0.18));
    CHECK(sum.partings >= testing::fewest_of(histories, 4));
    CHECK(sum.cuts >= testing::fewest_of(histories, 2));
}

}  // namespace

TEST_SUITE("checkpoint_job") {
    TEST_CASE("jobs go on from what they had at one iteration, and between pushes, in any shape") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t histories = testing::histories_or(20);
        uint64_t named_again = 0;
        uint64_t changes_of_endings = 0;
        for (uint64_t seed = first; seed < first + histories; ++seed) {
            INFO("WEIR_SEED=" << seed);
            CheckpointHistory history(seed);
            history.run();
            named_again += history.named_again();
            changes_of_endings += history.changes_of_endings();
        }
        if (histories < 10) return;
        CHECK(named_again > 0);
        CHECK(changes_of_endings >= histories * kEndingKeys);
    }

    TEST_CASE("a disk that fails or is slow costs a checkpoint at most, and no push") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t histories =
            (testing::histories_or(20) + 1) / 2;  // each takes three times as long
        uint64_t failed_count = 0;
        for (uint64_t seed = first; seed < first + histories; ++seed) {
            INFO("WEIR_SEED=" << seed);
            CheckpointHistory history(seed, {.of_disk = true});
            history.run();
            failed_count += history.failed_count();
        }
        CHECK(failed_count >= histories / 2);
    }

    TEST_CASE("what servers do that die, stop, join and leave costs a checkpoint at most") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t histories =
            (testing::histories_or(20) + 2) / 3;  // each takes ten times as long
        for (uint64_t seed = first; seed < first + histories; ++seed) {
            INFO("WEIR_SEED=" << seed);
            CheckpointHistory(seed, {.of_servers = true, .of_disk = seed % 2 == 1}).run();
        }
    }

    TEST_CASE(
        "managers that fail, cuts and clocks that drift cost a checkpoint at most, and no push") {
        run_checkpoints_with_managers(testing::histories_or(15));
    }

    TEST_CASE("answers leave before a poll takes a step of a checkpoint") {
        constexpr uint64_t kKeys = 1000;
        constexpr size_t kTables = 20;
        AnswerOrder order;
        CheckpointFolder folder;
        SimShape shape{.servers = 1, .shards = 1};
        shape.checkpoints = folder.options();
        shape.around_shard = [&](SimShape::Endpoint inner) {
            return std::make_unique<AnswerOrderEndpoint>(std::move(inner), order, is_step);
        };
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        std::vector<TableInfo> tables;
        for (size_t i = 0; i < kTables; ++i) {
            tables.push_back(*cluster.make_table(
                0, dense_table("t" + std::to_string(i), kKeys, ValueType::kUInt64)));
        }
        const uint64_t one = 1;
        std::deque<std::pair<ClientCore*, ClientCore::CallId>> calls;
        const auto push = [&](size_t i) {  // all workers push to all tables
            ClientCore& worker = *cluster.workers[i % cluster.workers.size()];
            const KeyRange key{i % kKeys, i % kKeys + 1};
            calls.emplace_back(&worker, worker.push(tables[i % kTables], key,
                                                    std::as_bytes(std::span(&one, 1)), {}));
        };
        const auto step = [&] {
            (void)cluster.step();
            (void)cluster.network.step();  // not only when nobody has anything to do
            std::erase_if(calls, [](const auto& call) {
                if (!call.first->done(call.second)) return false;
                CHECK(call.first->take(call.second));
                return true;
            });
        };
        size_t pushed = 0;
        for (int i = 0; i < 3; ++i) {
            const auto checkpoint = cluster.workers[0]->checkpoint(0);
            while (!cluster.workers[0]->done(checkpoint)) {
                while (calls.size() < 30)
                    push(pushed++);
                step();
            }
            CHECK(cluster.workers[0]->take_checkpoint(checkpoint));
        }
        while (!calls.empty())
            step();
        MESSAGE(order.alone << " reports in polls without answers, " << order.after_answer
                            << " after answers");
        CHECK(order.after_answer > 0);
        CHECK(order.before_answer == 0);
    }

    TEST_CASE(
        "iterations that ended at some servers before they were closed hold up no checkpoint") {
        CheckpointFolder folder;
        SimShape shape{.servers = 2, .shards = 1, .workers = 2};
        shape.is_manager_apart = true;
        shape.on_worker_loss = OnWorkerLoss::kReassign;
        shape.checkpoints = folder.options();
        StartedCluster cluster(1, shape, dense_table("w", 64, ValueType::kUInt64));
        std::vector<ClientCore::CallId> calls;
        for (auto& worker : cluster.workers)
            calls.push_back(worker->take_work(4, kSecond));
        for (size_t i = 0; i < calls.size(); ++i) {
            REQUIRE(cluster.run_until([&] { return cluster.workers[i]->done(calls[i]); }));
            REQUIRE(cluster.workers[i]->take_share(calls[i]).has_value());
        }
        const std::vector<uint64_t> ones(64, 1);
        const auto part = [&](uint32_t worker) {
            return cluster.workers[worker]->push(cluster.table, KeyRange{0, 64},
                                                 std::as_bytes(std::span(ones)), {.iteration = 1});
        };
        // The second worker's part comes to one of two servers only, and closes the iteration there.
        cluster.network.partition(cluster.host_of_worker(1), 1);
        const auto first = part(0);
        (void)part(1);
        cluster.run_idle(500);
        cluster.kill_host(cluster.host_of_worker(1));
        cluster.workers[1].reset();
        CHECK(cluster.finish(0, first).code() == Errc::kReassigned);
        std::set<uint64_t> closed;
        for (const auto& shard : cluster.shards)
            closed.insert(shard->tables()[0]->iterations.state().closed().lowest());
        CHECK(closed == std::set<uint64_t>{0, 1});
        CHECK(checkpoint_now(cluster));
        CHECK(cluster.clock.now_ns() < Checkpoints::kTakeNs);
    }

    TEST_CASE("a checkpoint waits until lost copies are made again, and holds up none") {
        CheckpointFolder folder;
        SimShape shape{.servers = 3, .shards = 1, .workers = 1, .message_bytes_max = 1024};
        shape.replicas = 1;
        shape.is_manager_apart = true;
        shape.checkpoints = folder.options();
        transport::sim::Options
            network;  // copying takes longer than the manager needs to begin one
        network.delay_ns_max = kMillisecond;
        StartedCluster cluster(1, shape, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64),
                               network);
        const std::vector<uint64_t> keys = all_keys(100'000);
        const std::vector<uint64_t> ones(keys.size(), 1);
        REQUIRE(cluster.finish(
            0, cluster.client().push(cluster.table, keys, std::as_bytes(std::span(ones)), {})));
        const auto is_copying = [&] {
            const View view = cluster.manager->view();
            return std::ranges::any_of(view.segments(), &ViewSegment::has_learner);
        };
        REQUIRE(cluster.run_until([&] { return !is_copying(); }));
        REQUIRE(checkpoint_now(cluster));
        cluster.kill_host(1);
        cluster.shards[1].reset();
        REQUIRE(cluster.run_until(is_copying));
        const uint64_t steps = folder.disk->steps();
        const auto call = cluster.client().checkpoint(0);
        size_t turns_copying = 0;
        REQUIRE(cluster.run_until([&] {
            if (is_copying()) {
                ++turns_copying;
                CHECK(folder.disk->steps() == steps);
            }
            return cluster.client().done(call);
        }));
        CHECK(turns_copying > 100);
        CHECK(cluster.client().take_checkpoint(call));
    }

    TEST_CASE(
        "a full disk costs the checkpoint alone, and a damaged chunk ends no job but is named") {
        CheckpointFolder folder;
        SimShape shape{.servers = 2, .shards = 1, .workers = 1};
        shape.checkpoints = folder.options();
        StartedCluster cluster(1, shape, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64));
        const std::vector<uint64_t> keys = all_keys(100);
        const auto push = [&](SimCluster& to, const TableInfo& table) {
            const std::vector<uint64_t> ones(keys.size(), 1);
            return to.finish(0,
                             to.workers[0]->push(table, keys, std::as_bytes(std::span(ones)), {}));
        };
        REQUIRE(push(cluster, cluster.table));
        folder.disk->fill();
        const Status full = checkpoint_now(cluster);
        CHECK(full.code() == Errc::kIo);
        CHECK(full.error().text().find("simulated: No space left on device") != std::string::npos);
        CHECK(push(cluster, cluster.table));
        folder.disk->empty_out();
        REQUIRE(checkpoint_now(cluster));
        CHECK(push(cluster, cluster.table));
        const auto chunk = folder.latest().chunks[0];
        (void)folder.damage_first_chunk();
        SimShape other{.servers = 1, .shards = 2, .workers = 1};
        folder.resume(other);
        SimCluster resumed(2, other, {});
        REQUIRE(resumed.start());
        const auto table =
            resumed.make_table(0, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64));
        REQUIRE(table.code() == Errc::kParse);
        CHECK(table.error().text().find(chunk.name) != std::string::npos);
    }

    TEST_CASE("checkpoints that the job does not go on from stay, and are not counted") {
        CheckpointFolder folder;
        SimShape shape{.servers = 1, .shards = 1, .workers = 1};
        shape.checkpoints = folder.options();
        const size_t kept = shape.checkpoints.kept_count;
        const auto write = [&](const SimShape& job, size_t count) {
            SimCluster cluster(1, job, {});
            REQUIRE(cluster.start());
            REQUIRE(cluster.make_table(0, counters("w")));
            for (size_t i = 0; i < count; ++i)
                REQUIRE(checkpoint_now(cluster));
            cluster.run_idle(2);  // old ones are removed
        };
        write(shape, kept + 2);
        const auto first = checkpoint::list_checkpoints(*folder.disk, folder.folder).value();
        CHECK(first.size() == kept);
        {
            const testing::LogLines log;
            write(shape, kept + 2);
            CHECK(log.count("this job does not go on from: they stay") == 1);
        }
        const auto both = checkpoint::list_checkpoints(*folder.disk, folder.folder).value();
        CHECK(both.size() == 2 * kept);
        CHECK(std::ranges::includes(both, first));
        // Who goes on from one has them all: it is the same training.
        folder.resume(shape);
        write(shape, 1);
        CHECK(checkpoint::list_checkpoints(*folder.disk, folder.folder)->size() == kept);
    }

    TEST_CASE("none is due before there is a table, but one that is asked for is written") {
        CheckpointFolder folder;
        SimShape shape{.servers = 1, .shards = 1, .workers = 1};
        shape.checkpoints = folder.options();
        shape.checkpoints.every_ns = kMillisecond;
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        cluster.run_idle(50);
        CHECK(checkpoint::list_checkpoints(*folder.disk, folder.folder)->empty());
        REQUIRE(checkpoint_now(cluster));
        CHECK(checkpoint::list_checkpoints(*folder.disk, folder.folder)->size() == 1);
        REQUIRE(cluster.make_table(0, counters("w")));
        cluster.run_idle(50);
        CHECK(checkpoint::list_checkpoints(*folder.disk, folder.folder)->size() > 1);
    }

    TEST_CASE("tables that nobody opens, or that cannot be read, stay in all later checkpoints") {
        for (const bool is_in_another_folder : {false, true}) {
            CAPTURE(is_in_another_folder);
            CheckpointFolder folder;
            SimShape shape{.servers = 2, .shards = 1, .workers = 1};
            shape.checkpoints = folder.options();
            SimCluster first(1, shape, {});
            REQUIRE(first.start());
            const std::vector<uint64_t> keys = all_keys(100);
            const std::vector<uint64_t> ones(keys.size(), 1);
            for (const char* const name : {"damaged", "unread", "used"}) {
                const TableInfo table = *first.make_table(0, counters(name));
                REQUIRE(first.finish(
                    0, first.workers[0]->push(table, keys, std::as_bytes(std::span(ones)), {})));
            }
            REQUIRE(checkpoint_now(first));
            const std::vector<std::byte> whole = folder.damage_first_chunk();

            SimShape other{.servers = 1, .shards = 2, .workers = 1};
            folder.resume(other);
            if (is_in_another_folder) other.checkpoints.folder = "e";
            SimCluster second(2, other, {});
            REQUIRE(second.start());
            REQUIRE(second.make_table(0, counters("damaged")).code() == Errc::kParse);
            REQUIRE(second.make_table(0, counters("used")));
            for (size_t i = 0; i < 2 * other.checkpoints.kept_count; ++i)
                REQUIRE(checkpoint_now(second));

            CheckpointFolder newest{.disk = folder.disk, .folder = other.checkpoints.folder};
            newest.mend_first_chunk(whole);
            SimShape last{.servers = 2, .shards = 1, .workers = 1};
            newest.resume(last);
            SimCluster third(3, last, {});
            REQUIRE(third.start());
            for (const char* const name : {"damaged", "unread", "used"})
                CHECK(pull(third, *third.make_table(0, counters(name)), keys) == ones);
        }
    }

    TEST_CASE("a chunk of another job is not taken for one of the same name that is to be copied") {
        CheckpointFolder folder;
        const std::vector<uint64_t> keys = all_keys(50);
        SimShape shape{.servers = 1, .shards = 1, .workers = 1};
        for (const uint64_t value : {1, 2}) {
            CheckpointFolder own{.disk = folder.disk, .folder = value == 1 ? "e" : "d"};
            shape.checkpoints = own.options();
            StartedCluster job(1, shape, counters("w"));
            const std::vector<uint64_t> values(keys.size(), value);
            const auto bytes = std::as_bytes(std::span(values));
            REQUIRE(job.finish(0, job.client().push(job.table, keys, bytes, {})));
            REQUIRE(checkpoint_now(job));
        }
        folder.resume(shape);
        shape.checkpoints.folder = "e";
        SimCluster next(2, shape, {});
        REQUIRE(next.start());
        const Status written = checkpoint_now(next);
        REQUIRE_FALSE(written);
        CHECK(written.error().text().find("belongs to another checkpoint than that in d") !=
              std::string::npos);
        CHECK(checkpoint::list_checkpoints(*folder.disk, "e").value() == std::vector<uint64_t>{1});
    }

    TEST_CASE("a table of the checkpoint that is opened while a server dies is whole") {
        const std::vector<uint64_t> keys = all_keys(200);
        const std::vector<uint64_t> ones(keys.size(), 1);
        CheckpointFolder folder;
        SimShape shape = copied_job(folder, keys);
        for (uint64_t turns = 0; turns < 60; ++turns) {
            CAPTURE(turns);
            folder.resume(shape);
            SimCluster second(2, shape, {});
            REQUIRE(second.start());
            second.run_idle(100);
            second.kill_host(1);
            second.shards[1].reset();
            for (uint64_t i = 0; i < turns; ++i)
                second.step();
            const auto table = second.make_table(0, counters("w"));
            REQUIRE(table);
            CHECK(pull(second, *table, keys) == ones);
            REQUIRE(second.run_until([&] {
                const View view = second.manager->view();
                return std::ranges::all_of(view.segments(), [](const ViewSegment& segment) {
                    return segment.backup_count() == 1;
                });
            }));
            second.kill_host(0);
            second.shards[0].reset();
            CHECK(pull(second, *table, keys) == ones);  // as its copies have it
        }
    }

    TEST_CASE("a table of the checkpoint that is opened before others may take over is whole") {
        const std::vector<uint64_t> keys = all_keys(200);
        const std::vector<uint64_t> ones(keys.size(), 1);
        CheckpointFolder folder;
        SimShape shape = copied_job(folder, keys);
        folder.resume(shape);
        SimCluster second(2, shape, {});
        REQUIRE(second.start());
        second.run_idle(100);
        const testing::LogLines log;
        second.shards[1].reset();  // its process lives, and goes on to get leases
        REQUIRE(second.run_until([&] { return log.count("shard 0 of server 1") > 0; }, 1'000'000));
        CHECK(log.count("the job goes on without server 1") == 0);
        const auto table = second.make_table(0, counters("w"));
        REQUIRE(table);
        CHECK(log.count("the job goes on without server 1") == 1);
        CHECK(pull(second, *table, keys) == ones);
    }

    TEST_CASE(
        "what a worker pushed that has left is in the next checkpoint, though its clock is gone") {
        CheckpointFolder folder;
        SimShape shape{.servers = 2, .shards = 1, .workers = 2};
        shape.checkpoints = folder.options();
        const TableSchema schema = table_of(Layout::kSparse, "w", 0, ValueType::kUInt64);
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        std::vector<TableInfo> tables;
        for (uint32_t i = 0; i < 2; ++i)
            tables.push_back(*cluster.make_table(i, schema));
        const std::vector<uint64_t> keys = all_keys(50);
        const std::vector<uint64_t> ones(keys.size(), 1);
        const auto push = [&](uint32_t worker) {
            return cluster.finish(
                worker, cluster.workers[worker]->push(tables[worker], keys,
                                                      std::as_bytes(std::span(ones)), {}));
        };
        REQUIRE(push(0));
        REQUIRE(checkpoint_now(cluster));
        REQUIRE(push(1));
        REQUIRE(cluster.finish(1, cluster.workers[1]->leave({}, 0)));
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->worker_count() == 1; }));
        cluster.run_idle(10);
        REQUIRE(checkpoint_now(cluster));
        SimShape other{.servers = 1, .shards = 1, .workers = 1};
        folder.resume(other);
        StartedCluster resumed(2, other, schema);
        CHECK(pull(resumed, resumed.table, keys) == std::vector<uint64_t>(keys.size(), 2));
    }

    TEST_CASE("what is closed while one is written counts from that one, not from the one before") {
        CheckpointFolder folder;
        SimShape shape{.servers = 2, .shards = 1, .workers = 1};
        shape.checkpoints = folder.options();
        shape.checkpoints.every_iterations = 320;
        StartedCluster cluster(1, shape, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64));
        const std::vector<uint64_t> keys = all_keys(100);
        const std::vector<uint64_t> ones(keys.size(), 1);
        const auto values = std::as_bytes(std::span(ones));
        std::set<uint64_t> iterations;  // of checkpoints
        for (uint64_t i = 1; i <= 2000; ++i) {
            const auto push = cluster.client().push(cluster.table, keys, values, {.iteration = i});
            REQUIRE(cluster.finish(0, push));
            const auto last = checkpoint::latest(*folder.disk, "d");
            if (last) iterations.insert(folder.latest().iteration.value());
        }
        REQUIRE(iterations.size() > 4);
        uint64_t before = 0;
        for (const uint64_t iteration : iterations) {
            CHECK(iteration >= before + 320);
            before = iteration;
        }
    }

    TEST_CASE("the iteration that it shows is that of a table that goes on") {
        CheckpointFolder folder;
        SimShape shape{.servers = 2, .shards = 1, .workers = 1};
        shape.checkpoints = folder.options();
        const TableSchema old = table_of(Layout::kSparse, "old", 0, ValueType::kUInt64);
        StartedCluster cluster(1, shape, old);
        const std::vector<uint64_t> keys = all_keys(100);
        const std::vector<uint64_t> ones(keys.size(), 1);
        const auto close = [&](const TableInfo& table, uint64_t iteration) {
            const auto push = cluster.client().push(table, keys, std::as_bytes(std::span(ones)),
                                                    {.iteration = iteration});
            REQUIRE(cluster.finish(0, push));
        };
        for (uint64_t i = 1; i <= 5; ++i)
            close(cluster.table, i);
        REQUIRE(checkpoint_now(cluster));
        CHECK(folder.latest().iteration == 5);
        const auto next =
            cluster.make_table(0, table_of(Layout::kSparse, "new", 0, ValueType::kUInt64));
        REQUIRE(next);
        close(*next, 1);
        close(*next, 2);
        for (size_t i = 0; i < 2; ++i) {  // the second time without news
            REQUIRE(checkpoint_now(cluster));
            CHECK(folder.latest().iteration == 2);
            CHECK(folder.latest().closed.size() == 2);
        }
    }

    TEST_CASE("one that was due and failed is tried again, and what a worker asked for is not") {
        for (const bool is_due : {true, false}) {
            CheckpointFolder folder;
            SimShape shape{.servers = 2, .shards = 1, .workers = 1};
            shape.checkpoints = folder.options();
            bool is_wanted = is_due;
            shape.checkpoints.is_asked_for = [&] { return std::exchange(is_wanted, false); };
            folder.disk->fill();
            StartedCluster cluster(1, shape, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64));
            if (!is_due) CHECK(checkpoint_now(cluster).code() == Errc::kIo);
            REQUIRE(cluster.run_until([&] { return folder.disk->steps() > 0; }));
            cluster.run_idle(100);
            folder.disk->empty_out();
            cluster.run_idle(500);
            const auto is_there = [&] { return checkpoint::latest(*folder.disk, "d").has_value(); };
            CHECK_FALSE(is_there());  // a full disk is given some time
            cluster.run_idle(11'000);
            CHECK(is_there() == is_due);
        }
    }

    TEST_CASE("the state of an update rule goes on, too") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            TableSchema schema = table_of(layout, "w", 500, ValueType::kFloat32);
            schema.rule = "adagrad";
            schema.parameters.value = {0.5, 0.01};
            const std::vector<uint64_t> keys = all_keys(500);
            const auto push = [&](SimCluster& cluster, const TableInfo& table, int rounds) {
                for (int round = 0; round < rounds; ++round) {
                    std::vector<float> values(keys.size());
                    for (size_t i = 0; i < values.size(); ++i)
                        values[i] = static_cast<float>(i % 7) + 0.25F * static_cast<float>(round);
                    const auto call =
                        cluster.workers[0]->push(table, keys, std::as_bytes(std::span(values)), {});
                    REQUIRE(cluster.finish(0, call));
                }
            };
            const auto values_of = [&](SimCluster& cluster, const TableInfo& table) {
                std::vector<float> values(keys.size());
                const auto call = cluster.workers[0]->pull(
                    table, keys, std::as_writable_bytes(std::span(values)), {});
                REQUIRE(cluster.finish(0, call));
                return values;
            };
            CheckpointFolder folder;
            SimShape shape{.servers = 2, .shards = 2, .workers = 1};
            shape.checkpoints = folder.options();
            StartedCluster first(1, shape, schema);
            push(first, first.table, 3);
            REQUIRE(checkpoint_now(first));
            push(first, first.table, 3);
            SimShape other{.servers = 1, .shards = 3, .workers = 1};
            folder.resume(other);
            StartedCluster second(2, other, schema);
            CHECK(values_of(second, second.table) != values_of(first, first.table));
            push(second, second.table, 3);
            CHECK(values_of(second, second.table) == values_of(first, first.table));
        }
    }
}

}  // namespace weir::test
