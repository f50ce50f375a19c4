// SPDX-License-Identifier: Apache-2.0
/// \file
/// Servers and workers that join a running job and leave it, seen from the manager and from the
/// others.

#include <algorithm>
#include <array>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/store/schema_codec.h"
#include "tests/log_lines.h"
#include "tests/seed.h"
#include "tests/server/raw_worker.h"

namespace weir::test {
namespace {

using testing::frame_header;
using testing::LogLines;
using transport::ConnectionId;
using wire::Kind;

bool ended_with(const Status& status, const char* text) {
    INFO(status.code() << (status ? "" : status.error().message()));
    return !status && status.error().message().find(text) != std::string::npos;
}

void push_works(SimCluster& cluster, uint32_t worker, const TableInfo& table) {
    const std::vector<float> ones(8, 1);
    const auto push =
        cluster.workers[worker]->push(table, KeyRange{0, 8}, std::as_bytes(std::span(ones)), {});
    REQUIRE(cluster.finish(worker, push).has_value());
}

ConnectionId connect_as_operator(SimCluster& cluster, RawWorker& command) {
    JoinMessage join;
    join.role = JoinMessage::Role::kOperator;
    const ConnectionId connection = command.connect(cluster.manager->address());
    command.send(connection, frame_header(Kind::kJoin), join.encode());
    return connection;
}

JobStatus status_of(SimCluster& cluster, RawWorker& command) {
    constexpr uint64_t kRequest = 1000;
    const ConnectionId connection = connect_as_operator(cluster, command);
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
std::pair<Errc, std::string> ask(SimCluster& cluster, RawWorker& command, Kind kind) {
    constexpr uint64_t kRequest = 2000;
    command.send(connect_as_operator(cluster, command), frame_header(kind, kRequest));
    REQUIRE(command.run_until([&] { return command.answer(kRequest) != nullptr; }));
    const RawWorker::Answer& answer = *command.answer(kRequest);
    return {answer.header.status, decode_text(answer.body).value_or("")};
}

/// A job whose only worker is the test.
class ServersOnly {
public:
    explicit ServersOnly(uint64_t seed, const SimShape& shape = {.workers = 1})
        : cluster(seed, shape, {}), worker(cluster, 99) {
        cluster.workers[0].reset();
        manager = worker.join(0);
        REQUIRE(cluster.run_until([&] { return cluster.manager->view().epoch() == 1; }));
    }

    /// The status of the reply to a table's creation.
    [[nodiscard]] Errc create_table(const char* name) {
        const uint64_t request = ++requests;
        const TableSchema schema = dense_table(name, 8);
        worker.send(manager, frame_header(Kind::kCreateTable, request),
                    TableMessage{0, name, encode_schema(schema)}.encode());
        REQUIRE(worker.run_until([&] { return worker.answer(request) != nullptr; }));
        return worker.answer(request)->header.status;
    }

    SimCluster cluster;
    RawWorker worker;
    ConnectionId manager = 0;
    uint64_t requests = 0;
};

}  // namespace

TEST_SUITE("elastic") {
    TEST_CASE("a clean leaver is out of the view, and the others go on") {
        SimCluster cluster(1, {}, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("numbers", 8));
        REQUIRE(table.has_value());
        const uint64_t before = cluster.workers[0]->epoch();
        CHECK(cluster.finish(1, cluster.workers[1]->leave({}, 0)).has_value());
        cluster.run_idle(3);
        CHECK(cluster.workers[0]->epoch() == before + 1);
        CHECK(cluster.workers[2]->epoch() == before + 1);
        push_works(cluster, 0, *table);
        const auto first = cluster.workers[0]->barrier(0);
        const auto second = cluster.workers[2]->barrier(0);
        CHECK(cluster.finish(0, first).has_value());
        CHECK(cluster.finish(2, second).has_value());
    }

    TEST_CASE("a job that goes on without its dead opens the barrier for the living") {
        SimCluster cluster(2, {.on_worker_loss = OnWorkerLoss::kContinue}, {});
        REQUIRE(cluster.start());
        const auto first = cluster.workers[0]->barrier(0);
        const auto second = cluster.workers[1]->barrier(0);
        cluster.run_idle(3);
        CHECK_FALSE(cluster.workers[0]->done(first));
        cluster.network.kill(cluster.host_of_worker(2));
        cluster.workers[2].reset();
        CHECK(cluster.finish(0, first).has_value());
        CHECK(cluster.finish(1, second).has_value());
        cluster.run_idle(3);
        CHECK(cluster.manager->view().workers().size() == 2);
    }

    TEST_CASE(
        "a job that goes on without its lost closes iterations without who gives up or dies") {
        for (const bool dies : {false, true}) {
            CAPTURE(dies);
            SimShape shape;
            shape.on_worker_loss = OnWorkerLoss::kContinue;
            StartedCluster cluster(3, shape, dense_table("numbers", 8));
            const std::vector<std::byte> row(8 * cluster.table.row_bytes);
            const auto push = [&](uint32_t worker, uint64_t iteration) {
                return cluster.workers[worker]->push(cluster.table, KeyRange{0, 8}, row,
                                                     {iteration, 0});
            };
            const auto first = push(0, 1);
            const auto second = push(1, 1);
            cluster.run_idle(3);
            CHECK_FALSE(cluster.workers[0]->done(first));
            if (dies) {
                cluster.network.kill(cluster.host_of_worker(2));
                cluster.workers[2].reset();
            } else {
                (void)cluster.workers[2]->leave(Error(Errc::kIo, "disk full"), 0);
            }
            CHECK(cluster.finish(0, first).has_value());
            CHECK(cluster.finish(1, second).has_value());
            const auto next = push(0, 2);
            CHECK(cluster.finish(1, push(1, 2)).has_value());
            CHECK(cluster.finish(0, next).has_value());
        }
    }

    TEST_CASE("a server joins: its shards get numbers, tables and the view, and more tables") {
        ServersOnly job(3);
        CHECK(job.create_table("before") == Errc::kOk);
        job.cluster.add_server({.shards = 3});
        REQUIRE(job.cluster.run_until(
            [&] { return job.cluster.manager->view().servers().size() == 3; }));
        job.cluster.run_idle(3);
        const View view = job.cluster.manager->view();
        CHECK(view.shards().size() == 7);
        for (uint32_t i = 4; i < 7; ++i) {
            CHECK(job.cluster.shards[i]->name() == "shard " + std::to_string(i));
            CHECK(view.shard(i)->address == job.cluster.shards[i]->address());
            CHECK_FALSE(job.cluster.shards[i]->finished());
        }
        CHECK(job.create_table("after") == Errc::kOk);
    }

    TEST_CASE("shards give way to others on their CPUs while segments move, and only then") {
        ServersOnly job(3);
        CHECK(job.create_table("numbers") == Errc::kOk);
        const auto gives_way = [&] {
            return std::ranges::any_of(job.cluster.shards,
                                       [](const auto& shard) { return shard->gives_way(); });
        };
        job.cluster.run_idle(3);
        CHECK_FALSE(gives_way());
        job.cluster.add_server();
        CHECK(job.cluster.run_until(gives_way, 1000));
        CHECK(job.cluster.run_until(
            [&] {
                const View view = job.cluster.manager->view();
                return view.servers().size() == 3 && !view.segments_of(4).empty() && !gives_way();
            },
            5000));
        job.cluster.run_idle(100);
        CHECK_FALSE(gives_way());
    }

    TEST_CASE("a server joins while a table is made") {
        for (uint64_t seed = 1; seed < 40; ++seed) {
            CAPTURE(seed);
            ServersOnly job(seed);
            job.cluster.add_server();
            for (uint64_t i = 0; i < seed; ++i)
                (void)job.cluster.step();
            CHECK(job.create_table("numbers") == Errc::kOk);
            REQUIRE(job.cluster.run_until(
                [&] { return job.cluster.manager->view().servers().size() == 3; }));
            job.cluster.run_idle(3);
            CHECK(job.create_table("more") == Errc::kOk);
            for (const auto& shard : job.cluster.shards)
                CHECK_FALSE(shard->finished());
        }
    }

    TEST_CASE("a server whose shards do not all ask in time is told so") {
        ServersOnly job(4);
        job.cluster.add_server({.shards = 2});
        job.cluster.shards.pop_back();
        Shard& half = *job.cluster.shards.back();
        REQUIRE(job.cluster.run_until([&] { return half.finished(); }));
        CHECK(ended_with(half.outcome(), "1 of the 2 shards of this server did not ask"));
        CHECK(job.cluster.manager->view().epoch() == 1);
    }

    TEST_CASE("a server with a pool that is too small is told so, and not used") {
        ServersOnly job(5);
        CHECK(job.create_table("numbers") == Errc::kOk);
        job.cluster.add_server({.shards = 2, .pool_bytes = 16});
        REQUIRE(job.cluster.run_until([&] { return job.cluster.shards.back()->finished(); }));
        CHECK(ended_with(job.cluster.shards.back()->outcome(), "this server has room for 0 MiB"));
        CHECK(job.cluster.manager->view().epoch() == 1);
        job.cluster.add_server({.shards = 2, .pool_bytes = 1 << 20});
        CHECK(job.cluster.run_until([&] { return job.cluster.manager->view().epoch() > 1; }));
    }

    TEST_CASE("a joiner that dies on the way changes nothing, whenever that is") {
        size_t arrived = 0;
        for (uint64_t seed = 1; seed < 120; ++seed) {
            CAPTURE(seed);
            ServersOnly job(seed);
            CHECK(job.create_table("numbers") == Errc::kOk);
            const uint32_t host = job.cluster.add_server();
            for (uint64_t i = 0; i < 4 * seed; ++i)
                (void)job.cluster.step();
            // It holds nothing, or has all that it gets.
            const bool has_arrived = !job.cluster.manager->view().segments_of(4).empty();
            if (has_arrived) {
                ++arrived;
            } else {
                job.cluster.network.kill(host);
                job.cluster.shards.resize(4);
                // Those that are to hand over do not get to it before the death is known.
                for (const auto& shard : job.cluster.shards)
                    job.cluster.stopped.insert(shard.get());
                job.cluster.run_idle(300);
                job.cluster.stopped.clear();
                job.cluster.run_idle(300);
            }
            const View view = job.cluster.manager->view();
            CHECK(view.servers().size() == (has_arrived ? 3 : 2));
            for (const ViewSegment& segment : view.segments())
                CHECK_FALSE(segment.has_learner());
            CHECK(job.create_table("more") == Errc::kOk);
        }
        CHECK(arrived > 0);
    }

    TEST_CASE("a server that has to stay, because nobody can take over, is told so") {
        ServersOnly job(16, {.servers = 1, .workers = 1});
        const uint32_t host = job.cluster.add_server();
        REQUIRE(job.cluster.run_until(
            [&] { return job.cluster.manager->view().servers().size() == 2; }));
        REQUIRE(job.cluster.leave_server(0));
        const LogLines lines;
        job.cluster.network.kill(host);
        REQUIRE(job.cluster.run_until([&] { return lines.has("it serves on"); }));
        CHECK(lines.count("server 0 stays: the servers that were to take over what it holds are "
                          "dead; let one join, and ask again; it serves on") == 1);
        CHECK(job.create_table("numbers") == Errc::kOk);
    }

    TEST_CASE("who cannot join is told why") {
        ServersOnly job(6);
        const auto ask = [&](const JoinMessage& message) {
            const ConnectionId connection = job.worker.connect(job.cluster.manager->address());
            job.worker.send(connection, frame_header(Kind::kJoin), message.encode());
            return connection;
        };
        const auto refused = [&](const JoinMessage& message, std::string_view why) {
            const ConnectionId connection = ask(message);
            REQUIRE(job.worker.run_until([&] { return job.worker.is_closed(connection); }));
            std::string told;
            for (const RawWorker::Answer& answer : job.worker.answers()) {
                if (answer.connection == connection && answer.header.kind == Kind::kShutdown)
                    told = decode_text(answer.body).value_or("");
            }
            INFO(told);
            CHECK(told.find(why) != std::string::npos);
        };
        JoinMessage join{JoinMessage::Role::kShard, 0, 0, "an address", 7};
        join.joiner = 5;
        join.shard_count = 2;
        const ConnectionId first = ask(join);
        job.cluster.run_idle(3);
        refused(join, "has asked already");
        join.number = 1;
        join.weight = 2;
        refused(join, "not of one server with the others");
        join.weight = 1;
        refused(join, "a shard of this job has the address an address already");
        CHECK(job.worker.is_closed(first));
        join.joiner = 6;
        join.shard_count = 1;
        join.number = 0;
        join.address = job.cluster.shards[1]->address();
        refused(join, "has the address");
        join.number = 1;
        refused(join, "cannot be a shard");
        join.number = 0;
        join.shard_count = 100'000;
        refused(join, "cannot be a shard");
        join.shard_count = 1;
        join.address = "another";
        join.weight = 0;
        refused(join, "weight");
        CHECK(job.cluster.manager->view().epoch() == 1);
        // A server that is in the job does not join a second time.
        const uint32_t host = job.cluster.add_server({.shards = 1});
        REQUIRE(job.cluster.run_until(
            [&] { return job.cluster.manager->view().servers().size() == 3; }));
        join.weight = 1;
        join.joiner = host + 1;  // as the cluster numbers them
        refused(join, "is in the job already");
        CHECK(job.create_table("numbers") == Errc::kOk);
    }

    TEST_CASE("hostile joiners do not grow the manager, and hinder nobody") {
        ServersOnly job(7);
        JoinMessage join{JoinMessage::Role::kShard, 0, 0, "", 7};
        join.shard_count = 2;
        std::vector<ConnectionId> connections;
        for (uint64_t i = 1; i <= Joiners::kServersMax + 10; ++i) {
            join.joiner = i;
            join.address = std::to_string(i);
            connections.push_back(job.worker.connect(job.cluster.manager->address()));
            job.worker.send(connections.back(), frame_header(Kind::kJoin), join.encode());
        }
        (void)job.worker.run_until([] { return false; }, 20);
        size_t closed = 0;
        for (const ConnectionId connection : connections)
            closed += job.worker.is_closed(connection);
        CHECK(closed == 10);
        CHECK(job.create_table("numbers") == Errc::kOk);
        const auto all_closed = [&] {
            return std::ranges::all_of(connections,
                                       [&](ConnectionId c) { return job.worker.is_closed(c); });
        };
        CHECK(job.worker.run_until(all_closed, 40'000));  // each had half of its server
        job.cluster.add_server();
        CHECK(job.cluster.run_until([&] { return job.cluster.manager->view().epoch() > 1; }));
    }

    TEST_CASE("a shard that reports what it cannot mean is closed, and its server is lost") {
        ServersOnly job(8);
        CHECK(job.create_table("numbers") == Errc::kOk);
        JoinMessage join{JoinMessage::Role::kShard, 0, 0, "an address", 7};
        join.joiner = 5;
        const ConnectionId shard = job.worker.connect(job.cluster.manager->address());
        job.worker.send(shard, frame_header(Kind::kJoin), join.encode());
        REQUIRE(job.cluster.run_until([&] { return job.cluster.manager->view().epoch() > 1; }));
        wire::FrameHeader stopped = frame_header(Kind::kStopped);
        stopped.first = 77;
        const LogLines log;
        job.worker.send(shard, stopped);
        REQUIRE(job.worker.run_until([&] { return job.worker.is_closed(shard); }));
        INFO(log.text());
        CHECK(log.has("what it cannot mean: shard 4 has stopped for view 77; the newest is"));
        job.cluster.run_idle(3);
        CHECK(job.cluster.manager->view().servers().size() == 2);
        CHECK(job.create_table("more") == Errc::kOk);
    }

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
        const JobStatus status = status_of(cluster, command);
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
        const JobStatus status = status_of(cluster, command);
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
        const JobStatus status = status_of(cluster, command);
        REQUIRE(status.open.size() == 1);
        CHECK(status.open[0].late_count == 19);
        REQUIRE(status.open[0].late.size() == 16);
        CHECK(status.open[0].late.back() == 16);
    }

    TEST_CASE("a command makes a server leave, but not the last one, nor one that is not there") {
        ServersOnly job(10);
        RawWorker command(job.cluster, 98);
        const ConnectionId manager = connect_as_operator(job.cluster, command);
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
        const JobStatus status = status_of(job.cluster, command);
        REQUIRE(status.servers.size() == 2);
        CHECK_FALSE(status.servers[0].is_leaving);
        CHECK(status.servers[1].is_leaving);
        CHECK(status.segments_to_move > 0);
        CHECK(leave(1).first == Errc::kOk);
        const auto last = leave(0);
        CHECK(last.first == Errc::kUnavailable);
        CHECK(last.second.find("no other server stays") != std::string::npos);
    }

    TEST_CASE("the manager tells what ended a job early, also if its own server has left before") {
        for (const bool server_dies : {true, false}) {
            CAPTURE(server_dies);
            SimCluster cluster(12, {.workers = 1}, {});
            REQUIRE(cluster.start());
            REQUIRE(cluster.manager->leave_server(0).has_value());
            REQUIRE(cluster.run_until(
                [&] { return cluster.shards[0]->finished() && cluster.shards[1]->finished(); }));
            CHECK(cluster.shards[0]->outcome().has_value());
            CHECK(cluster.manager->outcome().has_value());
            if (server_dies) {
                cluster.network.kill(1);
                cluster.run_idle(3);
            }
            cluster.network.kill(cluster.host_of_worker(0));
            cluster.workers[0].reset();
            REQUIRE(cluster.run_until([&] { return cluster.manager->finished(); }));
            const Status outcome = cluster.manager->outcome();
            CHECK(outcome.code() == Errc::kPeerLost);
            CHECK(ended_with(outcome, server_dies ? "server 1 (rank" : "worker 0 (rank 0)"));
        }
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
            const JobStatus status = status_of(cluster, command);
            CHECK(status.share_lost == doctest::Approx(0.5));
            CHECK(status.dead == std::vector<JobStatus::DeadServer>{{1, 0, true}});
            const auto leave = ask(cluster, command, Kind::kLeave);
            CHECK(leave.first == Errc::kPeerLost);
            CHECK(leave.second.find("server 1 (rank 0) is gone") == 0);
        }
    }

    TEST_CASE("a server that dies and holds nothing is told of, and nothing is lost") {
        SimCluster cluster(14, {}, {});
        REQUIRE(cluster.start());
        const uint32_t host = cluster.add_server();
        REQUIRE(cluster.run_until([&] { return cluster.manager->view().servers().size() == 3; }));
        cluster.network.kill(host);
        cluster.run_idle(3);
        RawWorker command(cluster, 99);
        const JobStatus status = status_of(cluster, command);
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
            const auto [code, text] = ask(cluster, command, Kind::kStats);
            CHECK(code == (in_order ? Errc::kUnavailable : Errc::kPeerLost));
            CHECK(text.find("the job is over") == 0);
            CHECK((text.find("worker 0 (rank 0) died") != std::string::npos) != in_order);
        }
    }

