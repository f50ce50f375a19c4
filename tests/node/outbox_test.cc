// SPDX-License-Identifier: Apache-2.0
#include "lib/node/outbox.h"

#include <array>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "tests/log_lines.h"
#include "transport/sim/network.h"

namespace weir::test {
namespace {

using transport::ConnectionId;

/// An endpoint with an outbox, and two peers that take little at a time.
struct OutboxWorld {
    static constexpr uint64_t kInFlight = 8;

    OutboxWorld() {
        transport::EndpointOptions options;
        options.message_bytes_max = 1024;
        options.messages_in_flight = uint32_t{kInFlight};
        endpoint = std::move(device->make_endpoint(options)).value();
        for (auto& peer : peers) {
            peer = std::move(peer_device->make_endpoint(options)).value();
            (void)*peer->connect(endpoint->address());
        }
        for (int i = 0; i < 1000 && connections.size() < peers.size(); ++i) {
            poll();
            for (auto& peer : peers) {
                std::array<transport::Completion, 8> completions;
                (void)peer->poll(completions);
            }
            (void)network.step();
        }
        REQUIRE(connections.size() == peers.size());
    }

    void poll() {
        std::array<transport::Completion, 8> completions;
        const size_t count = endpoint->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == transport::Event::kAccepted) connections.push_back(c.connection);
            if (c.event == transport::Event::kClosed) closed.push_back(c.connection);
        }
    }

    /// What a peer gets, by request, while it takes messages.
    std::vector<uint64_t> take(size_t peer, Outbox* outbox, int steps = 3000) {
        std::vector<uint64_t> requests;
        for (int i = 0; i < steps; ++i) {
            std::array<transport::Completion, 8> completions;
            const size_t count = peers[peer]->poll(completions);
            for (const transport::Completion& c : std::span(completions).first(count)) {
                wire::Frame frame;
                if (c.event != transport::Event::kReceived) continue;
                REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
                requests.push_back(frame.header.request);
            }
            if (outbox != nullptr) (void)outbox->flush();
            poll();
            (void)network.step();
        }
        return requests;
    }

    ManualClock clock;
    transport::sim::Network network{1, clock};
    std::unique_ptr<transport::Device> device = network.make_device(0);
    std::unique_ptr<transport::Device> peer_device = network.make_device(1);
    std::unique_ptr<transport::Endpoint> endpoint;
    std::array<std::unique_ptr<transport::Endpoint>, 2> peers;
    std::vector<ConnectionId> connections;
    std::vector<ConnectionId> closed;
};

wire::FrameHeader reply(uint64_t request) {
    wire::FrameHeader header;
    header.request = request;
    return header;
}

}  // namespace

TEST_SUITE("outbox") {
    TEST_CASE("frames go out in the order in which they were sent, with and without room") {
        OutboxWorld world;
        Outbox outbox(*world.endpoint);
        std::vector<uint64_t> expected;
        std::vector<uint64_t> taken;
        for (uint64_t i = 0; i < 9 * OutboxWorld::kInFlight; ++i) {
            // Now and then there is room again, while some that were sent before still wait.
            if (i % (3 * OutboxWorld::kInFlight) == 0) {
                for (const uint64_t request : world.take(0, nullptr, 200))
                    taken.push_back(request);
            }
            expected.push_back(i);
            outbox.send(world.connections[0], reply(i));
        }
        CHECK(taken.size() == OutboxWorld::kInFlight);
        CHECK_FALSE(outbox.empty());
        for (const uint64_t request : world.take(0, &outbox))
            taken.push_back(request);
        CHECK(taken == expected);
        CHECK(outbox.empty());
    }

    TEST_CASE("a peer that takes no answers is closed when too many wait, others get theirs") {
        OutboxWorld world;
        constexpr size_t kMax = 65'536;
        Outbox outbox(*world.endpoint, kMax);
        const testing::LogLines log;
        const std::vector<std::byte> body(500);
        for (uint64_t i = 0; i < 1000; ++i)
            outbox.send(world.connections[0], reply(i), body);
        CHECK(outbox.empty());
        CHECK(log.has("closing the connection"));
        outbox.send(world.connections[1], reply(7), body);
        CHECK(world.take(1, &outbox) == std::vector<uint64_t>{7});
        // Up to then it may be slow.
        CHECK(world.closed == std::vector<ConnectionId>{world.connections[0]});
        CHECK(world.take(0, &outbox).size() <= OutboxWorld::kInFlight);
    }

    TEST_CASE("a peer that is slow gets all, as long as not too many wait at one time") {
        OutboxWorld world;
        Outbox outbox(*world.endpoint, size_t{64} * 1024);
        const std::vector<std::byte> body(500);
        uint64_t sent = 0;
        std::vector<uint64_t> taken;
        while (sent < 90)
            outbox.send(world.connections[0], reply(sent++), body);
        while (sent < 300) {
            CHECK_FALSE(outbox.empty());
            while (taken.size() + 80 < sent) {
                for (const uint64_t request : world.take(0, &outbox, 1))
                    taken.push_back(request);
            }
            for (int i = 0; i < 10; ++i)
                outbox.send(world.connections[0], reply(sent++), body);
        }
        for (const uint64_t request : world.take(0, &outbox))
            taken.push_back(request);
        CHECK(taken.size() == 300);
        CHECK(world.closed.empty());
    }

    TEST_CASE("it knows whether all frames up to one have left, of all connections") {
        OutboxWorld world;
        Outbox outbox(*world.endpoint);
        CHECK(outbox.has_sent(outbox.waited_count()));
        for (uint64_t i = 0; i < 2 * OutboxWorld::kInFlight; ++i)
            outbox.send(world.connections[i % 2], reply(i));
        CHECK(outbox.waited_count() == 0);
        outbox.send(world.connections[0], reply(100));
        outbox.send(world.connections[1], reply(101));
        const uint64_t both = outbox.waited_count();
        CHECK_FALSE(outbox.has_sent(both));
        for (int i = 0; i < 3000 && !outbox.has_sent(both - 1); ++i)
            (void)world.take(0, &outbox, 1);
        CHECK(outbox.has_sent(both - 1));
        CHECK_FALSE(outbox.has_sent(both));
        outbox.send(world.connections[1], reply(102));
        outbox.forget(world.connections[1]);
        CHECK(outbox.has_sent(outbox.waited_count()));
    }

    TEST_CASE("a frame that is too long is said to be, and others go on") {
        OutboxWorld world;
        Outbox outbox(*world.endpoint);
        const testing::LogLines log;
        outbox.send(world.connections[0], reply(1), std::vector<std::byte>(2000));
        CHECK(log.has("2032 bytes"));
        outbox.send(world.connections[0], reply(2));
        CHECK(world.take(0, &outbox) == std::vector<uint64_t>{2});
        CHECK(world.closed.empty());
    }
}

}  // namespace weir::test
