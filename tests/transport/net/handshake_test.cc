// SPDX-License-Identifier: Apache-2.0
#include "transport/net/handshake.h"

#include <algorithm>
#include <string>
#include <utility>

#include <doctest/doctest.h>

namespace weir::transport {
namespace {

using Step = Handshake::Step;
using Bytes = std::vector<std::byte>;

constexpr Protocol kProtocol{"a test", 0x44434241, 1};
constexpr Protocol kNext{"a test", 0x44434241, 2};
constexpr Protocol kOther{"another test", 0x44434241, 1};

Bytes bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes take_output(Handshake& side) {
    return std::exchange(side.output(), {});
}

/// Delivers records. Returns the last step, or the first error.
Result<Step> give(Handshake& to, const Bytes& bytes, const Protocol& protocol = kProtocol) {
    RecordReader reader(protocol, Handshake::kBodyBytesMax);
    reader.append(bytes);
    Step last = Step::kWait;
    for (;;) {
        WEIR_ASSIGN(const auto record, reader.next());
        if (!record) return last;
        WEIR_ASSIGN(last, to.take(*record));
    }
}

Step good(Handshake& to, const Bytes& bytes) {
    const auto step = give(to, bytes);
    REQUIRE_MESSAGE(step.has_value(), step.error().message());
    return *step;
}

struct Pair {
    explicit Pair(const Secret& secret = random_bytes()) : Pair(secret, secret) {}

    Pair(const Secret& near_secret, const Secret& far_secret,
         const Protocol& far_protocol = kProtocol)
        : near(kProtocol, Side::kConnecting, near_secret, random_bytes()),
          far(far_protocol, Side::kAccepting, far_secret, random_bytes()) {}

    /// Runs up to the connecting side's data, which are returned and not delivered.
    Bytes until_payload(std::string_view payload = "near") {
        CHECK(good(far, take_output(near)) == Step::kWait);
        CHECK(good(near, take_output(far)) == Step::kSendPayload);
        near.send_payload(bytes_of(payload));
        return take_output(near);
    }

