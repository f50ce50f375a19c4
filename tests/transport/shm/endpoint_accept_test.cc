// SPDX-License-Identifier: Apache-2.0
/// \file
/// Slow handshakes, and peers that take places and prove nothing.
#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "tests/log_lines.h"
#include "tests/transport/shm/helpers.h"
#include "transport/net/unix_socket.h"

namespace weir::transport::shm {

namespace {

using testing::Actor;
using testing::readable;
using testing::test_device;
using testing::test_secret;

/// A tenth of the real time limit.
DeviceOptions hurried_options() {
    DeviceOptions options{test_secret()};
    options.handshake_timeout_ns /= 10;
    return options;
}

/// A connection that sends nothing.
Descriptor stranger(Actor& actor) {
    auto socket = dial_abstract(testing::socket_name_of(actor.endpoint().address()));
    REQUIRE(socket.has_value());
    return std::move(socket).value();
}

/// While it lives, this process cannot open descriptors.
class NoMoreDescriptors {
public:
    NoMoreDescriptors() {
        REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const rlimit none = {0, before_.rlim_max};
        REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    }

    NoMoreDescriptors(const NoMoreDescriptors&) = delete;
    NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;

    ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
};

}  // namespace

TEST_SUITE("endpoint accept") {
    TEST_CASE("a handshake that does not go on is given up") {
        DeviceOptions hasty{test_secret()};
        hasty.handshake_timeout_ns = 20 * kMillisecond;
        const auto device = test_device(hasty);
        const auto other = test_device();
        Actor a(*device);
        Actor deaf(*other);  // never polls
        const auto id = a.endpoint().connect(deaf.endpoint().address());
        REQUIRE(id.has_value());
        auto stranger = dial_abstract(testing::socket_name_of(a.endpoint().address()));
        REQUIRE(stranger.has_value());
        // The endpoint sleeps in between, too.
        SUBCASE("polling") {
            REQUIRE(a.until([&] { return a.closed(*id).has_value(); }));
        }
        SUBCASE("sleeping") {
            for (int i = 0; i < 20 && !a.closed(*id); ++i) {
                CHECK(readable(a.endpoint().arm(), 60'000));
                a.poll();
            }
        }
        CHECK(a.closed(*id) == Errc::kDeadline);
        REQUIRE(a.until([&] { return a.endpoint().counters().refused == 2; }));
        Packet packet;
        CHECK(receive_packet(stranger->get(), packet) == Receive::kEnd);
        Actor direct(*device);  // inside of one device as well
        const auto offered = a.endpoint().connect(direct.endpoint().address());
        REQUIRE(offered.has_value());
        REQUIRE(a.until([&] { return a.closed(*offered).has_value(); }));
        CHECK(a.closed(*offered) == Errc::kDeadline);
    }

    TEST_CASE("a friend gets in though 200 strangers say nothing and come again at once") {
        const auto device = test_device(hurried_options());
        const auto other = test_device();
        Actor a(*device);
        Actor b(*other);
        std::vector<Descriptor> silent;
        for (int i = 0; i < 200; ++i)
            silent.push_back(stranger(a));
        const auto id = b.endpoint().connect(a.endpoint().address());
        REQUIRE(id.has_value());
        const bool ended = b.until([&] {
            a.poll();
            for (Descriptor& socket : silent) {
                Packet packet;
                if (receive_packet(socket.get(), packet) == Receive::kEnd) socket = stranger(a);
            }
            return b.count(Event::kConnected, *id) > 0 || b.closed(*id).has_value();
        });
        CHECK(ended);
        CHECK(b.count(Event::kConnected, *id) == 1);
        CHECK(a.endpoint().counters().refused >= 64);
    }

    TEST_CASE("strangers who fill all places keep nobody awake") {
        DeviceOptions options = hurried_options();
        options.handshakes_max = 4;
        const auto device = test_device(options);
        Actor a(*device);
        std::vector<Descriptor> silent;
        for (int i = 0; i < 6; ++i)
            silent.push_back(stranger(a));
        int wakes = 0;
        // Two are closed when their time is over. The other four stay, because no further
        // connection wants their places.
        while (wakes < 50 && readable(a.endpoint().arm(), 300)) {
            a.poll();
            ++wakes;
        }
        CHECK(wakes < 50);
        CHECK(a.endpoint().counters().refused == 2);
        Packet packet;
        CHECK(receive_packet(silent[0].get(), packet) == Receive::kPacket);  // come later
        CHECK(receive_packet(silent[0].get(), packet) == Receive::kEnd);
        CHECK(receive_packet(silent[2].get(), packet) == Receive::kNothing);
    }

    TEST_CASE("a slow friend whose place went to others comes again") {
        DeviceOptions options = hurried_options();
        options.handshakes_max = 1;
        const auto device = test_device(options);
        const auto other = test_device();
        Actor a(*device);
        Actor b(*other);
        const auto id = b.endpoint().connect(a.endpoint().address());
        REQUIRE(id.has_value());
        a.poll();  // greets it
        const Descriptor next = stranger(a);
        REQUIRE(a.until([&] { return a.endpoint().counters().refused == 1; }));
        REQUIRE(b.until([&] { return b.count(Event::kConnected, *id) == 1; }, &a));
        REQUIRE(a.accept() != 0);
        CHECK(b.send(*id, "here again") == Post::kPosted);
        b.endpoint().flush();
        CHECK(a.receive(a.accept()) == "here again");
    }

    TEST_CASE("the end of a peer that has not answered yet is told at once") {
        const auto device = test_device();
        const auto other = test_device();
        Actor a(*device);
        auto deaf = std::make_unique<Actor>(*other);
        const auto id = a.endpoint().connect(deaf->endpoint().address());
        REQUIRE(id.has_value());
        a.poll();
        deaf.reset();
        REQUIRE(a.until([&] { return a.closed(*id).has_value(); }));  // long before its deadline
        CHECK(a.closed(*id) == Errc::kPeerLost);
    }

    TEST_CASE("that nobody listens any more at an address of this host proves the peer's end") {
        const auto device = test_device();
        const auto other = test_device();
        const auto endpoint = std::move(device->make_endpoint({})).value();
        std::string address;
        {
            Actor gone(*other);
            address = gone.endpoint().address();
        }
        REQUIRE(endpoint->connect(address).has_value());
        std::array<Completion, 4> completions;
        REQUIRE(endpoint->poll(completions) == 1);
        CHECK(completions[0].event == Event::kClosed);
        CHECK(completions[0].status == Errc::kPeerLost);
        CHECK(completions[0].peer_ended);
    }

    TEST_CASE("connections that cannot be accepted for want of descriptors are logged once") {
        const auto device = test_device();
        const ::weir::testing::LogLines log;
        {
            Actor a(*device);
            a.poll();
            const Descriptor waiting = stranger(a);
            {
                // nothing of doctest here: UBSan's look at a new class needs a descriptor
                const NoMoreDescriptors none;
                for (int attempt = 0; attempt < 3; ++attempt) {
                    for (int i = 0; i < 1000; ++i)
                        a.poll();
                    usleep(60'000);  // longer than it waits before it tries again
                }
            }
            INFO(log.text());
            CHECK(log.count("cannot accept connections now") == 1);
            const auto other = test_device();
            Actor friendly(*other);
            CHECK(friendly.connect(a.endpoint().address(), &a) != 0);
        }
        CHECK(log.count("more like this in the last") == 1);
    }

    TEST_CASE("garbage on the listening socket is refused and logged") {
        const ::weir::testing::LogLines log;
        const auto device = test_device();
        Actor a(*device);
        auto stranger = dial_abstract(testing::socket_name_of(a.endpoint().address()));
        REQUIRE(stranger.has_value());
        const std::string text = "GET / HTTP/1.1";
        REQUIRE(send_packet(stranger->get(), std::as_bytes(std::span(text)), {}).has_value());
        REQUIRE(a.until([&] { return a.endpoint().counters().refused == 1; }));
        const std::vector<std::string> lines = log.lines();
        REQUIRE(lines.size() == 1);
        CHECK(lines[0].find("garbage, not the handshake of shm") != std::string::npos);
        CHECK(a.happened.empty());
        Packet packet;
        CHECK(receive_packet(stranger->get(), packet) == Receive::kEnd);
        for (uint64_t i = 2; i <= 20; ++i) {  // more of the same are counted, not logged
            auto more = dial_abstract(testing::socket_name_of(a.endpoint().address()));
            REQUIRE(more.has_value());
            REQUIRE(send_packet(more->get(), std::as_bytes(std::span(text)), {}).has_value());
            REQUIRE(a.until([&] { return a.endpoint().counters().refused == i; }));
        }
        CHECK(log.lines().size() == 1);
    }
}

}  // namespace weir::transport::shm
