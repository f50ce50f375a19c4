// SPDX-License-Identifier: Apache-2.0
/// \file
/// How connections end on a real device. Skipped with a message where there is none.

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "tests/transport/verbs/parties.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using namespace weir::transport::verbs::testing;

/// Breaks a connection at once by a read with a key that no peer has.
void break_now(Party& party, ConnectionId connection) {
    constexpr uint64_t kNoSuchKey = uint64_t{1} << 40;
    REQUIRE(party.endpoint->read(connection, {}, {0, 0, kNoSuchKey}, 1) == Post::kPosted);
}

void give_the_device_time() {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
}

}  // namespace

TEST_SUITE("verbs ends") {
    TEST_CASE("a lost connection ends once, even if it is polled only after its deadline") {
        ManualClock clock;
        DeviceOptions options;
        options.clock = &clock;
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        Party c(*device);
        for (const bool sleeps_first : {false, true}) {
            CAPTURE(sleeps_first);
            a.seen.clear();
            const ConnectionId to_b = connect(a, b).near;
            a.seen.clear();
            const ConnectionId to_c = connect(a, c).near;
            a.seen.clear();
            break_now(a, to_b);
            break_now(a, to_c);
            give_the_device_time();      // all requests are flushed
            clock.advance(3 * kSecond);  // the deadline passes before the first poll
            if (sleeps_first) static_cast<void>(a.endpoint->arm());
            const auto poll_one = [&] {
                // One completion per poll: the endpoint checks its deadlines in between.
                std::array<Completion, 1> one;
                if (a.endpoint->poll(one) > 0) a.seen.push_back(one[0]);
                clock.advance(kMillisecond);
            };
            // Two kRead, two kClosed.
            REQUIRE(weir::testing::wait_until([&] { return a.seen.size() >= 4; }, poll_one));
            for (int i = 0; i < 1000; ++i)
                poll_one();
            CHECK(a.seen.size() == 4);
        }
        const ConnectionId again = connect(a, b).near;  // new connections work
        const std::span<const std::byte> nothing;
        CHECK(a.endpoint->send(again, {&nothing, 1}) == Post::kPosted);
        CHECK(until({&a, &b}, [&] { return b.find(Event::kReceived) != nullptr; }));
    }
}
