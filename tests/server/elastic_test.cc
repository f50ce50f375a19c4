// SPDX-License-Identifier: Apache-2.0
/// \file
/// Servers that join a running job and leave it, seen from the manager and from the others.

#include <algorithm>
#include <deque>
#include <utility>

#include <doctest/doctest.h>

#include "lib/store/plugins/plugin_list.h"
#include "tests/cluster/answer_order.h"
#include "tests/cluster/raw_worker.h"
#include "tests/cluster/servers_only.h"
#include "tests/log_lines.h"
#include "tests/passing_endpoint.h"
#include "tests/seed.h"

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

/// How many packets a shard sends at most in one poll while half of a table moves to a new server.
uint64_t most_packets_of_a_poll(bool has_pushes) {
    constexpr uint64_t kKeys = 200'000;
    SimShape shape;
    shape.servers = 1;
    shape.shards = 1;
    SimCluster cluster(1, shape, {});
    REQUIRE(cluster.start());
    const auto table = cluster.make_table(0, dense_table("t", kKeys, ValueType::kUInt64));
    REQUIRE(table.has_value());
    const std::vector<uint64_t> ones(kKeys, 1);
    const auto push = [&](uint64_t count) {
        return cluster.workers[0]->push(*table, KeyRange{0, count},
                                        std::as_bytes(std::span(ones).first(count)), {});
    };
    REQUIRE(cluster.finish(0, push(kKeys)).has_value());
    cluster.run_idle(300);
    cluster.add_server();
    uint64_t most = 0;
    ClientCore::CallId call = 0;  // none
    while (cluster.manager->view().segments_of(1).empty()) {
        if (call != 0 && cluster.workers[0]->done(call))
            CHECK(cluster.workers[0]->take(std::exchange(call, 0)));
        if (has_pushes && call == 0) call = push(1);
        (void)cluster.step();
        const uint64_t before = cluster.network.counters().packets;
        (void)cluster.shards[0]->poll();
        most = std::max(most, cluster.network.counters().packets - before);
    }
    if (call != 0) REQUIRE(cluster.finish(0, call).has_value());
    return most;
}

/// Three workers push single keys, several at a time, while half of a table moves to a new server.
void push_while_half_moves(const SimShape& shape) {
    constexpr uint64_t kKeys = 200'000;
    constexpr size_t kCalls = 30;
    SimCluster cluster(1, shape, {});
    REQUIRE(cluster.start());
    const auto table = cluster.make_table(0, dense_table("t", kKeys, ValueType::kUInt64));
    REQUIRE(table.has_value());
    cluster.add_server();
    const uint64_t one = 1;
    std::deque<std::pair<ClientCore*, ClientCore::CallId>> calls;
    while (cluster.manager->view().segments_of(1).empty() || !calls.empty()) {
        const bool is_over = !cluster.manager->view().segments_of(1).empty();
        while (!is_over && calls.size() < kCalls) {
            ClientCore& worker = *cluster.workers[calls.size() % cluster.workers.size()];
            const uint64_t first = calls.size() * (kKeys / kCalls);
            const KeyRange key{first, first + 1};
            calls.emplace_back(&worker,
                               worker.push(*table, key, std::as_bytes(std::span(&one, 1)), {}));
        }
        (void)cluster.step();
        (void)cluster.network.step();  // not only when nobody has anything to do
        std::erase_if(calls, [](const auto& call) {
            if (!call.first->done(call.second)) return false;
            CHECK(call.first->take(call.second));
            return true;
        });
    }
}

constexpr size_t kChunkBytesMin = 1000;  // a record of one key has fewer

/// Of rows that move.
bool is_chunk(const wire::Frame& frame, size_t bytes) {
    return frame.header.kind == Kind::kRecord && bytes >= kChunkBytesMin;
}

/// How many messages a shard asks for behind a poll that took a chunk, while records of pushes come, too.
struct ChunkPolls {
    uint64_t for_one = 0;
    uint64_t for_more = 0;
    uint32_t without_push = kNever;  ///< polls since the last record of one
    bool has_taken_chunk = false;
    static constexpr uint32_t kNever = ~0U;
};

