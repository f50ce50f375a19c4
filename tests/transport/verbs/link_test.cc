// SPDX-License-Identifier: Apache-2.0
/// \file
/// A link goes down and comes up again. The test takes a network interface down, so it runs only
/// where WEIR_TEST_LINK names one: tests/rxe does so in its guest.

#include <cstdlib>
#include <cstring>
#include <string>

#include <doctest/doctest.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "lib/base/descriptor.h"
#include "tests/transport/verbs/parties.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using namespace weir::transport::verbs::testing;

bool set_up(const std::string& interface, bool up) {
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strncpy(request.ifr_name, interface.c_str(), IF_NAMESIZE - 1);
    if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return false;
    request.ifr_flags =
        static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

}  // namespace

TEST_SUITE("verbs link") {
    TEST_CASE("a link that flaps ends no connection") {
        const char* const interface = std::getenv("WEIR_TEST_LINK");
        if (interface == nullptr) {
            MESSAGE("SKIPPED: WEIR_TEST_LINK names no network interface to take down");
            return;
        }
        DeviceOptions options;
        options.bind_address = "127.0.0.1";  // keeps the side channel off that link
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        const Link link = connect(a, b);
        REQUIRE(set_up(interface, false));
        const SteadyClock clock;
        const uint64_t down_ns = clock.now_ns();
        CHECK(until({&a, &b}, [&] { return clock.now_ns() - down_ns > kSecond / 2; }));
        REQUIRE(set_up(interface, true));
        CHECK(until({&a, &b}, [&] { return clock.now_ns() - down_ns > kSecond; }));
        CHECK(a.find(Event::kClosed) == nullptr);
        const std::span<const std::byte> nothing;
        REQUIRE(a.endpoint->send(link.near, {&nothing, 1}) == Post::kPosted);
        CHECK(until({&a, &b}, [&] { return b.find(Event::kReceived) != nullptr; }));
        CHECK(b.find(Event::kClosed) == nullptr);
    }
}
