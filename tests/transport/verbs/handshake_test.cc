// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/setup/handshake.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using Step = ClaimHandshake::Step;
using Bytes = std::vector<std::byte>;

Claim some_claim(uint32_t number) {
    Claim claim;
    claim.queue_pair = 0x00ffff00U + number;
    claim.packet_number = 0x00abcde0U + number;
    claim.lid = static_cast<uint16_t>(0xff00 + number);
    claim.mtu = 5;
    claim.link_layer = 2;
    claim.gid.fill(static_cast<std::byte>(number));
    claim.read_depth = 128;
    claim.window = 128;
    claim.message_bytes_max = 8192;
    return claim;
}

/// Takes the output of a side.
Bytes take_output(ClaimHandshake& side) {
    return std::exchange(side.output(), {});
}

/// Both sides of a handshake.
struct Pair {
    explicit Pair(const Secret& near_secret = random_bytes()) : Pair(near_secret, near_secret) {}

    Pair(const Secret& near_secret, const Secret& far_secret)
        : near(Side::kConnecting, near_secret, random_bytes()),
          far(Side::kAccepting, far_secret, random_bytes()) {}

    ClaimHandshake near;
    ClaimHandshake far;

    static Step give(ClaimHandshake& to, const Bytes& bytes) {
        to.append(bytes);
        const auto step = to.next();
        REQUIRE_MESSAGE(step.has_value(), step.error().message());
        return *step;
    }

    /// Runs up to the connecting side's claim, which is returned and not delivered.
    Bytes until_claim() {
        CHECK(give(far, take_output(near)) == Step::kWait);
        CHECK(give(near, take_output(far)) == Step::kMakeClaim);
        near.claim(some_claim(1));
        return take_output(near);
    }

    void finish() {
        CHECK(give(far, until_claim()) == Step::kProven);
        far.claim(some_claim(2));
        CHECK(give(near, take_output(far)) == Step::kProven);
        near.ready();
        CHECK(give(far, take_output(near)) == Step::kOpen);
    }
};

Errc code_of(ClaimHandshake& side, const Bytes& bytes) {
    side.append(std::span(bytes).first(std::min(bytes.size(), side.room())));
    return side.next().code();
}

void put(Bytes& record, size_t at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
        record[at + i] = static_cast<std::byte>(value >> (8 * i));
}

}  // namespace