class ChunkPollsEndpoint final : public testing::PassingEndpoint {
public:
    ChunkPollsEndpoint(std::unique_ptr<Endpoint> inner, ChunkPolls& polls)
        : PassingEndpoint(std::move(inner)), polls_(polls) {}

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        constexpr uint32_t kPollsBesidePushes = 100;
        if (polls_.has_taken_chunk && polls_.without_push < kPollsBesidePushes)
            ++(completions.size() == 1 ? polls_.for_one : polls_.for_more);
        const size_t count = inner().poll(completions);
        polls_.has_taken_chunk = false;
        if (polls_.without_push != ChunkPolls::kNever) ++polls_.without_push;
        for (const Completion& c : completions.first(count)) {
            wire::Frame frame;
            const bool is_record = c.event == transport::Event::kReceived &&
                                   wire::decode(c.message, frame) == Errc::kOk &&
                                   frame.header.kind == Kind::kRecord;
            if (!is_record) continue;
            polls_.has_taken_chunk = is_chunk(frame, c.message.size());
            if (!polls_.has_taken_chunk) polls_.without_push = 0;
        }
        return count;
    }

private:
    ChunkPolls& polls_;
};

}  // namespace

TEST_SUITE("elastic") {
    TEST_CASE("answers leave before a poll sends rows that move") {
        AnswerOrder order;
        SimShape shape;
        shape.servers = 1;
        shape.shards = 1;
        shape.around_shard = [&](SimShape::Endpoint inner) {
            return std::make_unique<AnswerOrderEndpoint>(std::move(inner), order, is_chunk);
        };
        push_while_half_moves(shape);
        MESSAGE(order.alone << " chunks in polls without answers, " << order.after_answer
                            << " after answers");
        CHECK(order.alone > 0);
        CHECK(order.after_answer > 0);
        CHECK(order.before_answer == 0);
    }

    TEST_CASE("one that learns takes a chunk in a poll while workers push") {
        ChunkPolls polls;
        SimShape shape;
        shape.servers = 1;
        shape.shards = 1;
        uint32_t shards = 0;
        shape.around_shard = [&](SimShape::Endpoint inner) -> SimShape::Endpoint {
            if (shards++ != 1) return inner;
            return std::make_unique<ChunkPollsEndpoint>(std::move(inner), polls);
        };
        push_while_half_moves(shape);
        CHECK(polls.for_one > 20);
        CHECK(polls.for_more == 0);
    }

    TEST_CASE("what moves is sent in smaller steps while workers push") {
        const uint64_t alone = most_packets_of_a_poll(false);
        const uint64_t beside = most_packets_of_a_poll(true);
        MESSAGE("packets of a poll: " << alone << ", beside pushes " << beside);
        CHECK(alone >= 6);
        CHECK(beside <= 4);
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

    TEST_CASE("a worker learns from the manager what it must know of a rule") {
        SimCluster cluster(7, {}, {});
        REQUIRE(cluster.start());
        ClientCore& client = *cluster.workers[0];
        for (const char* const name : {"ftrl", "none", ""}) {
            const ClientCore::CallId call = client.ask_about_rule(name);
            REQUIRE(cluster.run_until([&] { return client.done(call); }));
            const Status learned = client.take_rule(call);
            CHECK(learned.code() == (*name == 'f' ? Errc::kOk : Errc::kNotFound));
        }
        CHECK_FALSE((*client.rules().find("ftrl"))->is_described);  // it has that itself
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
        join.weight = 1;
        join.plugins = "nonsense";
        refused(join, "a malformed list of plugins");
        join.plugins = PluginList{{{"a.so", 1, 2}}}.encode();
        refused(join, "each server of the job lacks the plugin a.so, which this server");
        join.plugins.clear();
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
            command.send(command.join_as_operator(), leave);
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
}

}  // namespace weir::test
