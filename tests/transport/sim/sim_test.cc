// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <ctime>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/transport/conformance/stage.h"
#include "transport/sim/network.h"

namespace {

using namespace weir;
using namespace weir::transport;
using conformance::bytes_of;
using conformance::number_from_environment;

/// Hosts with one endpoint each, connected as asked for, on one network.
struct Cluster {
    ManualClock clock;
    sim::Network network;
    std::vector<std::unique_ptr<Device>> devices;
    std::vector<std::unique_ptr<Endpoint>> endpoints;
    std::vector<std::vector<Completion>> seen;

    Cluster(uint64_t seed, size_t hosts, const sim::Options& options = {})
        : network(seed, clock, options), seen(hosts) {
        for (size_t i = 0; i < hosts; ++i) {
            devices.push_back(network.make_device(static_cast<sim::HostId>(i)));
            endpoints.push_back(std::move(devices.back()->make_endpoint({})).value());
        }
    }

    void poll_all() {
        Completion some[32];
        for (size_t i = 0; i < endpoints.size(); ++i) {
            const size_t count = endpoints[i]->poll(some);
            seen[i].insert(seen[i].end(), some, some + count);
        }
    }

    /// Polls and lets things happen until nothing does, or for so long.
    void run_for(uint64_t duration_ns) {
        const uint64_t end_ns = clock.now_ns() + duration_ns;
        for (;;) {
            poll_all();
            const auto next = network.next_event_ns();
            if (!next || *next > end_ns) break;
            network.step();
        }
        network.advance_to(end_ns);
        poll_all();
    }

    ConnectionId connect(size_t from, size_t to) {
        const auto id = endpoints[from]->connect(endpoints[to]->address());
        REQUIRE(id.has_value());
        run_for(10 * kMillisecond);
        REQUIRE(count(from, Event::kConnected, *id) == 1);
        return *id;
    }

    size_t count(size_t host, Event event, ConnectionId id) const {
        size_t found = 0;
        for (const Completion& c : seen[host])
            found += c.event == event && c.connection == id;
        return found;
    }

    Post send(size_t host, ConnectionId id, std::string_view text) {
        const auto part = bytes_of(text);
        return endpoints[host]->send(id, {&part, 1});
    }
};

/// A few hosts that send to each other at random, with whatever the options make of it.
uint64_t history(uint64_t seed) {
    sim::Options options;
    options.loss = 0.05;
    options.tries_max = 3;
    Cluster cluster(seed, 4, options);
    Random random(99);
    std::vector<ConnectionId> ids;
    for (size_t i = 1; i < 4; ++i) {
        ids.push_back(cluster.endpoints[i]->connect(cluster.endpoints[0]->address()).value());
    }
    for (int round = 0; round < 200; ++round) {
        const size_t who = random.below(3);
        static_cast<void>(cluster.send(who + 1, ids[who], std::to_string(round)));
        cluster.run_for(random.below(20 * kMicrosecond));
    }
    return cluster.network.trace_hash();
}

}  // namespace

