// SPDX-License-Identifier: Apache-2.0
/// \file
/// Servers that are out of reach: stopped, or cut off from the manager or from all. Whether their
/// copies take over, and what they may still do.

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/node/lease_line.h"
#include "lib/node/manager_link.h"
#include "tests/cluster/raw_worker.h"
#include "tests/cluster/silent_cluster.h"
#include "tests/frames.h"
#include "tests/passing_endpoint.h"

namespace weir::test {
namespace {

constexpr uint32_t kManagerHost = SimCluster::kManagersHost;
constexpr uint64_t kCounters = SilentCluster::kCounters;
constexpr uint64_t kServersLeaseNs = SilentCluster::kLeaseNs;

/// For which time passes while a shard works at what has just arrived.
struct LatePoll {
    SimCluster* cluster = nullptr;
    wire::Kind kind = wire::Kind::kPull;  ///< of what has arrived
    uint64_t late_ns = 0;                 ///< once
    size_t late_count = 0;
    size_t answers_without_lease = 0;
};

class LateEndpoint final : public testing::PassingEndpoint {
public:
    LateEndpoint(std::unique_ptr<Endpoint> inner, LatePoll& late, uint32_t host)
        : PassingEndpoint(std::move(inner)), late_(late), host_(host) {}

    [[nodiscard]] Post send(ConnectionId c, Parts parts) override {
        wire::FrameHeader header;
        std::memcpy(&header, parts[0].data(), std::min(sizeof(header), parts[0].size()));
        const bool is_answer =
            header.kind == wire::Kind::kReply && asked_.erase({c, header.request}) > 0;
        if (is_answer && !late_.cluster->has_lease(host_)) ++late_.answers_without_lease;
        return inner().send(c, parts);
    }

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        const size_t count = inner().poll(completions);
        for (const Completion& c : completions.first(count)) {
            wire::Frame frame;
            if (c.event != transport::Event::kReceived ||
                wire::decode(c.message, frame) != Errc::kOk)
                continue;
            const wire::Kind kind = frame.header.kind;
            if (kind == wire::Kind::kPush || kind == wire::Kind::kPull)
                asked_.insert({c.connection, frame.header.request});
            if (kind != late_.kind || late_.late_ns == 0) continue;
            CHECK(late_.cluster->has_lease(host_));
            late_.cluster->clock.advance(std::exchange(late_.late_ns, 0));
            CHECK_FALSE(late_.cluster->has_lease(host_));
            ++late_.late_count;
        }
        return count;
    }

private:
    LatePoll& late_;
    uint32_t host_;
    std::set<std::pair<ConnectionId, uint64_t>> asked_;
};

/// What somebody sends to the manager again and again, behind all else.
struct Flood {
    ManualClock* clock = nullptr;
    transport::ConnectionId connection = 0;
    std::vector<uint64_t> message;  ///< none: nothing is sent
    size_t sent_count = 0;
};

class FloodedEndpoint final : public testing::PassingEndpoint {
public:
    FloodedEndpoint(std::unique_ptr<Endpoint> inner, Flood& flood)
        : PassingEndpoint(std::move(inner)), flood_(flood) {}

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        const size_t count = inner().poll(completions);
        for (const Completion& c : completions.first(count)) {
            wire::Frame frame;
            if (c.event != transport::Event::kReceived ||
                wire::decode(c.message, frame) != Errc::kOk ||
                frame.header.kind != wire::Kind::kCheckpoint)
                continue;
            flood_.connection = c.connection;
            flood_.message.resize((c.message.size() + 7) / 8);
            std::memcpy(flood_.message.data(), c.message.data(), c.message.size());
        }
        if (count == completions.size() || flood_.message.empty()) return count;
        constexpr uint64_t kMessageNs = 100'000;
        flood_.clock->advance(kMessageNs);
        completions[count] = {};
        completions[count].event = transport::Event::kReceived;
        completions[count].connection = flood_.connection;
        completions[count].message = std::as_bytes(std::span(flood_.message));
        ++flood_.sent_count;
        return count + 1;
    }

private:
    Flood& flood_;
};

}  // namespace

