// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/setup/side_channel.h"

#include <array>
#include <functional>
#include <limits>

#include <doctest/doctest.h>
#include <poll.h>

#include "tests/wait_until.h"
#include "transport/net/listener.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;

constexpr uint64_t kAlarm = 1;
constexpr uint64_t kListener = 2;
constexpr uint64_t kChannel = 77;
constexpr uint32_t kSilenceMs = 4000;

/// Waits until the watcher reports that the descriptor called `name` is ready.
bool wait_for(const Watcher& watcher, uint64_t name) {
    bool found = false;
    return weir::testing::wait_until([&] { return found; },
                                     [&] {
                                         pollfd one{watcher.fd(), POLLIN, 0};
                                         static_cast<void>(::poll(&one, 1, 100));
                                         std::array<uint64_t, 4> names;
                                         const size_t count = watcher.ready(names);
                                         found = std::find(names.begin(), names.begin() + count,
                                                           name) != names.begin() + count;
                                     });
}

struct Stage {
    Watcher watcher = std::move(Watcher::make(kAlarm)).value();
    Watcher other = std::move(Watcher::make(kAlarm)).value();
    Listener listener =
        std::move(
            Listener::make(std::move(listen_on(*SocketAddress::parse_host("127.0.0.1", 0))).value(),
                           watcher, kListener))
            .value();
};

}  // namespace

TEST_SUITE("verbs side channel") {
    TEST_CASE("an alarm makes the watcher ready once") {
        const auto watcher = Watcher::make(kAlarm);
        REQUIRE(watcher.has_value());
        std::array<uint64_t, 4> names;
        CHECK(watcher->ready(names) == 0);
        watcher->set_alarm(0);
        CHECK(wait_for(*watcher, kAlarm));
        CHECK(watcher->ready(names) == 0);
    }

    TEST_CASE("a resting listener accepts no connection until it goes on") {
        Stage stage;
        stage.listener.pause(5000);
        CHECK(stage.listener.pause_ends_ns() == 5000);
        SideChannel near(Side::kConnecting, {}, random_bytes());
        REQUIRE(
            near.dial(SocketAddress::own(stage.listener.fd()), kSilenceMs, stage.other, kChannel));
        REQUIRE(wait_for(stage.other, kChannel));
        std::array<uint64_t, 4> names;
        CHECK(stage.watcher.ready(names) == 0);
        stage.listener.resume();
        CHECK(stage.listener.pause_ends_ns() == Listener::kUntilResumedNs);
        CHECK(wait_for(stage.watcher, kListener));
        CHECK(stage.listener.accept());
        CHECK_FALSE(stage.listener.accept());
    }

    TEST_CASE("two ends exchange hellos, and an end detects that the other has closed") {
        Stage stage;
        SideChannel near(Side::kConnecting, {}, random_bytes());
        CHECK(near.receive() == SideChannel::Got::kNothing);
        REQUIRE(
            near.dial(SocketAddress::own(stage.listener.fd()), kSilenceMs, stage.other, kChannel));
        CHECK(near.state() == SideChannel::State::kDialing);
        REQUIRE(near.send());  // keeps the output until the connection is up
        REQUIRE(wait_for(stage.other, kChannel));
        REQUIRE(near.finish_connect());
        CHECK(near.state() == SideChannel::State::kUp);

        REQUIRE(wait_for(stage.watcher, kListener));
        SideChannel far(Side::kAccepting, {}, random_bytes());
        REQUIRE(far.adopt(stage.listener.accept(), kSilenceMs, stage.watcher, kChannel));
        REQUIRE(near.send());
        REQUIRE(wait_for(stage.watcher, kChannel));
        CHECK(far.receive() == SideChannel::Got::kSome);
        REQUIRE(far.handshake().next().has_value());  // puts the reply into the output
        REQUIRE(far.send());
        REQUIRE(wait_for(stage.other, kChannel));
        CHECK(near.receive() == SideChannel::Got::kSome);
        const auto step = near.handshake().next();
        REQUIRE(step.has_value());
        CHECK(*step == ClaimHandshake::Step::kMakeClaim);

        auto end = SideChannel::Got::kNothing;
        SUBCASE("in order, or with its process") {
            near.close();
            end = SideChannel::Got::kEnd;
        }
        SUBCASE("because the connection is broken, while its process lives") {
            near.break_off();
            end = SideChannel::Got::kBroken;
        }
        CHECK(near.state() == SideChannel::State::kClosed);
        auto got = SideChannel::Got::kSome;
        while (got == SideChannel::Got::kSome) {
            REQUIRE(wait_for(stage.watcher, kChannel));
            got = far.receive();
        }
        CHECK(got == end);
        near.reset({}, random_bytes());  // connects a second time
        REQUIRE(
            near.dial(SocketAddress::own(stage.listener.fd()), kSilenceMs, stage.other, kChannel));
        CHECK(near.state() == SideChannel::State::kDialing);
    }

    TEST_CASE("dialling an address without a listener fails with the kernel's error") {
        Stage stage;
        const SocketAddress nobody = SocketAddress::own(stage.listener.fd());
        { const Listener gone = std::move(stage.listener); }
        SideChannel near(Side::kConnecting, {}, random_bytes());
        REQUIRE(near.dial(nobody, kSilenceMs, stage.other, kChannel));
        REQUIRE(wait_for(stage.other, kChannel));
        CHECK(near.finish_connect().code() == Errc::kPeerLost);
    }
}
