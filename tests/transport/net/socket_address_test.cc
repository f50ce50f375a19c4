// SPDX-License-Identifier: Apache-2.0
#include "transport/net/socket_address.h"

#include <doctest/doctest.h>

using namespace weir;
using namespace weir::transport;

TEST_SUITE("socket addresses") {
    TEST_CASE("addresses are read as they are written") {
        for (const char* const text :
             {"10.0.0.1:4711", "127.0.0.1:1", "[::1]:4711", "[fe80::1]:65535"}) {
            const auto address = SocketAddress::parse(text);
            REQUIRE(address.has_value());
            CHECK(address->text() == text);
        }
        CHECK(SocketAddress::parse("0.0.0.0:1")->is_any());
        CHECK(SocketAddress::parse("[::]:1")->is_any());
        CHECK_FALSE(SocketAddress::parse("[::1]:1")->is_any());
    }

    TEST_CASE("text that is not an address is refused") {
        for (const char* const text :
             {"", ":", "::", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:-1",
              "10.0.0.1:1x", "10.0.0.256:1", "::1:4711", "[10.0.0.1]:1", "[::1]", "[::1:1",
              "host:1", " 10.0.0.1:1", "10.0.0.1 :1", "10.0.0.1: 1"}) {
            CAPTURE(text);
            CHECK(SocketAddress::parse(text).code() == Errc::kInvalidArgument);
        }
        CHECK(SocketAddress::parse(std::string(100'000, '1') + ":1").code() ==
              Errc::kInvalidArgument);
    }
}