TEST_SUITE("sim") {
    TEST_CASE("the same seed makes the same history, another one another") {
        const uint64_t seed = number_from_environment("WEIR_SEED", 3);
        CAPTURE(seed);
        CHECK(history(seed) == history(seed));
        CHECK(history(seed) != history(seed + 1));
    }

    TEST_CASE("connections overtake each other, messages of one do not") {
        Cluster cluster(1, 3);
        const ConnectionId a = cluster.connect(0, 2);
        const ConnectionId b = cluster.connect(1, 2);
        cluster.seen[2].clear();
        for (int i = 0; i < 30; ++i) {
            REQUIRE(cluster.send(0, a, "a") == Post::kPosted);
            cluster.endpoints[0]->flush();
            REQUIRE(cluster.send(1, b, "b") == Post::kPosted);
            cluster.endpoints[1]->flush();
        }
        cluster.run_for(10 * kMillisecond);
        REQUIRE(cluster.seen[2].size() == 60);
        size_t out_of_turn = 0;
        for (size_t i = 0; i + 1 < 60; i += 2) {
            out_of_turn += cluster.seen[2][i].connection == cluster.seen[2][i + 1].connection;
        }
        CHECK(out_of_turn > 0);
    }

    TEST_CASE("messages wait for flush or poll") {
        Cluster cluster(1, 2);
        const ConnectionId id = cluster.connect(0, 1);
        REQUIRE(cluster.send(0, id, "held") == Post::kPosted);
        cluster.network.advance_to(cluster.clock.now_ns() + kSecond);
        Completion one;
        CHECK(cluster.endpoints[1]->poll({&one, 1}) == 0);
        cluster.endpoints[0]->flush();
        cluster.network.advance_to(cluster.clock.now_ns() + kSecond);
        CHECK(cluster.endpoints[1]->poll({&one, 1}) == 1);
    }

    TEST_CASE("loss delays, and too much of it breaks the connection at both ends") {
        sim::Options options;
        options.loss = 0.3;
        options.tries_max = 60;
        {
            Cluster cluster(4, 2, options);
            const ConnectionId id = cluster.connect(0, 1);
            for (int i = 0; i < 50; ++i)
                REQUIRE(cluster.send(0, id, "x") == Post::kPosted);
            cluster.run_for(kSecond);
            CHECK(cluster.seen[1].size() == 51);
            CHECK(cluster.network.counters().tries_lost > 5);
            CHECK(cluster.network.counters().connections_broken == 0);
        }
        options.loss = 0.6;
        options.tries_max = 2;
        Cluster cluster(4, 2, options);
        ConnectionId id = 0;
        for (int i = 0; i < 1000 && cluster.count(0, Event::kConnected, id) == 0; ++i) {
            id = cluster.endpoints[0]->connect(cluster.endpoints[1]->address()).value();
            cluster.run_for(100 * kMillisecond);
        }
        for (int i = 0; i < 100; ++i)
            static_cast<void>(cluster.send(0, id, "x"));
        cluster.run_for(kSecond);
        CHECK(cluster.seen[0].back().event == Event::kClosed);
        CHECK(cluster.seen[0].back().status == Errc::kPeerLost);
        CHECK(cluster.seen[1].back().event == Event::kClosed);
        CHECK(cluster.seen[1].back().status == Errc::kPeerLost);
    }

    TEST_CASE("a short partition delays, a long one breaks, a healed one lets in again") {
        Cluster cluster(6, 2);
        const ConnectionId id = cluster.connect(0, 1);
        cluster.network.partition(0, 1);
        REQUIRE(cluster.send(0, id, "through") == Post::kPosted);
        cluster.run_for(300 * kMicrosecond);
        CHECK(cluster.seen[1].size() == 1);
        cluster.network.heal(1, 0);
        cluster.run_for(kMillisecond);
        REQUIRE(cluster.seen[1].size() == 2);

        cluster.network.partition(0, 1);
        cluster.run_for(kSecond);  // idle, and noticed all the same
        CHECK(cluster.seen[0].back().event == Event::kClosed);
        CHECK(cluster.seen[1].back().event == Event::kClosed);
        const auto again = cluster.endpoints[0]->connect(cluster.endpoints[1]->address());
        cluster.run_for(kSecond);
        CHECK(cluster.count(0, Event::kClosed, *again) == 1);
        cluster.network.heal(0, 1);
        static_cast<void>(cluster.connect(0, 1));
    }

    TEST_CASE("a block stops one direction, and is noticed at both ends if it lasts") {
        Cluster cluster(6, 2);
        const ConnectionId id = cluster.connect(0, 1);
        const ConnectionId there = cluster.seen[1].back().connection;
        cluster.network.block(0, 1);
        REQUIRE(cluster.send(0, id, "there") == Post::kPosted);
        REQUIRE(cluster.send(1, there, "back") == Post::kPosted);
        cluster.run_for(300 * kMicrosecond);
        CHECK(cluster.seen[0].size() == 2);
        CHECK(cluster.seen[1].size() == 1);
        cluster.network.heal(0, 1);
        cluster.run_for(kMillisecond);
        CHECK(cluster.seen[1].size() == 2);
        cluster.network.block(0, 1);
        cluster.run_for(kSecond);
        CHECK(cluster.seen[0].back().event == Event::kClosed);
        CHECK(cluster.seen[1].back().event == Event::kClosed);
    }

    TEST_CASE("a killed host is noticed after a while and may start again") {
        sim::Options options;
        Cluster cluster(7, 3, options);
        const ConnectionId id = cluster.connect(0, 1);
        const ConnectionId other = cluster.connect(0, 2);
        cluster.network.kill(1);
        cluster.run_for(options.silence_ns - 1);
        CHECK(cluster.count(0, Event::kClosed, id) == 0);
        cluster.run_for(options.silence_ns + 2);
        CHECK(cluster.count(0, Event::kClosed, id) == 1);
        CHECK(cluster.count(0, Event::kClosed, other) == 0);
        CHECK(cluster.devices[1]->make_endpoint({}).code() == Errc::kUnavailable);
        CHECK(cluster.endpoints[1]->connect("sim:1").code() == Errc::kUnavailable);

        cluster.endpoints[1] = nullptr;
        cluster.devices[1] = cluster.network.make_device(1);
        cluster.endpoints[1] = std::move(cluster.devices[1]->make_endpoint({})).value();
        static_cast<void>(cluster.connect(0, 1));
    }

    TEST_CASE("a slow host is slow") {
        sim::Options options;
        options.delay_ns_min = options.delay_ns_max = 10 * kMicrosecond;
        options.bytes_per_s = 0;
        Cluster cluster(8, 2, options);
        const ConnectionId id = cluster.connect(0, 1);
        cluster.network.set_slowness(1, 100);
        REQUIRE(cluster.send(0, id, "at last") == Post::kPosted);
        cluster.run_for(999 * kMicrosecond);
        CHECK(cluster.seen[1].size() == 1);
        cluster.run_for(2 * kMicrosecond);
        CHECK(cluster.seen[1].size() == 2);
    }

    TEST_CASE("a bulk write is torn until its immediate has come") {
        Cluster cluster(9, 2);
        const ConnectionId id = cluster.connect(0, 1);
        std::vector<std::byte> from(64 * 1024, std::byte{1});
        std::vector<std::byte> to(64 * 1024);
        REQUIRE(cluster.devices[0]->register_memory({from}, Access::kLocal).has_value());
        REQUIRE(cluster.devices[1]->register_memory({to}, Access::kRemote).has_value());
        const ConnectionId far = cluster.seen[1].front().connection;
        const RemoteSpan span = cluster.endpoints[1]->expose(far, to).value();
        REQUIRE(cluster.endpoints[0]->write_immediate(id, from, span, 1, 1) == Post::kPosted);
        cluster.endpoints[0]->flush();
        bool torn = false;
        while (cluster.seen[1].back().event != Event::kImmediate) {
            REQUIRE(cluster.network.step());
            torn = torn || to.front() != to.back();
            cluster.poll_all();
        }
        CHECK(torn);
        CHECK(to == from);
    }

    TEST_CASE("what a host sends shares its wire") {
        sim::Options options;
        options.delay_ns_min = options.delay_ns_max = 0;
        options.bytes_per_s = 1'000'000;  // a message of 936 bytes and its header: a millisecond
        Cluster cluster(10, 3, options);
        const ConnectionId a = cluster.connect(0, 1);
        const ConnectionId b = cluster.connect(0, 2);
        const std::string text(936, 'x');
        for (int i = 0; i < 5; ++i) {
            REQUIRE(cluster.send(0, a, text) == Post::kPosted);
            REQUIRE(cluster.send(0, b, text) == Post::kPosted);
        }
        cluster.run_for(9'500 * kMicrosecond);
        CHECK(cluster.seen[1].size() + cluster.seen[2].size() == 2 + 9);
    }

    TEST_CASE("a simulation is fast") {
        Cluster cluster(11, 2);
        const ConnectionId id = cluster.connect(0, 1);
        const std::clock_t begin = std::clock();
        uint64_t sent = 0;
        uint64_t got = 0;
        Completion some[32];
        const std::string text(64, 'x');
        while (got < 100'000) {
            while (sent < 100'000 && cluster.send(0, id, text) == Post::kPosted)
                ++sent;
            static_cast<void>(cluster.endpoints[0]->poll(some));
            got += cluster.endpoints[1]->poll(some);
            REQUIRE((cluster.network.step() || got == 100'000));
        }
        const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
        MESSAGE((static_cast<double>(got) / seconds)
                << " messages simulated per second of this core");
        CHECK(seconds < 60);  // with sanitizers on a slow machine; 0.1 is usual
    }
}