TEST_SUITE("silence") {
    TEST_CASE("a stopped server is replaced after its lease, and does no harm when it goes on") {
        SilentCluster cluster(1);
        REQUIRE(cluster.push_and_wait().has_value());
        cluster.stop_server(1);
        const uint64_t stopped_ns = cluster.clock.now_ns();
        const auto push = cluster.push();
        REQUIRE(cluster.finish(0, push).has_value());  // by those who have taken over
        const uint64_t took_ns = cluster.clock.now_ns() - stopped_ns;
        CHECK(took_ns > kServersLeaseNs / 2);
        CHECK(took_ns < 3 * kServersLeaseNs);
        CHECK_FALSE(cluster.has_server(1));
        CHECK(cluster.sum() == 2 * kCounters);
        cluster.continue_server(1);
        const auto& first = *cluster.shards[2];
        const auto& second = *cluster.shards[3];
        REQUIRE(cluster.run_until([&] { return first.finished() && second.finished(); }));
        CHECK(first.outcome().error().text().find("out of reach") != std::string::npos);
        for (int i = 0; i < 10; ++i)
            REQUIRE(cluster.push_and_wait().has_value());
        CHECK(cluster.sum() == 12 * kCounters);
        CHECK(cluster.run_until([&] { return cluster.has_all_copies(); }));
    }

    TEST_CASE("who sends to the manager without end keeps no silent server from being replaced") {
        Flood flood;
        SimShape shape = SilentCluster::shape_of(1, 3);
        shape.around_manager = [&](SimShape::Endpoint inner) {
            return std::make_unique<FloodedEndpoint>(std::move(inner), flood);
        };
        SilentCluster cluster(shape);
        flood.clock = &cluster.clock;
        REQUIRE(cluster.push_and_wait().has_value());
        RawWorker sender(cluster, 1'234'567);
        const transport::ConnectionId connection = sender.join_as_operator();
        wire::FrameHeader header = testing::frame_header(wire::Kind::kCheckpoint, 1);
        header.first = static_cast<uint64_t>(CheckpointAsk::kWritten);
        sender.send(connection, header);
        for (int i = 0; i < 1000 && flood.message.empty(); ++i) {
            (void)cluster.step();
            (void)cluster.network.step();
        }
        REQUIRE_FALSE(flood.message.empty());
        cluster.stop_server(1);
        const auto push = cluster.push();
        const uint64_t end_ns = cluster.clock.now_ns() + 10 * kServersLeaseNs;
        while (cluster.clock.now_ns() < end_ns && !cluster.workers[0]->done(push)) {
            (void)cluster.step();
            (void)cluster.network.step();
        }
        CHECK(flood.sent_count > 1000);
        CHECK(cluster.workers[0]->done(push));
        CHECK_FALSE(cluster.has_server(1));
        CHECK(cluster.has_server(0));
        CHECK(cluster.has_server(2));
        flood.message.clear();
        CHECK(cluster.finish(0, push).has_value());
        CHECK(cluster.sum() == 2 * kCounters);
    }

    TEST_CASE("a server that has ended is replaced with its process, before its lease ends") {
        SilentCluster cluster(1);
        REQUIRE(cluster.push_and_wait().has_value());
        for (const size_t i : {2, 3})  // server 1: they take their leave, and the process lives on
            cluster.shards[i].reset();
        const uint64_t ended_ns = cluster.clock.now_ns();
        const auto push = cluster.push();
        cluster.pass(kServersLeaseNs / 4);
        CHECK(cluster.has_server(1));  // it might still answer
        cluster.kill_host(1);
        REQUIRE(cluster.finish(0, push).has_value());
        CHECK(cluster.clock.now_ns() - ended_ns < kServersLeaseNs / 2);
        CHECK_FALSE(cluster.has_server(1));
        CHECK(cluster.sum() == 2 * kCounters);
    }

    TEST_CASE("pushes to a stopped server go on, though it never confirms a connection's end") {
        SilentCluster cluster(1, 3, true);
        REQUIRE(cluster.push_and_wait().has_value());
        cluster.stop_server(1);
        const uint64_t stopped_ns = cluster.clock.now_ns();
        REQUIRE(cluster.push_and_wait().has_value());
        CHECK(cluster.clock.now_ns() - stopped_ns < 3 * kServersLeaseNs);
        CHECK(cluster.sum(1) == 2 * kCounters);
    }

    TEST_CASE("a manager that was stopped decides nothing before it has heard who has died") {
        SilentCluster cluster(1);
        const uint32_t host = cluster.add_server();
        const auto is_there = [&](uint32_t shard, const View& view) {
            return shard != kNoShard && view.shard(shard)->server == 3;
        };
        const auto learns = [&](const ViewSegment& segment) {
            return segment.has_learner() &&
                   is_there(segment.learner.shard, cluster.manager->view());
        };
        REQUIRE(cluster.run_until(
            [&] { return std::ranges::any_of(cluster.manager->view().segments(), learns); }));
        cluster.stopped_hosts.insert(kManagerHost);
        cluster.pass(500 * kMillisecond);  // it would hear that the new server has copies
        cluster.kill_host(host);
        cluster.pass(500 * kMillisecond);
        cluster.stopped_hosts.erase(kManagerHost);
        // A copy that somebody else has must not be given up for one of a dead server.
        bool is_any_there = false;
        REQUIRE(cluster.run_until([&] {
            const View view = cluster.manager->view();
            for (const ViewSegment& segment : view.segments()) {
                is_any_there |= is_there(segment.primary, view);
                for (size_t b = 0; b < segment.backup_count(); ++b)
                    is_any_there |= is_there(segment.backups[b], view);
            }
            return !cluster.has_server(3);
        }));
        CHECK_FALSE(is_any_there);
        REQUIRE(cluster.push_and_wait().has_value());
        CHECK(cluster.sum() == kCounters);
    }

    TEST_CASE("a server that only the manager cannot reach answers nobody after its lease") {
        SilentCluster cluster(1);
        cluster.network.partition(kManagerHost, 1);
        cluster.pass(kServersLeaseNs);
        // The others go on without it as soon as the manager may say so.
        REQUIRE(cluster.push_and_wait().has_value());
        CHECK_FALSE(cluster.has_server(1));
        CHECK(cluster.sum(1) == kCounters);
        cluster.network.heal(kManagerHost, 1);
        REQUIRE(cluster.run_until([&] { return cluster.shards[2]->finished(); }));
        CHECK(cluster.sum() == kCounters);
    }

    TEST_CASE("servers that reach the manager but not each other have no copies of each other") {
        SilentCluster cluster(1);
        cluster.network.partition(1, 2);
        const uint64_t begin_ns = cluster.clock.now_ns();
        REQUIRE(cluster.push_and_wait().has_value());
        CHECK(cluster.clock.now_ns() - begin_ns < 4 * kServersLeaseNs);
        CHECK(cluster.has_server(1));
        CHECK(cluster.has_server(2));
        // The third server takes them, which reaches both.
        REQUIRE(cluster.run_until([&] { return cluster.has_all_copies(); }));
        const View view = cluster.manager->view();
        for (const ViewSegment& segment : view.segments()) {
            const std::set<uint32_t> holders{view.shard(segment.primary)->server,
                                             view.shard(segment.backups[0])->server};
            CHECK(holders != std::set<uint32_t>{1, 2});
        }
        cluster.kill_host(1);
        REQUIRE(cluster.push_and_wait().has_value());
        CHECK(cluster.sum() == 2 * kCounters);
    }

    TEST_CASE("of two servers that do not reach each other each goes on alone until they do") {
        SilentCluster cluster(1, 2);
        cluster.network.partition(0, 1);
        for (uint64_t i = 0; i < 4; ++i) {  // for longer than they are taken for apart
            const uint64_t begin_ns = cluster.clock.now_ns();
            REQUIRE(cluster.push_and_wait().has_value());
            CHECK(cluster.clock.now_ns() - begin_ns < 4 * kServersLeaseNs);
            CHECK_FALSE(cluster.has_all_copies());
            cluster.pass(5 * kSecond);
        }
        CHECK(cluster.has_server(0));
        CHECK(cluster.has_server(1));
        cluster.network.heal(0, 1);
        const uint64_t healed_ns = cluster.clock.now_ns();
        REQUIRE(cluster.run_until([&] { return cluster.has_all_copies(); }));
        CHECK(cluster.clock.now_ns() - healed_ns < 15 * kSecond);
        REQUIRE(cluster.push_and_wait().has_value());
        cluster.kill_host(1);
        CHECK(cluster.sum() == 5 * kCounters);
    }

    TEST_CASE("while nobody has a lease the answers wait, and come when the manager is back") {
        SilentCluster cluster(1);
        for (uint32_t server = 0; server < 3; ++server)
            cluster.network.partition(kManagerHost, server);
        cluster.pass(2 * kServersLeaseNs);
        const auto push = cluster.push();
        cluster.pass(5 * kServersLeaseNs);
        CHECK_FALSE(cluster.workers[0]->done(push));
        CHECK(cluster.has_server(0));  // all are silent: none of them is put out
        CHECK(cluster.has_server(1));
        CHECK(cluster.has_server(2));
        for (uint32_t server = 0; server < 3; ++server)
            cluster.network.heal(kManagerHost, server);
        CHECK(cluster.finish(0, push).has_value());
        CHECK(cluster.sum() == kCounters);
    }

    // Time that a shard needs for what has arrived is not for its answers any more.
    TEST_CASE("a lease that ends within a poll lets no answer out of that poll") {
        for (const wire::Kind kind : {wire::Kind::kPull, wire::Kind::kApplied}) {
            CAPTURE(static_cast<int>(kind));
            LatePoll late{.kind = kind};
            SimShape shape = SilentCluster::shape_of(1, 3);
            uint32_t shards = 0;
            shape.around_shard = [&](SimShape::Endpoint inner) {
                return std::make_unique<LateEndpoint>(std::move(inner), late,
                                                      shards++ / shape.shards);
            };
            SilentCluster cluster(shape);
            late.cluster = &cluster;
            REQUIRE(cluster.push_and_wait().has_value());
            cluster.pass(kServersLeaseNs / 2);  // all have asked for their leases
            late.late_ns = kServersLeaseNs * 8 / 10;
            if (kind == wire::Kind::kApplied) REQUIRE(cluster.push_and_wait().has_value());
            const uint64_t pushes = kind == wire::Kind::kApplied ? 2 : 1;
            CHECK(cluster.sum() == pushes * kCounters);
            CHECK(late.late_count == 1);
            CHECK(late.answers_without_lease == 0);
            for (uint32_t server = 0; server < shape.servers; ++server)
                CHECK(cluster.has_server(server));
        }
    }

    TEST_CASE("a manager that has slept does not take the others for silent") {
        SilentCluster cluster(1);
        auto manager = std::move(cluster.manager);
        cluster.pass(10 * kServersLeaseNs);
        cluster.manager = std::move(manager);
        REQUIRE(cluster.push_and_wait().has_value());
        cluster.pass(3 * kServersLeaseNs);
        for (uint32_t server = 0; server < 3; ++server)
            CHECK(cluster.has_server(server));
    }

    TEST_CASE(
        "a manager that is stopped for two minutes ends calls without a deadline, and servers") {
        SilentCluster cluster(1);
        cluster.workers[1].reset();
        cluster.add_lease_line(cluster.host_of_worker(0));
        cluster.pass(2 * kServersLeaseNs);
        auto manager = std::move(cluster.manager);
        cluster.pass(2 * kServersLeaseNs);
        const auto push = cluster.push(0, 3600 * kSecond);  // waits for a lease
        for (uint64_t ns = 3 * kServersLeaseNs; ns < LeaseLine::kSilentNs; ns += kSecond)
            cluster.pass(kSecond);
        CHECK_FALSE(cluster.workers[0]->done(push));
        while (!cluster.workers[0]->done(push) && cluster.clock.now_ns() < 200 * kSecond)
            cluster.pass(kSecond);
        CHECK(cluster.clock.now_ns() < 170 * kSecond);
        REQUIRE(cluster.workers[0]->done(push));
        const Status ended = cluster.workers[0]->take(push);
        CHECK(ended.code() == Errc::kPeerLost);
        CHECK(ended.error().message() ==
              "the manager (rank 0) has not answered for 120 s; see whether its process is "
              "stopped, and whether its host and the network to it work; the push may have been "
              "applied, once at most");
        for (const auto& shard : cluster.shards)
            CHECK_FALSE(shard->finished());  // a worker may still wait for the manager
        cluster.workers[0].reset();
        cluster.pass(kServersLeaseNs);
        for (const auto& shard : cluster.shards) {
            REQUIRE(shard->finished());
            CHECK(shard->outcome().code() == Errc::kPeerLost);
            CHECK(shard->outcome().error().message().ends_with("; no worker is left"));
        }
    }

    TEST_CASE("who has the last copy is waited for") {
        SilentCluster cluster(1, 2);
        cluster.network.kill(1);
        for (const size_t shard : {size_t{2}, size_t{3}})
            cluster.shards[shard].reset();
        REQUIRE(cluster.run_until([&] { return !cluster.has_server(1); }));
        REQUIRE(cluster.push_and_wait().has_value());
        cluster.stop_server(0);
        const auto push = cluster.push();
        cluster.pass(10 * kServersLeaseNs);
        CHECK(cluster.has_server(0));
        CHECK_FALSE(cluster.workers[0]->done(push));
        cluster.continue_server(0);
        CHECK(cluster.finish(0, push).has_value());
        CHECK(cluster.sum() == 2 * kCounters);
    }

    TEST_CASE("... also if the other copy is of a server that ends and may answer for a while") {
        SilentCluster cluster(1, 2);
        REQUIRE(cluster.push_and_wait().has_value());
        cluster.stop_server(0);
        cluster.pass(lease_of_manager_ns(kServersLeaseNs) - kServersLeaseNs / 8);
        REQUIRE(cluster.has_server(0));
        for (const size_t shard : {size_t{2}, size_t{3}})  // server 1, whose process lives on
            cluster.shards[shard].reset();
        const auto push = cluster.push();
        cluster.pass(kServersLeaseNs / 2);
        CHECK(cluster.has_server(0));
        cluster.pass(10 * kServersLeaseNs);
        CHECK(cluster.has_server(0));
        CHECK_FALSE(cluster.has_server(1));
        CHECK_FALSE(cluster.workers[0]->done(push));
        cluster.continue_server(0);
        CHECK(cluster.finish(0, push).has_value());
        CHECK(cluster.sum() == 2 * kCounters);
    }

    TEST_CASE("without copies a silent server is waited for, and then the job says what is lost") {
        SilentCluster cluster(0);
        REQUIRE(cluster.push_and_wait().has_value());
        cluster.network.partition(kManagerHost, 1);
        cluster.pass(20 * kSecond);
        CHECK(cluster.has_server(1));
        REQUIRE(cluster.push_and_wait().has_value());  // workers reach it, and it serves
        cluster.pass(ManagerLink::kGiveUpNs);
        const auto made =
            cluster.workers[0]->create_table(dense_table("late", 8, ValueType::kUInt64));
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(made); }));
        const Result<TableInfo> table = cluster.workers[0]->take_table(made);
        REQUIRE_FALSE(table.has_value());
        CHECK(table.error().text().find("server 1") != std::string::npos);
        CHECK(table.error().text().find("% of the parameters are lost") != std::string::npos);
    }

    TEST_CASE("a joiner that falls silent before it holds anything is given up") {
        SilentCluster cluster(0);
        const uint32_t host = cluster.add_server();
        const auto in_view = [&] { return cluster.manager->view().servers().size() == 4; };
        REQUIRE(cluster.run_until(in_view));
        REQUIRE(cluster.manager->view().segments_of(6).empty());
        cluster.network.partition(kManagerHost, host);
        for (uint32_t other = 0; other < 3; ++other)
            cluster.network.partition(other, host);
        const auto made =
            cluster.workers[0]->create_table(dense_table("late", 8, ValueType::kUInt64));
        CHECK(cluster.run_until([&] { return cluster.workers[0]->done(made); }));
        CHECK(cluster.workers[0]->take_table(made).has_value());
        CHECK(cluster.manager->view().servers().size() == 3);
        CHECK(cluster.clock.now_ns() < 10 * kServersLeaseNs);
    }
}

}  // namespace weir::test
