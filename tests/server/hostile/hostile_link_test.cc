// SPDX-License-Identifier: Apache-2.0
/// \file
/// Strangers that know the secret, and misuse links and life lines: their connections are closed,
/// and the job of the others goes on.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/cluster/malformed_frames.h"
#include "tests/cluster/raw_worker.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

/// The job, and a stranger at its manager.
struct Misused {
    explicit Misused(bool has_all_workers = true) : raw(cluster, 99) {
        if (!has_all_workers) cluster.workers[2].reset();
        if (has_all_workers) REQUIRE(cluster.start());
    }

    transport::ConnectionId connect() {
        const transport::ConnectionId connection = raw.connect(cluster.manager->address());
        REQUIRE(connection != 0);
        return connection;
    }

    void send(transport::ConnectionId connection, wire::Kind kind, uint64_t request, uint64_t first,
              const std::vector<std::byte>& body = {}) {
        wire::FrameHeader header = testing::frame_header(kind, request);
        header.first = first;
        raw.send(connection, header, body);
    }

    /// A connection that is a link, or a life line, of a process that has one.
    transport::ConnectionId link() {
        const transport::ConnectionId connection = connect();
        send(connection, wire::Kind::kLink, 1, 0, LinkMessage{1000, 500, false}.encode());
        raw.run();
        return connection;
    }

    transport::ConnectionId life_line() {
        const transport::ConnectionId connection = connect();
        send(connection, wire::Kind::kLifeLine, ++life_lines, 500);
        raw.run();
        return connection;
    }

    /// It must be closed now, for that reason.
    void check_closed(transport::ConnectionId connection, const LogLines& log,
                      const std::string& why) {
        const bool is_closed = raw.run_until([&] { return raw.is_closed(connection); }, 50);
        INFO("logged: " << log.text());
        CHECK(is_closed);
        CHECK(closings(log, "manager", why) == 1);
        cluster.clock.advance(RepeatedLog::kIntervalNs);  // the next line is logged, not counted
    }

    void check_job() {
        std::vector<ClientCore::CallId> barriers;
        for (const auto& worker : cluster.workers)
            barriers.push_back(worker->barrier(0));
        for (uint32_t worker = 0; worker < cluster.workers.size(); ++worker)
            REQUIRE(cluster.finish(worker, barriers[worker]).has_value());
    }

    SimCluster cluster{1, {}, {}};
    RawWorker raw;
    uint64_t life_lines = 0;
};

constexpr const char* kNotYet = "a frame before joining";

}  // namespace

