// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous_message.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/bootstrap/bootstrap.h"
#include "tests/seed.h"

namespace weir::boot {
namespace {

std::vector<RendezvousMessage> one_of_each() {
    RendezvousMessage hello{.kind = RendezvousKind::kHello, .rank = 3, .size = 7, .secured = true};
    hello.nonce.fill(std::byte{0x11});
    hello.text = "host 1234";
    RendezvousMessage challenge{.kind = RendezvousKind::kChallenge, .secured = true};
    challenge.nonce.fill(std::byte{0x22});
    challenge.proof.fill(std::byte{0x33});
    RendezvousMessage proof{.kind = RendezvousKind::kProof};
    proof.proof.fill(std::byte{0x44});
    return {hello,
            challenge,
            proof,
            {.kind = RendezvousKind::kWelcome},
            {.kind = RendezvousKind::kRefused, .text = "no"},
            {.kind = RendezvousKind::kEntry,
             .rank = 0xffffffff,
             .key = std::string(Bootstrap::kKeyBytesMax, 'k'),
             .text = std::string(Bootstrap::kValueBytesMax, '\0')},
            {.kind = RendezvousKind::kCommit, .round = 9},
            {.kind = RendezvousKind::kWaiting, .text = ""},
            {.kind = RendezvousKind::kRelease, .round = 1, .local_rank = 2},
            {.kind = RendezvousKind::kFailed, .text = std::string(kRendezvousTextBytesMax, 'x')}};
}

bool same(const RendezvousMessage& a, const RendezvousMessage& b) {
    return a.kind == b.kind && a.rank == b.rank && a.size == b.size && a.round == b.round &&
           a.local_rank == b.local_rank && a.secured == b.secured && a.nonce == b.nonce &&
           a.proof == b.proof && a.key == b.key && a.text == b.text;
}

RendezvousReader reader_of(std::string_view bytes) {
    RendezvousReader reader;
    reader.set_body_bytes_max(kRendezvousBodyBytesMax);
    reader.feed(bytes);
    return reader;
}

}  // namespace

TEST_SUITE("bootstrap rendezvous message") {
    TEST_CASE("every kind comes out as it went in, byte by byte and all at once") {
        std::string stream;
        for (const RendezvousMessage& message : one_of_each())
            stream += encode(message);
        RendezvousReader whole = reader_of(stream);
        RendezvousReader slow = reader_of("");
        size_t fed = 0;
        for (const RendezvousMessage& message : one_of_each()) {
            const auto read = whole.next();
            REQUIRE(read);
            REQUIRE(read->has_value());
            CHECK(same(**read, message));
            for (;;) {
                const auto trickled = slow.next();
                REQUIRE(trickled);
                if (trickled->has_value()) {
                    CHECK(same(**trickled, message));
                    break;
                }
                REQUIRE(fed < stream.size());
                slow.feed(stream.substr(fed++, 1));
            }
        }
        CHECK_FALSE(whole.next()->has_value());
    }

    TEST_CASE("a body with a byte more or less is refused") {
        for (const RendezvousMessage& message : one_of_each()) {
            const std::string good = encode(message);
            for (const int change : {-1, 1}) {
                std::string bad = good;
                bad.resize(good.size() + static_cast<size_t>(change));
                if (bad.size() < kRendezvousHeaderBytes) continue;
                const size_t body_bytes = bad.size() - kRendezvousHeaderBytes;
                bad[8] = static_cast<char>(body_bytes & 0xff);
                bad[9] = static_cast<char>(body_bytes >> 8);
                CHECK_FALSE(reader_of(bad).next());
            }
        }
    }

    TEST_CASE("another program, version, kind or an absurd length is refused at once") {
        const std::string good = encode({.kind = RendezvousKind::kCommit, .round = 1});
        CHECK_FALSE(reader_of("G").next());
        CHECK_FALSE(reader_of("GET / HTTP/1.1\r\n\r\n").next());
        CHECK_FALSE(reader_of("WRDX").next());
        for (const size_t at : {4, 5, 6, 7, 9, 10, 11}) {
            std::string bad = good;
            bad[at] = static_cast<char>(0xff);
            CHECK_FALSE(reader_of(bad).next());
        }
        std::string zero_kind = good;
        zero_kind[5] = 0;
        CHECK_FALSE(reader_of(zero_kind).next());
    }

    TEST_CASE("a stranger may not send more than a greeting") {
        RendezvousReader reader;
        reader.feed(
            encode({.kind = RendezvousKind::kEntry, .key = "k", .text = std::string(600, 'x')}));
        CHECK_FALSE(reader.next());
    }

    TEST_CASE("random damage never gets a reader into trouble") {
        WEIR_TEST_SEED(seed, 20240601);
        Random random(seed);
        const auto messages = one_of_each();
        for (int i = 0; i < 20'000; ++i) {
            std::string bytes = encode(messages[random.below(messages.size())]);
            for (uint64_t hits = 1 + random.below(4); hits > 0; --hits) {
                bytes[random.below(std::min<size_t>(bytes.size(), 40))] =
                    static_cast<char>(random());
            }
            if (random.below(2) == 0) bytes.resize(random.below(bytes.size() + 1));
            RendezvousReader reader = reader_of(bytes);
            for (auto next = reader.next(); next && next->has_value(); next = reader.next()) {
                CHECK((**next).text.size() <= kRendezvousTextBytesMax);
            }
        }
    }

    TEST_CASE("a proof depends on the secret, the side, both nonces and the seat") {
        const RendezvousMessage hello = one_of_each()[0];
        transport::Secret secret{};
        const transport::Nonce nonce{};
        const auto base = rendezvous_proof(secret, transport::Side::kConnecting, hello, nonce);
        CHECK(base == rendezvous_proof(secret, transport::Side::kConnecting, hello, nonce));
        CHECK(base != rendezvous_proof(secret, transport::Side::kAccepting, hello, nonce));
        RendezvousMessage other_rank = hello;
        other_rank.rank = 4;
        CHECK(base != rendezvous_proof(secret, transport::Side::kConnecting, other_rank, nonce));
        RendezvousMessage other_nonce = hello;
        other_nonce.nonce[0] = std::byte{0};
        CHECK(base != rendezvous_proof(secret, transport::Side::kConnecting, other_nonce, nonce));
        CHECK(base != rendezvous_proof(secret, transport::Side::kConnecting, hello,
                                       transport::random_bytes()));
        secret[31] = std::byte{1};
        CHECK(base != rendezvous_proof(secret, transport::Side::kConnecting, hello, nonce));
    }
}

}  // namespace weir::boot