    TEST_CASE("commands that send nonsense are closed, and too many are turned away") {
        ServersOnly job(11);
        RawWorker command(job.cluster, 98);
        const ConnectionId first = connect_as_operator(job.cluster, command);
        command.send(first, frame_header(Kind::kBarrier));
        CHECK(command.run_until([&] { return command.is_closed(first); }));
        std::vector<ConnectionId> many;
        for (size_t i = 0; i < Manager::kOperatorsMax + 5; ++i)
            many.push_back(connect_as_operator(job.cluster, command));
        command.run();
        size_t closed = 0;
        for (const ConnectionId connection : many)
            closed += command.is_closed(connection);
        CHECK(closed == 5);
        CHECK(job.create_table("numbers") == Errc::kOk);
    }

    TEST_CASE("pushes take effect once while a server joins and another leaves, at many instants") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 20; ++seed) {
            INFO("WEIR_SEED=" << seed);
            SimShape shape;
            shape.workers = 2;
            StartedCluster cluster(seed, shape, dense_table("numbers", 64));
            std::vector<float> ones(64, 1);
            size_t pushes = 0;
            const auto push_all = [&](size_t rounds) {
                for (size_t i = 0; i < rounds; ++i, ++pushes) {
                    const auto worker = static_cast<uint32_t>(i % 2);
                    const auto push = cluster.workers[worker]->push(
                        cluster.table, KeyRange{0, 64}, std::as_bytes(std::span(ones)), {});
                    const Status ended = cluster.finish(worker, push);
                    INFO(ended.code() << " " << (ended ? "" : ended.error().message()));
                    REQUIRE(ended.has_value());
                }
            };
            push_all(1 + seed % 7);
            cluster.add_server();
            const auto is_balanced = [&] {
                const View view = cluster.manager->view();
                return view.servers().size() == 3 && !view.holds_nothing(2) &&
                       std::ranges::none_of(view.segments(), &ViewSegment::has_learner);
            };
            for (int i = 0; i < 400 && !is_balanced(); ++i)
                push_all(1);
            REQUIRE(cluster.run_until(is_balanced));
            RawWorker command(cluster, 98);
            wire::FrameHeader leave = frame_header(Kind::kLeave, 1);
            leave.first = seed % 2;
            command.send(connect_as_operator(cluster, command), leave);
            const auto has_left = [&] { return cluster.manager->view().servers().size() == 2; };
            for (int i = 0; i < 400 && !has_left(); ++i)
                push_all(1);
            REQUIRE(cluster.run_until(has_left));
            push_all(2);
            std::vector<float> out(64);
            const auto pull = cluster.workers[1]->pull(cluster.table, KeyRange{0, 64},
                                                       std::as_writable_bytes(std::span(out)), {});
            REQUIRE(cluster.finish(1, pull).has_value());
            CHECK(out == std::vector<float>(64, static_cast<float>(pushes)));
        }
    }

    TEST_CASE("a worker joins while others train, pushes, and leaves") {
        SimShape shape;
        StartedCluster cluster(12, shape, dense_table("numbers", 8));
        ClientCore& joiner = cluster.add_joining_worker();
        REQUIRE(cluster.run_until([&] { return joiner.ready() || joiner.finished(); }));
        INFO((joiner.failure() ? "" : joiner.failure().error().message()));
        REQUIRE(joiner.ready());
        CHECK(joiner.worker() == 3);
        push_works(cluster, 3, cluster.table);
        push_works(cluster, 0, cluster.table);
        CHECK(cluster.manager->view().workers().size() == 4);
        CHECK(cluster.finish(3, joiner.leave({}, 0)).has_value());
        cluster.run_idle(3);
        CHECK(cluster.manager->view().workers().size() == 3);
        push_works(cluster, 1, cluster.table);
    }

    TEST_CASE("without copies the death of a server ends a call with the keys that it has there") {
        StartedCluster cluster(14, {}, dense_table("numbers", 1000));
        const std::vector<float> ones(1000, 1.0F);
        const auto call = cluster.workers[0]->push(cluster.table, KeyRange{0, 1000},
                                                   std::as_bytes(std::span(ones)), {});
        cluster.network.kill(1);
        const Status ended = cluster.finish(0, call);
        REQUIRE(ended.code() == Errc::kPeerLost);
        INFO(ended.error().text());
        const View view = cluster.manager->view();
        bool is_named = false;
        for (const OwnedKeys& piece : view.split_dense({0, 1000}, 1000, SplitBy::kOwner)) {
            const std::string keys =
                fmt::format("it has {} keys of this call, {} to {}", piece.keys.key_count(),
                            piece.keys.begin, piece.keys.end - 1);
            is_named |= ended.error().text().find(keys) != std::string::npos;
        }
        CHECK(is_named);
        CHECK(ended.error().text().find("may have been applied, once at most") !=
              std::string::npos);
        std::vector<float> out(1000);
        const auto pull = cluster.workers[0]->pull(cluster.table, KeyRange{0, 1000},
                                                   std::as_writable_bytes(std::span(out)), {});
        const Status pulled = cluster.finish(0, pull);
        REQUIRE(pulled.code() == Errc::kPeerLost);
        CHECK(pulled.error().text().find("applied") == std::string::npos);
    }

    TEST_CASE(
        "a worker that has withdrawn its part and leaves fails the iteration, for all shards") {
        StartedCluster cluster(13, {}, dense_table("numbers", 8));
        std::array<float, 8> ones{};
        const auto push = [&](uint32_t worker, uint64_t deadline_ns) {
            CallOptions options{1};
            options.deadline_ns = deadline_ns;
            return cluster.workers[worker]->push(cluster.table, KeyRange{0, 8},
                                                 std::as_bytes(std::span(ones)), options);
        };
        CHECK(cluster.finish(0, push(0, kMillisecond)).code() == Errc::kDeadline);
        CHECK(cluster.finish(0, cluster.workers[0]->leave({}, 0)).has_value());
        cluster.run_idle(3);
        const uint32_t table = cluster.table.schema.id;
        CHECK(cluster.manager->view().data().withdrawals ==
              std::vector{ViewWithdrawal{0, table, 1, 1}});
        const std::array parts{push(1, 0), push(2, 0)};
        CHECK(cluster.finish(1, parts[0]).code() == Errc::kCancelled);
        CHECK(cluster.finish(2, parts[1]).code() == Errc::kCancelled);
    }

    TEST_CASE("a worker that joins and dies before it has done anything changes nothing") {
        for (uint64_t seed = 1; seed < 40; ++seed) {
            CAPTURE(seed);
            SimCluster cluster(seed, {}, {});
            REQUIRE(cluster.start());
            (void)cluster.add_joining_worker();
            for (uint64_t i = 0; i < seed; ++i)
                (void)cluster.step();
            if (cluster.workers[3]->ready()) continue;
            cluster.network.kill(cluster.host_of_worker(3));
            cluster.workers[3].reset();
            (void)cluster.run_until([] { return false; }, 300);
            CHECK(cluster.manager->view().workers().size() == 3);
            std::array<ClientCore::CallId, 3> barriers{};
            for (uint32_t worker = 0; worker < 3; ++worker)
                barriers[worker] = cluster.workers[worker]->barrier(0);
            for (uint32_t worker = 0; worker < 3; ++worker)
                CHECK(cluster.finish(worker, barriers[worker]).has_value());
        }
    }
}

}  // namespace weir::test
