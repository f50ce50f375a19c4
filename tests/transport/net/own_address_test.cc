// SPDX-License-Identifier: Apache-2.0
#include "transport/net/own_address.h"

#include <initializer_list>

#include <doctest/doctest.h>

namespace weir::transport {
namespace {

SocketAddress at(const char* text) {
    return SocketAddress::parse_host(text, 0).value();
}

std::vector<InterfaceAddress> host(
    std::initializer_list<std::pair<const char*, uint32_t>> addresses) {
    std::vector<InterfaceAddress> host;
    for (const auto& [text, bits] : addresses) {
        InterfaceAddress& one = host.emplace_back();
        one.address = at(text);
        one.network_bits = bits;
        one.leads_out = true;
    }
    return host;
}

/// The address that a host with `own` gives to one with `theirs`.
std::string chosen(const std::vector<InterfaceAddress>& own,
                   std::initializer_list<const char*> theirs) {
    std::vector<SocketAddress> addresses;
    for (const char* const text : theirs)
        addresses.push_back(at(text));
    const SocketAddress found = own_address_for(own, addresses);
    return found.family() == 0 ? "none" : found.host();
}

}  // namespace

TEST_SUITE("own address") {
    TEST_CASE("hosts take the network that both are in") {
        const auto own = host({{"10.0.2.15", 24}, {"172.17.0.1", 16}, {"192.168.7.5", 22}});
        // What both have leads to neither, and another network is none of theirs.
        CHECK(chosen(own, {"10.0.2.15", "172.17.0.1", "192.168.4.9"}) == "192.168.7.5");
        CHECK(chosen(own, {"10.0.2.16", "192.168.4.9"}) == "10.0.2.15");  // their first comes first
        CHECK(chosen(own, {"10.0.2.15", "172.17.0.1"}) == "none");
        CHECK(chosen(own, {}) == "none");
        const auto of_6 = host({{"fd00:15::15", 64}, {"fd00:99::1", 64}});
        CHECK(chosen(of_6, {"fd00:15::15", "fd00:99::2"}) == "fd00:99::1");
    }

    TEST_CASE("an interface without a carrier leads nowhere") {
        auto own = host({{"192.0.2.2", 24}, {"198.51.100.2", 24}});
        own[0].leads_out = false;
        CHECK(chosen(own, {"192.0.2.3", "198.51.100.3"}) == "198.51.100.2");
    }

    TEST_CASE("an address is found by itself, by its interface, and by its network") {
        for (const char* const what : {"127.0.0.1", "lo", "127.0.0.0/8", "127.0.0.1/32"}) {
            CAPTURE(what);
            const auto found = find_own_address(what);
            REQUIRE(found.has_value());
            CHECK(found->host() == "127.0.0.1");
        }
        CHECK(find_own_address("203.0.113.9")->host() == "203.0.113.9");  // listening fails, then
    }

    TEST_CASE("what is nothing of this machine is an error that lists what is") {
        for (const char* const what : {"203.0.113.0/24", "no-such-0", "10.0.0.0/33", "10.0.0.0/",
                                       "10.0.0.0/8x", "/8", "::/129", ""}) {
            CAPTURE(what);
            const auto found = find_own_address(what);
            REQUIRE(found.code() == Errc::kInvalidArgument);
            CHECK(found.error().text().find("this machine has 127.0.0.1 (lo)") !=
                  std::string_view::npos);
        }
    }

    TEST_CASE("the way to this machine itself has its own address") {
        CHECK(own_address_towards(at("127.0.0.1")).host() == "127.0.0.1");
    }
}

}  // namespace weir::transport
