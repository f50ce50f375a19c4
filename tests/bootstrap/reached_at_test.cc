// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/reached_at.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "transport/net/own_address.h"

namespace weir {
namespace {

using transport::SocketAddress;

/// The first of three ranks; what the others have published is the test's.
class FakeBootstrap final : public Bootstrap {
public:
    [[nodiscard]] uint32_t rank() const noexcept override { return 0; }

    [[nodiscard]] uint32_t size() const noexcept override { return size_is; }

    [[nodiscard]] std::string_view name() const noexcept override { return "in-process"; }

    Status put(std::string_view key, std::string_view value) override {
        put_key = key;
        published[0] = value;
        return {};
    }

    Status exchange(uint64_t /*deadline_ns*/) override { return {}; }

    Result<std::string> get(uint32_t rank, std::string_view key) override {
        CHECK(rank != 0);
        CHECK(key == put_key);
        const auto found = published.find(rank);
        if (found == published.end()) return Error(Errc::kNotFound, "it put nothing");
        return found->second;
    }

    Status finish() override { return {}; }

    [[nodiscard]] SocketAddress met_at() const override { return met; }

    uint32_t size_is = 3;
    SocketAddress met;
    std::string put_key;
    std::map<uint32_t, std::string> published;
};

/// Another address of a network that this host is in, and its own one there; none where it has only loopback.
std::optional<std::pair<std::string, SocketAddress>> neighbour() {
    for (const transport::InterfaceAddress& one : transport::interface_addresses()) {
        if (!one.leads_out || one.address.family() != AF_INET || one.network_bits > 30) continue;
        const auto bytes = one.address.bytes();
        std::string text;
        for (size_t i = 0; i < bytes.size(); ++i) {
            const int last = bytes[i] % 4 == 1 ? bytes[i] + 1 : (bytes[i] & ~3) + 1;
            text += (i == 0 ? "" : ".") + std::to_string(i == 3 ? last : bytes[i]);
        }
        return std::pair{text, one.address};
    }
    return std::nullopt;
}

}  // namespace

TEST_SUITE("reached at") {
    TEST_CASE("a job of one publishes nothing, others the addresses that lead out") {
        FakeBootstrap bootstrap;
        bootstrap.size_is = 1;
        REQUIRE(publish_addresses(bootstrap));
        CHECK(bootstrap.published.empty());
        CHECK(address_for_others(bootstrap)->family() == 0);
        bootstrap.size_is = 3;
        REQUIRE(publish_addresses(bootstrap));
        const std::string text = ";" + bootstrap.published.at(0) + ";";
        for (const transport::InterfaceAddress& one : transport::interface_addresses()) {
            INFO(one.address.host());
            if (one.leads_out)
                CHECK(text.find(";" + one.address.host() + ";") != std::string::npos);
        }
        CHECK(text.size() <= Bootstrap::kValueBytesMax);
    }

    TEST_CASE("where the ranks have met comes first") {
        FakeBootstrap bootstrap;
        bootstrap.met = *SocketAddress::parse_host("192.0.2.7", 0);
        CHECK(address_for_others(bootstrap)->host() == "192.0.2.7");
    }

    TEST_CASE("ranks of this host, loopback and what is no address say nothing") {
        FakeBootstrap bootstrap;
        REQUIRE(publish_addresses(bootstrap));
        bootstrap.published[1] = bootstrap.published.at(0);
        bootstrap.published[2] = "127.0.0.1;::1;no address;";
        const auto found = address_for_others(bootstrap);
        REQUIRE(found);
        CHECK(found->family() == 0);
    }

    TEST_CASE("the first rank of another host decides, by a network that both are in") {
        const auto other = neighbour();
        if (!other) {
            MESSAGE("skipped: this host has no network with IPv4");
            return;
        }
        FakeBootstrap bootstrap;
        REQUIRE(publish_addresses(bootstrap));
        bootstrap.published[1] = bootstrap.published.at(0);
        bootstrap.published[2] = "127.0.0.1;" + other->first;
        const auto found = address_for_others(bootstrap);
        REQUIRE(found);
        CHECK(found->host() == other->second.host());
    }

    TEST_CASE("an error of the bootstrap is passed on") {
        FakeBootstrap bootstrap;
        REQUIRE(publish_addresses(bootstrap));
        CHECK(address_for_others(bootstrap).code() == Errc::kNotFound);
    }

    TEST_CASE("an endpoint on this host, or that is reached by no network, leads nowhere") {
        CHECK(address_towards("tcp:127.0.0.1:4711").family() == 0);
        CHECK(address_towards("shm:/a/socket").family() == 0);
        CHECK(address_towards("").family() == 0);
        CHECK(address_towards("tcp:no address").family() == 0);
        const auto other = neighbour();
        if (!other) {
            MESSAGE("skipped: this host has no network with IPv4");
            return;
        }
        CHECK(address_towards("shm:x;tcp:" + other->first + ":4711").host() ==
              other->second.host());
    }
}

}  // namespace weir