TEST_SUITE("verbs handshake") {
    TEST_CASE("two sides with the same secret receive each other's claim") {
        Pair pair;
        pair.finish();
        CHECK(pair.far.peer() == some_claim(1));
        CHECK(pair.near.peer() == some_claim(2));
    }

    TEST_CASE("bytes may come one at a time") {
        Pair pair;
        const auto trickle = [](ClaimHandshake& to, const Bytes& bytes) {
            Step last = Step::kWait;
            for (size_t i = 0; i < bytes.size(); ++i) {
                CHECK(last == Step::kWait);
                to.append(std::span(bytes).subspan(i, 1));
                const auto step = to.next();
                REQUIRE(step.has_value());
                last = *step;
            }
            return last;
        };
        CHECK(trickle(pair.far, take_output(pair.near)) == Step::kWait);
        CHECK(trickle(pair.near, take_output(pair.far)) == Step::kMakeClaim);
        pair.near.claim(some_claim(1));
        CHECK(trickle(pair.far, take_output(pair.near)) == Step::kProven);
    }

    TEST_CASE("a connecting side with a wrong secret is refused and receives the reason") {
        Pair pair(random_bytes(), random_bytes());
        const Bytes claim = pair.until_claim();
        CHECK(code_of(pair.far, claim) == Errc::kRefused);
        pair.far.refuse(Errc::kRefused, "wrong secret");
        pair.near.append(take_output(pair.far));
        const auto step = pair.near.next();
        CHECK(step.code() == Errc::kRefused);
        CHECK(step.error().text().find("wrong secret") != std::string::npos);
    }

    TEST_CASE("a peer that loses its place receives another code than a refused one") {
        Pair pair;
        static_cast<void>(pair.until_claim());
        pair.far.refuse(Errc::kDeadline, "come again");
        pair.near.append(take_output(pair.far));
        CHECK(pair.near.next().code() == Errc::kDeadline);
    }

    TEST_CASE("an accepting side with a wrong proof is refused too") {
        const Secret secret = random_bytes();
        Pair pair(secret, secret);
        CHECK(Pair::give(pair.far, pair.until_claim()) == Step::kProven);
        pair.far.claim(some_claim(2));
        Bytes answer = take_output(pair.far);
        answer.back() ^= std::byte{1};
        CHECK(code_of(pair.near, answer) == Errc::kRefused);
    }

    TEST_CASE("a claim changed in any byte is refused") {
        Pair original;
        const Bytes length_of = original.until_claim();
        for (size_t i = 8; i < length_of.size(); ++i) {
            Pair pair;
            Bytes claim = pair.until_claim();
            claim[i] ^= std::byte{0x10};
            CHECK(code_of(pair.far, claim) == Errc::kRefused);
        }
    }

    TEST_CASE("a claim recorded from another handshake is refused") {
        const Secret secret = random_bytes();
        Pair first(secret);
        const Bytes recorded = first.until_claim();
        Pair second(secret);
        static_cast<void>(second.until_claim());
        CHECK(code_of(second.far, recorded) == Errc::kRefused);
    }

    TEST_CASE("a side's own records sent back to it are refused") {
        ClaimHandshake near(Side::kConnecting, random_bytes(), random_bytes());
        CHECK(Pair::give(near, take_output(near)) == Step::kMakeClaim);
        near.claim(some_claim(1));
        CHECK(code_of(near, take_output(near)) == Errc::kRefused);
    }

    TEST_CASE("garbage is recognised by its first bytes") {
        for (const char* const text :
             {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x01 not a record", "SSH-2.0-OpenSSH_9"}) {
            ClaimHandshake far(Side::kAccepting, random_bytes(), random_bytes());
            const auto bytes = std::as_bytes(std::span(text, std::strlen(text)));
            CHECK(code_of(far, {bytes.begin(), bytes.end()}) == Errc::kProtocol);
        }
    }

    TEST_CASE("extreme values in a record header are refused, and a short record is waited for") {
        Pair pair;
        const Bytes hello = take_output(pair.near);

        struct Wrong {
            size_t at;
            size_t bytes;
            uint64_t value;
        };

        for (const Wrong wrong :
             {Wrong{0, 4, 0}, Wrong{0, 4, ~0U}, Wrong{4, 1, 0}, Wrong{4, 1, 1}, Wrong{4, 1, 3},
              Wrong{4, 1, 255}, Wrong{5, 1, 0}, Wrong{5, 1, 2}, Wrong{5, 1, 3}, Wrong{5, 1, 5},
              Wrong{5, 1, 255}, Wrong{6, 2, 0}, Wrong{6, 2, 31}, Wrong{6, 2, 0xffff}}) {
            ClaimHandshake far(Side::kAccepting, random_bytes(), random_bytes());
            Bytes record = hello;
            put(record, wrong.at, wrong.value, wrong.bytes);
            CAPTURE(wrong.at);
            CAPTURE(wrong.value);
            CHECK(code_of(far, record) == Errc::kProtocol);
        }
        ClaimHandshake far(Side::kAccepting, random_bytes(), random_bytes());
        Bytes record = hello;
        put(record, 6, 33, 2);
        CHECK(code_of(far, record) == Errc::kOk);  // one byte is missing
        record.assign(1, std::byte{0});
        CHECK(code_of(far, record) == Errc::kProtocol);
    }

    TEST_CASE("a claim with impossible values is refused though its proof is right") {
        struct Wrong {
            const char* what;
            void (*make)(Claim&);
        };

        for (const Wrong& wrong : {
                 Wrong{"queue pair", [](Claim& c) { c.queue_pair = 1 << 24; }},
                 Wrong{"packet number", [](Claim& c) { c.packet_number = ~0U; }},
                 Wrong{"no mtu", [](Claim& c) { c.mtu = 0; }},
                 Wrong{"mtu", [](Claim& c) { c.mtu = 6; }},
                 Wrong{"link layer", [](Claim& c) { c.link_layer = 0; }},
                 Wrong{"no window", [](Claim& c) { c.window = 0; }},
                 Wrong{"little window", [](Claim& c) { c.window = 3; }},
                 Wrong{"window", [](Claim& c) { c.window = 1 << 16; }},
             }) {
            Pair pair;
            CHECK(Pair::give(pair.far, take_output(pair.near)) == Step::kWait);
            CHECK(Pair::give(pair.near, take_output(pair.far)) == Step::kMakeClaim);
            Claim claim = some_claim(1);
            wrong.make(claim);
            pair.near.claim(claim);
            CAPTURE(wrong.what);
            CHECK(code_of(pair.far, take_output(pair.near)) == Errc::kProtocol);
        }
    }

    TEST_CASE("a Bye has the number of messages sent, and is reported once") {
        Pair pair;
        pair.finish();
        pair.near.bye(0x123456789abcULL);
        const Bytes bye = take_output(pair.near);
        CHECK(Pair::give(pair.far, bye) == Step::kBye);
        CHECK(pair.far.peer_messages() == 0x123456789abcULL);
        CHECK(Pair::give(pair.far, bye) == Step::kWait);
    }

    TEST_CASE("a Bye may follow the Ready at once") {
        Pair pair;
        CHECK(Pair::give(pair.far, pair.until_claim()) == Step::kProven);
        pair.far.claim(some_claim(2));
        CHECK(Pair::give(pair.near, take_output(pair.far)) == Step::kProven);
        pair.near.ready();
        pair.near.bye(0);
        CHECK(Pair::give(pair.far, take_output(pair.near)) == Step::kOpen);
        const auto step = pair.far.next();
        REQUIRE(step.has_value());
        CHECK(*step == Step::kBye);
    }

    TEST_CASE("a valid record out of order is refused") {
        Pair pair;
        const Bytes hello = take_output(pair.near);
        pair.near.bye(1);
        const Bytes bye = take_output(pair.near);
        CHECK(code_of(pair.far, bye) == Errc::kProtocol);
        Pair other;
        CHECK(Pair::give(other.far, hello) == Step::kWait);
        CHECK(code_of(other.far, hello) == Errc::kProtocol);
        Pair open;
        open.finish();
        CHECK(code_of(open.far, hello) == Errc::kProtocol);
    }

    TEST_CASE("a peer's text is made printable before it is logged") {
        Pair pair;
        static_cast<void>(take_output(pair.near));
        pair.far.refuse(Errc::kBusy, "full\x1b[31m\n");
        pair.near.append(take_output(pair.far));
        const auto step = pair.near.next();
        REQUIRE(step.code() == Errc::kBusy);
        CHECK(step.error().text().find("full?[31m?") != std::string::npos);
    }
}