    Handshake near;
    Handshake far;
};

}  // namespace

TEST_SUITE("net handshake") {
    TEST_CASE("two sides with the same secret receive each other's data") {
        Pair pair;
        CHECK(good(pair.far, pair.until_payload("I am near")) == Step::kProven);
        CHECK(text_of(pair.far.peer_payload()) == "I am near");
        pair.far.send_payload(bytes_of(""));
        CHECK(good(pair.near, take_output(pair.far)) == Step::kProven);
        CHECK(pair.near.peer_payload().empty());
        CHECK_FALSE(pair.near.is_open());
        pair.near.ready();
        CHECK(pair.near.is_open());
        CHECK(good(pair.far, take_output(pair.near)) == Step::kOpen);
        CHECK(pair.far.is_open());
    }

    TEST_CASE("a peer with a wrong secret is refused on either side") {
        Pair pair(random_bytes(), random_bytes());
        CHECK(give(pair.far, pair.until_payload()).code() == Errc::kRefused);
        CHECK_FALSE(pair.far.was_refused());
        CHECK(text_of(pair.far.peer_payload()) == "near");  // not proven: for error messages only
        pair.far.refuse(Errc::kRefused, "wrong secret");
        const auto step = give(pair.near, take_output(pair.far));
        CHECK(step.code() == Errc::kRefused);
        CHECK(pair.near.was_refused());
        CHECK(step.error().text().find("wrong secret") != std::string::npos);
    }

    TEST_CASE("data and proofs with any bit changed are refused by both sides") {
        for (size_t i = 0; i < 8 * (4 + sizeof(Proof)); ++i) {
            Pair pair;
            const std::byte bit{static_cast<uint8_t>(1U << (i % 8))};
            Bytes near = pair.until_payload();
            Bytes changed = near;
            changed[kRecordHeaderBytes + i / 8] ^= bit;
            Pair other;
            CHECK(give(pair.far, changed).code() == Errc::kRefused);
            CHECK(good(other.far, other.until_payload()) == Step::kProven);
            other.far.send_payload(bytes_of("far!"));
            Bytes far = take_output(other.far);
            far[kRecordHeaderBytes + i / 8] ^= bit;
            CHECK(give(other.near, far).code() == Errc::kRefused);
        }
    }

    TEST_CASE("data of another handshake with the same secret are refused") {
        const Secret secret = random_bytes();
        Pair first(secret);
        const Bytes recorded = first.until_payload();
        Pair second(secret);
        static_cast<void>(second.until_payload());
        CHECK(give(second.far, recorded).code() == Errc::kRefused);
    }

    TEST_CASE("a reply is refused by a side that sent other data than it was made for") {
        // The nonces of both handshakes are equal: only the data differ.
        const Secret secret = random_bytes();
        const Nonce near_nonce = random_bytes();
        const Nonce far_nonce = random_bytes();
        const auto answer_to = [&](std::string_view payload, Handshake& near) {
            Handshake far(kProtocol, Side::kAccepting, secret, far_nonce);
            CHECK(good(far, take_output(near)) == Step::kWait);
            CHECK(good(near, take_output(far)) == Step::kSendPayload);
            near.send_payload(bytes_of(payload));
            CHECK(good(far, take_output(near)) == Step::kProven);
            far.send_payload(bytes_of("welcome"));
            return take_output(far);
        };
        Handshake one(kProtocol, Side::kConnecting, secret, near_nonce);
        Handshake other(kProtocol, Side::kConnecting, secret, near_nonce);
        const Bytes to_one = answer_to("rank 1", one);
        static_cast<void>(answer_to("rank 2", other));
        CHECK(give(other, to_one).code() == Errc::kRefused);
        CHECK(good(one, to_one) == Step::kProven);
    }

    TEST_CASE("a proof made for another protocol, or another version of this, is refused") {
        for (const Protocol& theirs : {kOther, kNext}) {
            const Secret secret = random_bytes();
            Pair pair(secret, secret, theirs);
            // Corrects the version in the headers, so that only the proof can be wrong.
            const auto as = [](Bytes bytes, uint8_t version) {
                bytes[4] = std::byte{version};
                return bytes;
            };
            CHECK(give(pair.far, as(take_output(pair.near), theirs.version), theirs).has_value());
            CHECK(good(pair.near, as(take_output(pair.far), kProtocol.version)) ==
                  Step::kSendPayload);
            pair.near.send_payload({});
            CHECK(give(pair.far, as(take_output(pair.near), theirs.version), theirs).code() ==
                  Errc::kRefused);
        }
    }

    TEST_CASE("a side's own records sent back to it are refused") {
        Handshake near(kProtocol, Side::kConnecting, random_bytes(), random_bytes());
        CHECK(good(near, take_output(near)) == Step::kSendPayload);
        near.send_payload(bytes_of("mirror"));
        CHECK(give(near, take_output(near)).code() == Errc::kRefused);
    }

    TEST_CASE("records out of order and unknown ones are refused in every state") {
        const auto record = [](uint8_t type, size_t body_bytes) {
            Bytes bytes;
            append_record(bytes, kProtocol, type, Bytes(body_bytes));
            return bytes;
        };
        for (const uint8_t type : std::initializer_list<uint8_t>{0, 2, 3, 5, 15, 16, 255}) {
            for (const size_t body_bytes : {0U, 1U, 31U, 32U, 33U}) {
                CAPTURE(static_cast<int>(type));
                CAPTURE(body_bytes);
                Pair fresh;
                CHECK(give(fresh.far, record(type, body_bytes)).code() == Errc::kProtocol);
            }
        }
        for (const size_t body_bytes : {0U, 31U, 33U}) {
            Pair fresh;
            CHECK(give(fresh.far, record(1, body_bytes)).code() == Errc::kProtocol);
        }
        Pair twice;
        const Bytes hello = take_output(twice.near);
        CHECK(good(twice.far, hello) == Step::kWait);
        CHECK(give(twice.far, hello).code() == Errc::kProtocol);
        Pair early;
        CHECK(good(early.far, early.until_payload()) == Step::kProven);
        CHECK(give(early.far, record(3, 0)).code() ==
              Errc::kProtocol);  // Ready before the accepting side's data
        Pair open;
        CHECK(good(open.far, open.until_payload()) == Step::kProven);
        open.far.send_payload({});
        CHECK(give(open.far, record(3, 1)).code() == Errc::kProtocol);
        CHECK(good(open.far, record(3, 0)) == Step::kOpen);
        for (const uint8_t type : std::initializer_list<uint8_t>{1, 2, 3, 4})
            CHECK(give(open.far, record(type, 2)).code() == Errc::kProtocol);
    }

    TEST_CASE("a peer's text is made printable and cut off before it is logged") {
        Pair pair;
        static_cast<void>(take_output(pair.near));
        pair.far.refuse(Errc::kBusy, "full\x1b[31m\n" + std::string(100'000, 'x'));
        const auto step = give(pair.near, take_output(pair.far));
        REQUIRE(step.code() == Errc::kBusy);
        CHECK(step.error().text().find("full?[31m?") != std::string::npos);
        CHECK(step.error().text().size() < 600);
    }

    TEST_CASE("an error code that no peer may send becomes kRefused") {
        Pair pair;
        static_cast<void>(take_output(pair.near));
        pair.far.refuse(Errc::kOk, "");
        CHECK(give(pair.near, take_output(pair.far)).code() == Errc::kRefused);
    }
}

}  // namespace weir::transport