TEST_SUITE("hostile links") {
    TEST_CASE("frames of links and life lines that mean nothing close their connection") {
        Misused job;
        std::vector<std::byte> cut = LinkMessage{1000, 500, false}.encode();
        std::vector<std::byte> longer = cut;
        std::vector<std::byte> unclear = cut;
        cut.pop_back();
        longer.push_back({});
        unclear.back() = std::byte{2};
        const auto no_number = LinkMessage{0, 500, false}.encode();
        for (const auto& body : {cut, longer, unclear, no_number, std::vector<std::byte>{}}) {
            CAPTURE(body.size());
            const LogLines log;
            const auto connection = job.connect();
            job.send(connection, wire::Kind::kLink, 1, 0, body);
            job.check_closed(connection, log, kNotYet);
        }
        for (const wire::Kind kind : {wire::Kind::kTaken, wire::Kind::kLifeLine}) {
            const LogLines log;
            const auto connection = job.connect();
            job.send(connection, kind, 1, 0);
            job.check_closed(connection, log, kNotYet);
        }
        job.check_job();
    }

    TEST_CASE(
        "a life line takes no other frame, and a link neither a second link nor a life line") {
        Misused job;
        for (const wire::Kind kind :
             {wire::Kind::kLink, wire::Kind::kLifeLine, wire::Kind::kTaken, wire::Kind::kJoin}) {
            CAPTURE(static_cast<int>(kind));
            const LogLines log;
            const auto line = job.life_line();
            job.send(line, kind, 2, 500,
                     kind == wire::Kind::kLink ? LinkMessage{2000, 500, false}.encode()
                                               : std::vector<std::byte>{});
            const bool is_join = kind == wire::Kind::kJoin;
            job.check_closed(line, log, is_join ? "a malformed join" : kNotYet);
        }
        for (const wire::Kind kind :
             {wire::Kind::kLink, wire::Kind::kLifeLine, wire::Kind::kTaken}) {
            CAPTURE(static_cast<int>(kind));
            const LogLines log;
            const auto link = job.link();
            job.send(link, kind, 2, 77,
                     kind == wire::Kind::kLink ? LinkMessage{1000, 500, true}.encode()
                                               : std::vector<std::byte>{});
            job.check_closed(link, log, kNotYet);
        }
        job.check_job();
    }

    TEST_CASE("a link that nobody knows is turned away and told so") {
        Misused job;
        for (const bool is_known : {false, true}) {
            const auto connection = job.connect();
            job.send(connection, wire::Kind::kLink, 2, is_known ? 0 : 9,
                     LinkMessage{1000, 500, is_known}.encode());
            REQUIRE(job.raw.run_until([&] { return job.raw.is_closed(connection); }, 50));
            REQUIRE_FALSE(job.raw.answers().empty());
            CHECK(job.raw.answers().back().header.kind == wire::Kind::kShutdown);
            CHECK(job.raw.answers().back().header.status == Errc::kRefused);
        }
        job.check_job();
    }

    TEST_CASE("a worker whose counts lie is closed and lost") {
        Misused job(false);
        const auto link = job.link();
        const JoinMessage join{JoinMessage::Role::kWorker, 2, 2, {}};
        job.raw.send(link, testing::frame_header(wire::Kind::kJoin), join.encode());
        REQUIRE(job.cluster.run_until(
            [&] { return job.cluster.workers[0]->ready() && job.cluster.workers[1]->ready(); }));
        const LogLines log;
        job.send(link, wire::Kind::kTaken, 0, 1'000'000);
        job.check_closed(link, log, "a frame that workers do not send to a manager");
        const auto barrier = job.cluster.workers[0]->barrier(0);
        CHECK(job.cluster.finish(0, barrier).code() == Errc::kPeerLost);
    }

    TEST_CASE("whatever strangers send on links and life lines, the job goes on") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + testing::histories_or(30); ++seed) {
            INFO("WEIR_SEED=" << seed);
            Misused job;
            Random random(seed);
            std::vector<transport::ConnectionId> connections;
            const auto number = [&] { return random.below(8) == 0 ? random() : random.below(4); };
            for (int step = 0; step < 150; ++step) {
                if (connections.empty() || random.below(4) == 0) {
                    connections.push_back(job.raw.connect(job.cluster.manager->address()));
                    continue;
                }
                const auto connection = connections[random.below(connections.size())];
                const uint64_t process = 500 + random.below(2);
                const LinkMessage link{1000 + random.below(3), process, random.below(2) == 0};
                wire::FrameHeader header = testing::frame_header(wire::Kind::kLink, number());
                header.first = number();
                if (random.below(4) == 0) header.status = Errc::kUnavailable;
                switch (random.below(6)) {
                    case 0:
                    case 1: job.raw.send(connection, header, link.encode()); break;
                    case 2: job.send(connection, wire::Kind::kLifeLine, number(), process); break;
                    case 3: job.send(connection, wire::Kind::kTaken, 0, number()); break;
                    case 4: job.raw.endpoint().close(connection); break;
                    default: job.cluster.network.reset(0, 99); break;
                }
                if (random.below(3) == 0) job.raw.run();
            }
            job.raw.run();
            job.check_job();
            CHECK(job.cluster.manager->view().epoch() == 1);
        }
    }
}

}  // namespace weir::test
