// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which peers get a connection on a real device, and the errors of those that do not. Skipped
/// with a message where there is no device.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "tests/transport/verbs/parties.h"
#include "transport/net/socket.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using namespace weir::transport::verbs::testing;

/// A plain TCP connection to an endpoint, as a program outside of the job would make it.
Socket stranger(const Endpoint& endpoint) {
    const auto to = SocketAddress::parse(endpoint.address().substr(6));
    REQUIRE(to.has_value());
    auto socket = Socket::connect(*to, 4000);
    REQUIRE(socket.has_value());
    return std::move(*socket);
}

/// A fifth of the default time limit, so that tests end sooner.
DeviceOptions hurried_options() {
    DeviceOptions options;
    options.handshake_ms_max /= 5;
    return options;
}

bool was_closed(Socket& socket) {
    std::array<std::byte, 512> bytes;
    size_t count = 0;
    for (;;) {
        const auto got = socket.receive(bytes, count);
        if (got != Socket::Got::kSome)
            return got == Socket::Got::kEnd || got == Socket::Got::kBroken;
    }
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_SUITE("verbs connections") {
    TEST_CASE("garbage on the port closes that connection and harms no other") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        const Link link = connect(a, b);
        for (const char* const text :
             {"GET / HTTP/1.1\r\n\r\n", "WEVB\x01\x07\xff\xff", "\n\n\n\n\n\n\n\n"}) {
            Socket socket = stranger(*b.endpoint);
            std::vector<std::byte> garbage = bytes_of(text);
            REQUIRE(until({&b}, [&] { return socket.send(garbage) && garbage.empty(); }));
            CHECK(until({&b}, [&] { return was_closed(socket); }));
        }
        CHECK(b.endpoint->counters().refused == 3);
        const std::span<const std::byte> nothing;
        REQUIRE(a.endpoint->send(link.near, {&nothing, 1}) == Post::kPosted);
        CHECK(until({&a, &b}, [&] { return b.find(Event::kReceived) != nullptr; }));
        CHECK(b.find(Event::kClosed) == nullptr);
    }

    TEST_CASE("ranks of the job connect while silent strangers take all places again and again") {
        const auto device = device_or_skip(hurried_options());
        if (device == nullptr) return;
        const auto other = device_or_skip({});
        Party b(*device);
        std::vector<Socket> strangers;
        for (int i = 0; i < 200; ++i)
            strangers.push_back(stranger(*b.endpoint));
        Party a(*other);
        REQUIRE(a.endpoint->connect(b.endpoint->address()).has_value());
        size_t turn = 0;
        REQUIRE(until({&a, &b}, [&] {
            for (int i = 0; i < 8; ++i) {  // not all, which would be slow in a guest
                Socket& socket = strangers[turn++ % strangers.size()];
                if (was_closed(socket)) socket = stranger(*b.endpoint);
            }
            return !a.seen.empty();
        }));
        CHECK(a.seen.front().event == Event::kConnected);
        CHECK(b.endpoint->counters().refused >= 64);
        for (Socket& socket : strangers)
            CHECK(until({&a, &b}, [&] { return was_closed(socket); }));
    }

    TEST_CASE("a slow rank of the job that lost its place connects again") {
        const auto device = device_or_skip(hurried_options());
        if (device == nullptr) return;
        const auto other = device_or_skip({});
        for (const bool greeted : {false, true}) {
            CAPTURE(greeted);
            Party a(*other);
            Party b(*device);
            const auto begun = a.endpoint->connect(b.endpoint->address());
            REQUIRE(begun.has_value());
            if (greeted) {
                for (int i = 0; i < 1000; ++i)
                    a.poll();
            }
            for (int i = 0; i < 1000; ++i)
                b.poll();  // a takes the first place
            std::vector<Socket> strangers;
            for (int i = 0; i < 64; ++i)
                strangers.push_back(stranger(*b.endpoint));
            REQUIRE(until({&b}, [&] { return b.endpoint->counters().refused == 1; }));
            REQUIRE(until({&a, &b},
                          [&] { return !a.seen.empty() && b.find(Event::kAccepted) != nullptr; }));
            CHECK(a.seen.front().event == Event::kConnected);
            const std::span<const std::byte> nothing;
            REQUIRE(a.endpoint->send(*begun, {&nothing, 1}) == Post::kPosted);
            CHECK(until({&a, &b}, [&] { return b.find(Event::kReceived) != nullptr; }));
        }
    }

    TEST_CASE("a connection to a peer that never answers fails at its deadline") {
        DeviceOptions options;
        options.handshake_ms_max = 300;
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        const auto deaf = listen_on(*SocketAddress::parse_host("127.0.0.1", 0));
        REQUIRE(deaf.has_value());
        Party a(*device);
        const auto begun = a.endpoint->connect("verbs:" + SocketAddress::own(deaf->get()).text());
        REQUIRE(begun.has_value());
        CHECK(until({&a}, [&] { return a.find(Event::kClosed) != nullptr; }));
        CHECK(a.find(Event::kClosed)->status == Errc::kDeadline);
    }

    TEST_CASE("endpoints can be bound to IPv6, and a port can be bound only once") {
        DeviceOptions options;
        options.bind_address = "::1";
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        CHECK(b.endpoint->address().starts_with("verbs:[::1]:"));
        static_cast<void>(connect(a, b));

        const std::string address = b.endpoint->address();
        options.port = static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
        const auto other = make_device(options);
        REQUIRE(other.has_value());
        const auto taken = (*other)->make_endpoint({});
        CHECK(taken.code() == Errc::kAlreadyExists);
    }

    TEST_CASE("librdmacm connects queue pairs too, only for peers that proved the secret before") {
        DeviceOptions options;
        options.secret = random_bytes();
        options.connect_by = ConnectBy::kRdmaCm;
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        const auto begun = a.endpoint->connect(b.endpoint->address());
        REQUIRE(begun.has_value());
        REQUIRE(until({&a, &b}, [&] {
            return a.find(Event::kClosed) != nullptr || b.find(Event::kAccepted) != nullptr;
        }));
        if (const Completion* const closed = a.find(Event::kClosed)) {
            REQUIRE(closed->status == Errc::kUnavailable);
            MESSAGE("SKIPPED: no rdma_cm here");
            return;
        }
        REQUIRE(until({&a, &b}, [&] { return a.find(Event::kConnected) != nullptr; }));
        const ConnectionId far = b.find(Event::kAccepted)->connection;
        const std::vector<std::byte> text = bytes_of("hello");
        const std::span<const std::byte> part(text);
        for (int i = 0; i < 300; ++i) {
            REQUIRE(until({&a, &b}, [&] {
                return a.endpoint->send(*begun, {&part, 1}) == Post::kPosted;
            }));
        }
        REQUIRE(b.endpoint->send(far, {&part, 1}) == Post::kPosted);
        CHECK(until({&a, &b}, [&] {
            return a.endpoint->counters().messages_received == 1 &&
                   b.endpoint->counters().messages_received == 300;
        }));
        a.endpoint->close(*begun);
        CHECK(until({&a, &b}, [&] {
            return a.find(Event::kClosed) != nullptr && b.find(Event::kClosed) != nullptr;
        }));
        CHECK(b.find(Event::kClosed)->status == Errc::kOk);

        options.secret = random_bytes();
        const auto other_job = make_device(options);
        REQUIRE(other_job.has_value());
        Party stranger(**other_job);
        const auto in = stranger.endpoint->connect(b.endpoint->address());
        REQUIRE(in.has_value());
        REQUIRE(until({&stranger, &b}, [&] { return stranger.find(Event::kClosed) != nullptr; }));
        CHECK(stranger.find(Event::kClosed)->status == Errc::kRefused);
    }

    TEST_CASE("a peer with another message size is refused with a reason") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        EndpointOptions small;
        small.message_bytes_max = 512;
        Party a(*device, small);
        Party b(*device);
        CHECK(a.endpoint->capabilities().message_bytes_max == 512);
        const auto begun = a.endpoint->connect(b.endpoint->address());
        REQUIRE(begun.has_value());
        REQUIRE(until({&a, &b}, [&] { return a.find(Event::kClosed) != nullptr; }));
        CHECK(a.find(Event::kClosed)->status == Errc::kInvalidArgument);
        CHECK(b.find(Event::kAccepted) == nullptr);
    }

    TEST_CASE("a connection beyond the limit is refused with a reason") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        EndpointOptions two;
        two.connections_max = 2;
        Party b(*device, two);
        Party a(*device);
        for (int i = 0; i < 2; ++i) {
            a.seen.clear();
            static_cast<void>(connect(a, b));
        }
        a.seen.clear();
        REQUIRE(a.endpoint->connect(b.endpoint->address()).has_value());
        REQUIRE(until({&a, &b}, [&] { return a.find(Event::kClosed) != nullptr; }));
        CHECK(a.find(Event::kClosed)->status == Errc::kBusy);
        CHECK(b.endpoint->connect(a.endpoint->address()).code() == Errc::kBusy);
    }
}
