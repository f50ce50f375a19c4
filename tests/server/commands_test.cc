// SPDX-License-Identifier: Apache-2.0
/// \file
/// Commands for a running job, `weir status` and `weir leave`: what the manager answers, and whom it turns
/// away.

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/cluster/raw_worker.h"
#include "tests/cluster/servers_only.h"

namespace weir::test {
namespace {

using testing::frame_header;
using transport::ConnectionId;
using wire::Kind;

JobStatus status_of(RawWorker& command) {
    constexpr uint64_t kRequest = 1000;
    const ConnectionId connection = command.join_as_operator();
    command.send(connection, frame_header(Kind::kStats, kRequest));
    std::vector<std::byte> body;
    const auto is_whole = [&] {
        body.clear();
        uint64_t bytes = ~uint64_t{0};
        for (const RawWorker::Answer& answer : command.answers()) {
            if (answer.connection != connection || answer.header.request != kRequest) continue;
            body.insert(body.end(), answer.body.begin(), answer.body.end());
            bytes = answer.header.first;
        }
        return body.size() >= bytes;
    };
    REQUIRE(command.run_until(is_whole));
    const auto status = JobStatus::decode(body);
    REQUIRE(status.has_value());
    CHECK(JobStatus::decode(status->encode()) == status);
    return *status;
}

/// The answer to a command that is refused, and its text.
std::pair<Errc, std::string> ask(RawWorker& command, Kind kind) {
    constexpr uint64_t kRequest = 2000;
    command.send(command.join_as_operator(), frame_header(kind, kRequest));
    REQUIRE(command.run_until([&] { return command.answer(kRequest) != nullptr; }));
    const RawWorker::Answer& answer = *command.answer(kRequest);
    return {answer.header.status, decode_text(answer.body).value_or("")};
}

}  // namespace

TEST_SUITE("commands") {
    TEST_CASE("a command sees the job: who is in it, who holds how much, who is waited for") {
        SimCluster cluster(9, {.message_bytes_max = 1024}, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("numbers", 800));
        REQUIRE(table.has_value());
        const std::vector<float> ones(800, 1);
        for (const uint32_t worker : {0U, 2U}) {
            (void)cluster.workers[worker]->push(*table, KeyRange{0, 800},
                                                std::as_bytes(std::span(ones)), {.iteration = 1});
        }
        RawWorker command(cluster, 99);
        const JobStatus status = status_of(command);
        CHECK(status.epoch == 1);
        REQUIRE(status.servers.size() == 2);
        REQUIRE(status.workers.size() == 3);
        double share = 0;
        uint64_t keys = 0;
        for (const JobStatus::Server& server : status.servers) {
            for (const JobStatus::Shard& shard : server.shards) {
                CHECK(shard.answered);
                share += shard.share;
                keys += shard.keys;
            }
        }
        CHECK(share == doctest::Approx(1));
        CHECK(keys == 800);
        REQUIRE(status.open.size() == 1);
        CHECK(status.open[0].table == "numbers");
        CHECK(status.open[0].iteration == 1);
        CHECK(status.open[0].late == std::vector<uint32_t>{1});
        CHECK(status.open[0].late_count == 1);
    }

    TEST_CASE("a command sees what filters have made of pushes and pulls, at all shards") {
        SimCluster cluster(17, {}, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("numbers", 800));
        REQUIRE(table.has_value());
        const Filters chain = *Filters::parse("significant=0,zeros");
        CallOptions options;
        options.filters = &chain;
        std::vector<float> few(800);
        few[3] = few[700] = 5;
        ClientCore& client = *cluster.workers[0];
        REQUIRE(cluster.finish(
            0, client.push(*table, KeyRange{0, 800}, std::as_bytes(std::span(few)), options)));
        const Filters codecs = *Filters::parse("zeros");
        options.filters = &codecs;
        std::vector<float> out(800);
        REQUIRE(cluster.finish(0, client.pull(*table, KeyRange{0, 800},
                                              std::as_writable_bytes(std::span(out)), options)));
        CHECK(out == few);
        RawWorker command(cluster, 99);
        const FilterTraffic filters = status_of(command).filters;
        CHECK(filters.rows_pushed == 800);
        CHECK(filters.rows_kept == 2);
        CHECK(filters.selectors == FilterBytes{3200, 8});
        CHECK(filters.pulled_zeros.before == 3200);
        CHECK(filters.pulled_zeros.after >= 8 + 800 / 8);
        CHECK(filters.pulled_zeros.after < 3200 / 8);
    }

    TEST_CASE("a command sees what workers hold back, unless they compute") {
        SimCluster cluster(18, {}, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("numbers", 800));
        REQUIRE(table.has_value());
        const Filters chain = *Filters::parse("significant=10");
        CallOptions options;
        options.filters = &chain;
        const std::vector<float> some(800, 1);
        ClientCore& client = *cluster.workers[0];
        REQUIRE(cluster.finish(
            0, client.push(*table, KeyRange{0, 800}, std::as_bytes(std::span(some)), options)));
        RawWorker command(cluster, 99);
        const auto held = [&] {
            std::vector<uint64_t> rows;
            for (const JobStatus::Worker& worker : status_of(command).workers)
                rows.push_back(worker.rows_held);
            return rows;
        };
        CHECK(held() == std::vector<uint64_t>{800, 0, 0});
        cluster.stopped.insert(&client);
        CHECK(held() == std::vector<uint64_t>{JobStatus::kUnknown, 0, 0});
        cluster.stopped.erase(&client);
        for (const ClientCore::CallId call : client.flush())
            REQUIRE(cluster.finish(0, call));
        CHECK(held() == std::vector<uint64_t>{0, 0, 0});
    }

    TEST_CASE("a command sees every open iteration of every table, and who is late for each") {
        SimCluster cluster(16, {}, {});
        REQUIRE(cluster.start());
        std::vector<TableInfo> tables;
        for (const char* const name : {"a", "b"}) {
            TableSchema schema = dense_table(name, 8);
            schema.max_delay = 8;
            const auto table = cluster.make_table(0, schema);
            REQUIRE(table.has_value());
            tables.push_back(*table);
        }
        (void)cluster.add_joining_worker();  // its first iteration has not begun
        cluster.run_idle(3);
        const std::vector<std::byte> row(8 * tables[0].row_bytes);
        const auto push = [&](uint32_t worker, size_t table, uint64_t iteration) {
            (void)cluster.workers[worker]->push(tables[table], KeyRange{0, 8}, row,
                                                {.iteration = iteration});
        };
        for (const uint64_t iteration : {1, 2, 3})
            push(0, 0, iteration);
        push(1, 0, 1);
        push(1, 0, 2);
        push(2, 0, 1);
        push(2, 1, 1);
        RawWorker command(cluster, 99);
        const JobStatus status = status_of(command);
        CHECK(status.open == std::vector<JobStatus::OpenIteration>{
                                 {"a", 2, 1, {2}}, {"a", 3, 2, {1, 2}}, {"b", 1, 2, {0, 1}}});
    }

    TEST_CASE("of many late workers the first are named, and all are counted") {
        SimCluster cluster(16, {.servers = 1, .shards = 1, .workers = 20}, {});
        REQUIRE(cluster.start());
        const TableInfo table = *cluster.make_table(0, dense_table("a", 8));
        const std::vector<std::byte> row(8 * table.row_bytes);
        (void)cluster.workers[3]->push(table, KeyRange{0, 8}, row, {.iteration = 1});
        RawWorker command(cluster, 99);
        const JobStatus status = status_of(command);
        REQUIRE(status.open.size() == 1);
        CHECK(status.open[0].late_count == 19);
        REQUIRE(status.open[0].late.size() == 16);
        CHECK(status.open[0].late.back() == 16);
    }

    TEST_CASE("a command asks the workers to end, and they hear of it") {
        SimCluster cluster(12, {}, {});
        REQUIRE(cluster.start());
        for (const auto& worker : cluster.workers)
            CHECK_FALSE(worker->is_stopping());
        RawWorker command(cluster, 99);
        wire::FrameHeader header = frame_header(Kind::kShutdown, 1);
        header.first = wire::kAsksToStop;
        command.send(command.join_as_operator(), header);
        REQUIRE(command.run_until([&] {
            return std::ranges::all_of(cluster.workers,
                                       [](const auto& worker) { return worker->is_stopping(); });
        }));
        CHECK(command.answer(1)->header.status == Errc::kOk);
        for (const auto& worker : cluster.workers)
            CHECK(worker->failure());  // it goes on until it has ended its work
    }

    TEST_CASE("a command ends the job at once: all workers get an error that says so") {
        SimCluster cluster(13, {}, {});
        REQUIRE(cluster.start());
        RawWorker command(cluster, 99);
        wire::FrameHeader header = frame_header(Kind::kShutdown, 1);
        header.first = wire::kStopsNow;
        command.send(command.join_as_operator(), header);
        REQUIRE(command.run_until([&] {
            return std::ranges::all_of(cluster.workers,
                                       [](const auto& worker) { return !worker->failure(); });
        }));
        for (const auto& worker : cluster.workers) {
            CHECK(worker->failure().code() == Errc::kTerminated);
            CHECK(worker->failure().error().text().find("stopped by `weir stop`") !=
                  std::string::npos);
        }
    }

    TEST_CASE("a command that asks to end the job in no known way is turned away") {
        SimCluster cluster(14, {}, {});
        REQUIRE(cluster.start());
        RawWorker command(cluster, 99);
        for (const uint64_t first : {uint64_t{0}, uint64_t{3}}) {
            wire::FrameHeader header = frame_header(Kind::kShutdown, 1);
            header.first = first;
            const ConnectionId connection = command.join_as_operator();
            command.send(connection, header);
            REQUIRE(command.run_until([&] { return command.is_closed(connection); }));
        }
        for (const auto& worker : cluster.workers)
            CHECK_FALSE(worker->is_stopping());
    }

    TEST_CASE("a command makes a server leave, but not the last one, nor one that is not there") {
        ServersOnly job(10);
        RawWorker command(job.cluster, 98);
        const ConnectionId manager = command.join_as_operator();
        uint64_t request = 0;
        const auto leave = [&](uint64_t server) {
            wire::FrameHeader header = frame_header(Kind::kLeave, ++request);
            header.first = server;
            command.send(manager, header);
            REQUIRE(command.run_until([&] { return command.answer(request) != nullptr; }));
            const RawWorker::Answer& answer = *command.answer(request);
            return std::pair(answer.header.status, decode_text(answer.body).value_or(""));
        };
        CHECK(leave(7) == std::pair(Errc::kNotFound, std::string("this job has had no server 7; "
                                                                 "`weir status` lists its "
                                                                 "servers")));
        CHECK(leave(uint64_t{1} << 33).first == Errc::kNotFound);
        CHECK(leave(1).first == Errc::kOk);
        const JobStatus status = status_of(command);
        REQUIRE(status.servers.size() == 2);
        CHECK_FALSE(status.servers[0].is_leaving);
        CHECK(status.servers[1].is_leaving);
        CHECK(status.segments_to_move > 0);
        CHECK_FALSE(status.servers[1].learning.has_value());
        REQUIRE(status.servers[0].learning.has_value());
        const LearningProgress& learning = *status.servers[0].learning;
        CHECK(learning.copies == 0);
        CHECK(learning.to_come() + learning.waiting == status.segments_to_move);
        CHECK(learning.come() == status.segments_complete + status.segments_moved);
        CHECK(learning.since == 2);
        CHECK(leave(1).first == Errc::kOk);
        const auto last = leave(0);
        CHECK(last.first == Errc::kUnavailable);
        CHECK(last.second.find("no other server stays") != std::string::npos);
    }

    TEST_CASE("a command is told what is lost, also who waits for the dead server to leave") {
        for (const bool is_leaving : {false, true}) {
            CAPTURE(is_leaving);
            SimCluster cluster(13, {}, {});
            REQUIRE(cluster.start());
            if (is_leaving) REQUIRE(cluster.manager->leave_server(1).has_value());
            for (const auto& worker : cluster.workers)
                cluster.stopped.insert(worker.get());  // the job ends when they have gone
            cluster.network.kill(1);
            cluster.run_idle(3);
            RawWorker command(cluster, 99);
            const JobStatus status = status_of(command);
            CHECK(status.share_lost == doctest::Approx(0.5));
            CHECK(status.dead == std::vector<JobStatus::DeadServer>{{1, 0, true}});
            const auto leave = ask(command, Kind::kLeave);
            CHECK(leave.first == Errc::kPeerLost);
            CHECK(leave.second.find("server 1 (rank 0) is gone") == 0);
        }
    }

    TEST_CASE("a server counts as replaced when others have taken over from it, and not before") {
        SimShape shape;
        shape.servers = 3;
        shape.shards = 1;
        shape.replicas = 1;
        shape.is_manager_apart = true;
        SimCluster cluster(14, shape, {});
        REQUIRE(cluster.start());
        REQUIRE(cluster.make_table(0, dense_table("numbers", 800)).has_value());
        const auto is_at_rest = [&] {
            return std::ranges::all_of(
                cluster.manager->view().segments(),
                [](const ViewSegment& segment) { return segment.backup_count() == 1; });
        };
        REQUIRE(cluster.run_until(is_at_rest));
        cluster.shards[1].reset();  // its process lives on, and has a lease
        cluster.run_idle(3);
        RawWorker early(cluster, 98);
        CHECK(status_of(early).dead.empty());
        cluster.kill_host(1);
        cluster.run_idle(3);
        RawWorker late(cluster, 99);
        const JobStatus status = status_of(late);
        REQUIRE(status.dead.size() == 1);
        CHECK(status.dead[0].number == 1);
        CHECK(status.share_lost == 0);
    }

    TEST_CASE("a server that dies and holds nothing is told of, and nothing is lost") {
        SimCluster cluster(14, {}, {});
        REQUIRE(cluster.start());
        const uint32_t host = cluster.add_server();
        REQUIRE(cluster.run_until([&] { return cluster.manager->view().servers().size() == 3; }));
        cluster.network.kill(host);
        cluster.run_idle(3);
        RawWorker command(cluster, 99);
        const JobStatus status = status_of(command);
        CHECK(status.share_lost == 0);
        REQUIRE(status.dead.size() == 1);
        CHECK(status.dead[0].number == 2);
        CHECK_FALSE(status.dead[0].held_parameters);
    }

    TEST_CASE("a command is told whether the job that is over ended in order") {
        for (const bool in_order : {true, false}) {
            CAPTURE(in_order);
            SimCluster cluster(15, {.workers = 1}, {});
            REQUIRE(cluster.start());
            cluster.stopped.insert(cluster.shards[0].get());  // the manager waits for it
            if (in_order) {
                REQUIRE(cluster.finish(0, cluster.workers[0]->leave({}, 0)).has_value());
            } else {
                cluster.network.kill(cluster.host_of_worker(0));
                cluster.workers[0].reset();
            }
            REQUIRE(cluster.run_until([&] { return cluster.shards[1]->finished(); }));
            REQUIRE_FALSE(cluster.manager->finished());
            RawWorker command(cluster, 99);
            const auto [code, text] = ask(command, Kind::kStats);
            CHECK(code == (in_order ? Errc::kUnavailable : Errc::kPeerLost));
            CHECK(text.find("the job is over") == 0);
            CHECK((text.find("worker 0 (rank 0) died") != std::string::npos) != in_order);
        }
    }

    TEST_CASE("commands that send nonsense are closed, and too many are turned away") {
        ServersOnly job(11);
        RawWorker command(job.cluster, 98);
        const ConnectionId first = command.join_as_operator();
        command.send(first, frame_header(Kind::kBarrier));
        CHECK(command.run_until([&] { return command.is_closed(first); }));
        std::vector<ConnectionId> many;
        for (size_t i = 0; i < Manager::kOperatorsMax + 5; ++i)
            many.push_back(command.join_as_operator());
        command.run();
        size_t closed = 0;
        for (const ConnectionId connection : many)
            closed += command.is_closed(connection);
        CHECK(closed == 5);
        CHECK(job.create_table("numbers") == Errc::kOk);
    }
}

}  // namespace weir::test
