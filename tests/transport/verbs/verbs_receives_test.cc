// SPDX-License-Identifier: Apache-2.0
/// \file
/// The receive queue that all connections of an endpoint share: no peer can use it to break the
/// connections of others. Skipped with a message where there is no device.

#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "tests/transport/verbs/parties.h"
#include "tests/transport/verbs/raw_peer.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using namespace weir::transport::verbs::testing;

/// More than the receive queue has buffers.
constexpr int kDeaths = 100;

EndpointOptions small_options() {
    EndpointOptions options;
    options.messages_in_flight = 8;
    options.connections_max = 4;
    return options;
}

void send_nothing(Party& from, ConnectionId connection) {
    const std::span<const std::byte> nothing;
    REQUIRE(from.endpoint->send(connection, {&nothing, 1}) == Post::kPosted);
    from.endpoint->flush();
}

void check_healthy(Party& a, Party& b, const Link& link) {
    for (uint64_t i = 0; i < 100; ++i) {
        const uint64_t received = b.endpoint->counters().messages_received;
        const std::span<const std::byte> nothing;
        Post sent = Post::kNotNow;
        REQUIRE(until({&a, &b}, [&] {
            if (sent == Post::kNotNow) sent = a.endpoint->send(link.near, {&nothing, 1});
            return sent == Post::kClosed || b.endpoint->counters().messages_received > received;
        }));
        REQUIRE(sent == Post::kPosted);
    }
}

}  // namespace

TEST_SUITE("verbs receives") {
    TEST_CASE("a peer that ignores its credits is disconnected, and the others are not affected") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        const auto hardware = open_hardware({});
        REQUIRE(hardware.has_value());
        Party a(*device, small_options());
        Party b(*device, small_options());
        const Link link = connect(a, b);
        RawPeer outlaw(*hardware);
        outlaw.connect(b.endpoint->address(), b.endpoint->capabilities().message_bytes_max,
                       [&] { b.poll(); });
        REQUIRE(until({&b}, [&] { return b.seen.size() == 2; }));
        outlaw.flood(500);
        outlaw.wait_until_stuck();
        send_nothing(a, link.near);
        // b does not poll for a while, and its receive queue has run empty.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        REQUIRE(until({&a, &b}, [&] { return b.find(Event::kClosed) != nullptr; }));
        CHECK(b.find(Event::kClosed)->status == Errc::kProtocol);
        CHECK(b.find(Event::kClosed)->connection != link.far);
        CHECK(b.endpoint->counters().refused == 1);
        check_healthy(a, b, link);
        // At most the 8 within its credits, and 101 of a's: nothing that it sent beyond.
        CHECK(b.endpoint->counters().messages_received <= 8 + 101);
    }

    TEST_CASE("receives that dying senders had half filled are used again") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        const auto hardware = open_hardware({});
        REQUIRE(hardware.has_value());
        Party a(*device, small_options());
        Party b(*device, small_options());
        const Link link = connect(a, b);
        const SteadyClock clock;
        uint64_t longest_ns = 0;
        for (int i = 0; i < kDeaths; ++i) {
            b.seen.clear();
            RawPeer dying(*hardware);
            dying.connect(b.endpoint->address(), b.endpoint->capabilities().message_bytes_max,
                          [&] { b.poll(); });
            REQUIRE(until({&b}, [&] { return b.find(Event::kAccepted) != nullptr; }));
            dying.send_half();
            REQUIRE(until({&b}, [&] { return dying.failed(); }));
            if (i == 0) {
                const bool says = dying.reports_last_receive(300);
                MESSAGE("the device says when a queue pair takes no more receives: " << says);
            }
            const uint64_t left_ns = clock.now_ns();
            dying.leave();
            REQUIRE(until({&b}, [&] { return b.find(Event::kClosed) != nullptr; }));
            CHECK(b.find(Event::kClosed)->status == Errc::kPeerLost);
            longest_ns = std::max(longest_ns, clock.now_ns() - left_ns);
        }
        MESSAGE("the longest end took " << longest_ns / kMillisecond << " ms");
        a.seen.clear();
        check_healthy(a, b, link);
    }
}
