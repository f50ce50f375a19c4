// SPDX-License-Identifier: Apache-2.0
#include "lib/base/host_port.h"

#include <doctest/doctest.h>

using weir::Errc;
using weir::HostPort;

TEST_SUITE("host_port") {
    TEST_CASE("HOST:PORT is read with names, addresses and brackets, and written as it was") {
        CHECK(HostPort::parse("node7:4000")->host == "node7");
        CHECK(HostPort::parse("10.0.0.1:1")->port == 1);
        CHECK(HostPort::parse("[fe80::1]:65535")->host == "fe80::1");
        for (const char* const text : {"node7:4000", "10.0.0.1:1", "[fe80::1%eth0]:65535"})
            CHECK(HostPort::parse(text)->text() == text);
    }

    TEST_CASE("the part of a text that is wrong is named") {
        const auto says = [](std::string_view text, std::string_view what) {
            const auto parsed = HostPort::parse(text);
            REQUIRE_FALSE(parsed.has_value());
            CHECK_MESSAGE(parsed.error().text().find(what) != std::string::npos,
                          parsed.error().text());
        };
        says("", "there is no ':' with a port");
        says("node7", "there is no ':' with a port");
        says(":7777", "there is no host before the ':'");
        says("node7:99999", "'99999' is not a port");
        says("node7:", "'' is not a port");
        says("fe80::1:4000", "'fe80::1' has colons, and no brackets");
        says("[node7]:4000", "'node7' has brackets, which only an IPv6 address has");
        says("no de7:4000", "'no de7' has a bracket or a space in it");
        says(std::string(300, 'a') + ":4000", "the host has more than 255 bytes");
    }

    TEST_CASE("a text that is not HOST:PORT is refused with an example") {
        for (const char* const bad :
             {"",          ":",           "::",       "node7",        "node7:",  ":4000",
              "node7:0",   "node7:65536", "node7:4k", "fe80::1:4000", "[]:4000", "node7:-1",
              "[node7]:1", "[::1",        "[::1]",    "[::1:1",       "::1]:1",  "[[::1]]:1",
              " node7:1",  "node7 :1",    "node7: 1", "node7:+1"}) {
            CAPTURE(bad);
            const auto parsed = HostPort::parse(bad);
            REQUIRE(parsed.code() == Errc::kInvalidArgument);
            CHECK(parsed.error().text().find("node7:4000") != std::string::npos);
        }
        CHECK(HostPort::parse(std::string(100'000, 'h') + ":1").error().text().size() < 300);
        CHECK_FALSE(HostPort::parse(std::string("no\0de:1", 7)).has_value());
    }
}
