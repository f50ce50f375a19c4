// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_link.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/socket.h>

#include "lib/bootstrap/rendezvous/socket.h"
#include "tests/bootstrap/rendezvous_testing.h"

namespace weir::boot {
namespace {

/// Both ends of a connection on loopback.
struct TwoLinks {
    TwoLinks() {
        const auto listeners = tcp_listen({"127.0.0.1", 0});
        REQUIRE(listeners);
        const Descriptor& listener = listeners->front();
        auto socket = tcp_connect({"127.0.0.1", tcp_port(listener)}, kClock, in_s(kPatienceS));
        REQUIRE(socket);
        near.emplace(std::move(*socket), transport::Side::kConnecting, std::nullopt);
        const int accepted = ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK);
        REQUIRE(accepted >= 0);
        far.emplace(transport::Socket(Descriptor(accepted), kSilenceMsMax),
                    transport::Side::kAccepting, std::nullopt);
        near->trust();
        far->trust();
        // Whoever says something first, it is not said here.
        near->handshake().output().clear();
        far->handshake().output().clear();
    }

    /// The next message at the far end. Both ends go on until it is there.
    [[nodiscard]] RendezvousMessage next() {
        for (const uint64_t end_ns = in_s(kPatienceS); kClock.now_ns() < end_ns;) {
            auto record = far->next();
            REQUIRE(record);
            if (record->has_value()) return *decode_message(**record);
            REQUIRE(near->flush());
            REQUIRE(far->fill());
        }
        FAIL("nothing came");
        return {};
    }

    std::optional<RendezvousLink> near;
    std::optional<RendezvousLink> far;
};

RendezvousMessage entry_of(std::string text) {
    return {.kind = RendezvousKind::kEntry, .rank = 3, .key = "k", .text = std::move(text)};
}

}  // namespace

TEST_SUITE("rendezvous link") {
    TEST_CASE("messages arrive whole and in order, also many more than a socket takes at once") {
        TwoLinks links;
        CHECK_FALSE(links.near->has_output());
        constexpr size_t kCount = 4000;
        for (size_t i = 0; i < kCount; ++i)
            links.near->queue(entry_of(std::to_string(i) + std::string(i % 4000, 'x')));
        CHECK(links.near->has_output());
        for (size_t i = 0; i < kCount; ++i)
            REQUIRE(links.next() == entry_of(std::to_string(i) + std::string(i % 4000, 'x')));
        CHECK_FALSE(links.near->has_output());
    }

    TEST_CASE("what the handshake says leaves before what is queued after it") {
        TwoLinks links;
        const std::vector<std::byte> first = encode(entry_of("first"));
        links.near->handshake().output() = first;
        CHECK(links.near->has_output());
        links.near->queue(entry_of("second"));
        CHECK(links.next().text == "first");
        CHECK(links.next().text == "second");
    }

    TEST_CASE("what was sent before the other end closed arrives, then it is lost") {
        TwoLinks links;
        links.near->queue(entry_of("last"));
        REQUIRE(links.near->flush());
        links.near.reset();
        Status status;
        std::vector<std::string> texts;
        for (const uint64_t end_ns = in_s(kPatienceS); status && kClock.now_ns() < end_ns;) {
            status = links.far->fill();
            for (auto record = links.far->next(); record && *record; record = links.far->next())
                texts.push_back(decode_message(**record)->text);
        }
        CHECK(status.code() == Errc::kPeerLost);
        CHECK(texts == std::vector<std::string>{"last"});
    }

    TEST_CASE("it names both ends") {
        const TwoLinks links;
        CHECK(links.near->own_address().is_loopback());
        CHECK(links.near->peer() == links.far->own_address().text());
        CHECK(links.near->peer_address().same_host(links.far->peer_address()));
    }
}

}  // namespace weir::boot
