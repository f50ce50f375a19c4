// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/socket.h"

#include <doctest/doctest.h>

#include "tests/bootstrap/testing.h"

namespace weir {

TEST_SUITE("bootstrap socket") {
    TEST_CASE("a port in use and a host that is elsewhere are told apart") {
        const auto first = boot::tcp_listen({"127.0.0.1", 0});
        REQUIRE(first);
        const HostPort taken{"127.0.0.1", boot::tcp_port(first->front())};
        const auto second = boot::tcp_listen(taken);
        REQUIRE(second.code() == Errc::kAlreadyExists);
        CHECK(mentions(second.error().text(), taken.text()));
        CHECK(mentions(second.error().text(), "in use"));
        const auto elsewhere = boot::tcp_listen({"192.0.2.1", 4000});
        REQUIRE(elsewhere.code() == Errc::kNotFound);
        CHECK(mentions(elsewhere.error().text(), "not this machine"));
    }

    TEST_CASE("the name of the loopback interface listens there only") {
        const auto listeners = boot::tcp_listen({"localhost", 0});
        REQUIRE(listeners);
        for (const Descriptor& listener : *listeners)
            CHECK(transport::SocketAddress::own(listener.get()).is_loopback());
        CHECK(boot::is_loopback("localhost"));
        CHECK(boot::is_loopback("127.0.0.1"));
        CHECK_FALSE(boot::is_loopback("192.0.2.1"));
    }

    TEST_CASE("who connects to a port of its own to which nobody listens is refused") {
        const SteadyClock clock;
        auto listener = boot::tcp_listen({"127.0.0.1", 0});
        REQUIRE(listener);
        const HostPort at{"127.0.0.1", boot::tcp_port(listener->front())};
        listener->clear();
        // The kernel gives the connecting socket any free port, and now and then that one.
        for (int i = 0; i < 1000; ++i)
            REQUIRE(boot::tcp_connect(at, clock, clock.now_ns() + 60 * kSecond).code() ==
                    Errc::kPeerLost);
    }
}

}  // namespace weir
