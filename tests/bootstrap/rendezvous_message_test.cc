// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_message.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/bootstrap/bootstrap.h"
#include "tests/seed.h"

namespace weir::boot {
namespace {

std::vector<RendezvousMessage> one_of_each() {
    return {{.kind = RendezvousKind::kEntry,
             .rank = 0xffffffff,
             .key = std::string(Bootstrap::kKeyBytesMax, 'k'),
             .text = std::string(Bootstrap::kValueBytesMax, '\0')},
            {.kind = RendezvousKind::kCommit, .round = 9},
            {.kind = RendezvousKind::kWaiting, .text = ""},
            {.kind = RendezvousKind::kRelease, .round = 1},
            {.kind = RendezvousKind::kFailed, .text = std::string(kRendezvousTextBytesMax, 'x')},
            {.kind = RendezvousKind::kContact, .text = "shm:abc"},
            {.kind = RendezvousKind::kContact,
             .text = std::string(kRendezvousTextBytesMax, 'x'),
             .secret = transport::Secret{std::byte{7}}}};
}

/// The only record of these bytes.
Result<RendezvousMessage> read(const std::vector<std::byte>& bytes) {
    transport::RecordReader reader(kRendezvousProtocol, kRendezvousBodyBytesMax);
    reader.append(bytes);
    WEIR_ASSIGN(const auto record, reader.next());
    if (!record) return Error(Errc::kParse, "not whole");
    return decode_message(*record);
}

}  // namespace

TEST_SUITE("bootstrap rendezvous message") {
    TEST_CASE("every kind comes out as it went in") {
        for (const RendezvousMessage& message : one_of_each()) {
            const auto again = read(encode(message));
            REQUIRE(again);
            CHECK(*again == message);
        }
    }

    TEST_CASE("a body with a byte more or less is refused") {
        for (const RendezvousMessage& message : one_of_each()) {
            const std::vector<std::byte> good = encode(message);
            for (const int change : {-1, 1}) {
                std::vector<std::byte> bad = good;
                bad.resize(good.size() + static_cast<size_t>(change));
                const size_t body_bytes = bad.size() - transport::kRecordHeaderBytes;
                bad[6] = static_cast<std::byte>(body_bytes & 0xff);
                bad[7] = static_cast<std::byte>(body_bytes >> 8);
                CHECK(read(bad).code() == Errc::kProtocol);
            }
        }
    }

    TEST_CASE("a kind that there is not is refused") {
        std::vector<std::byte> bytes = encode({.kind = RendezvousKind::kCommit, .round = 1});
        for (const int kind : {0, 1, 4, 15, 22, 255}) {
            bytes[5] = static_cast<std::byte>(kind);
            CHECK(read(bytes).code() == Errc::kProtocol);
        }
    }

    TEST_CASE("a hello comes out as it went in, and nothing else does") {
        const RendezvousHello hello{.rank = 3, .size = 7, .secured = true};
        std::vector<std::byte> bytes = hello.encode();
        REQUIRE(RendezvousHello::decode(bytes).has_value());
        CHECK(*RendezvousHello::decode(bytes) == hello);
        for (size_t size = 0; size < bytes.size(); ++size)
            CHECK_FALSE(RendezvousHello::decode(std::span(bytes).first(size)).has_value());
        const auto with = [&](size_t at, int value) {
            std::vector<std::byte> changed = bytes;
            changed[at] = static_cast<std::byte>(value);
            return RendezvousHello::decode(changed);
        };
        constexpr size_t kRoleAt = 0;
        constexpr size_t kSecuredAt = 9;
        CHECK_FALSE(with(kSecuredAt, 2).has_value());
        CHECK_FALSE(with(kRoleAt, 0).has_value());
        CHECK_FALSE(with(kRoleAt, 3).has_value());
        CHECK(with(kRoleAt, 2)->role == RendezvousHello::Role::kNewcomer);
        bytes.push_back({});
        CHECK_FALSE(RendezvousHello::decode(bytes).has_value());
    }

    TEST_CASE("random damage never gets a reader into trouble") {
        WEIR_TEST_SEED(seed, 20240601);
        Random random(seed);
        const auto messages = one_of_each();
        for (int i = 0; i < 20'000; ++i) {
            std::vector<std::byte> bytes = encode(messages[random.below(messages.size())]);
            for (uint64_t hits = 1 + random.below(4); hits > 0; --hits) {
                bytes[random.below(std::min<size_t>(bytes.size(), 40))] =
                    static_cast<std::byte>(random());
            }
            if (random.below(2) == 0) bytes.resize(random.below(bytes.size() + 1));
            const auto message = read(bytes);
            if (message) CHECK(message->text.size() <= kRendezvousTextBytesMax);
        }
    }
}

}  // namespace weir::boot
