// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/messages.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

using namespace consensus;

std::vector<std::byte> some_bytes(size_t count, uint8_t value = 7) {
    return std::vector<std::byte>(count, std::byte{value});
}

std::vector<Message> one_of_each() {
    const Entry members{1, EntryKind::kMembers, some_bytes(24)};
    const Entry command{2, EntryKind::kCommand, some_bytes(3)};
    const Entry barrier{3, EntryKind::kBarrier, {}};
    return {AskVote{5, 4, 3, true},
            AskVote{1, 0, 0, false},
            Vote{5, true, true, 4},
            Append{3, 0, 0, 1, {members, command, barrier}},
            Append{3, 9, 2, 8, {}},
            Appended{3, 2, 1},
            Install{4, {100, 3, some_bytes(5)}},
            AskVote{5, 4, 3, false, true},
            TakeOver{4, 9, 3}};
}

}  // namespace

TEST_SUITE("messages") {
    TEST_CASE("each message arrives as it was sent, and no part of it does") {
        for (const Message& message : one_of_each()) {
            const std::vector<std::byte> bytes = encode_message(message);
            const std::optional<Message> decoded = decode_message(bytes);
            REQUIRE(decoded);
            CHECK(*decoded == message);
            std::vector<std::byte> longer = bytes;
            longer.push_back(std::byte{0});
            // A snapshot is all that is left of its message.
            if (!std::holds_alternative<Install>(message)) CHECK_FALSE(decode_message(longer));
            const size_t fixed = std::holds_alternative<Install>(message) ? 25 : bytes.size();
            for (size_t size = 0; size < fixed; ++size)
                CHECK_FALSE(decode_message(std::span(bytes).first(size)));
        }
    }

    TEST_CASE("what no replica sends is refused") {
        const Entry members{1, EntryKind::kMembers, some_bytes(24)};
        const Entry command{2, EntryKind::kCommand, some_bytes(3)};
        const auto is_refused = [](const Message& message) {
            return !decode_message(encode_message(message));
        };
        CHECK(is_refused(AskVote{0, 4, 3, true}));
        CHECK(is_refused(AskVote{kNumberMax, 4, 3, true}));
        CHECK(is_refused(AskVote{5, 4, 0, true}));
        CHECK(is_refused(AskVote{5, 0, 1, true}));
        CHECK(is_refused(AskVote{5, 4, 3, true, true}));  // a trial, though it was named to lead
        CHECK(is_refused(TakeOver{0, 9, 3}));
        CHECK(is_refused(TakeOver{2, 9, 3}));              // later than its leader
        CHECK(is_refused(Append{1, 5, 1, 1, {command}}));  // later than its leader
        CHECK(is_refused(Append{3, 5, 3, 1, {command}}));  // earlier than what is before
        CHECK(is_refused(Append{3, 5, 1, 1, {members}}));  // not the first
        CHECK(is_refused(Append{3, 0, 0, 1, {command}}));  // the first names the members
        CHECK(is_refused(Append{3, 5, 4, 1, {}}));         // later than its leader
        CHECK(is_refused(Append{3, 5, 1, 1, {{0, EntryKind::kCommand, {}}}}));
        CHECK(is_refused(Append{3, 5, 1, 1, {{2, static_cast<EntryKind>(9), {}}}}));
        CHECK(is_refused(
            Append{3, 5, 1, 1, {{2, EntryKind::kCommand, some_bytes(kEntryBytesMax + 1)}}}));
        CHECK(is_refused(Appended{3, kNumberMax, 1}));
        CHECK(is_refused(Install{4, {0, 0, {}}}));
        CHECK(is_refused(Install{4, {7, 5, {}}}));
    }

    TEST_CASE("any bytes are refused or decoded, and then encoded alike") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        for (const Message& message : one_of_each()) {
            const std::vector<std::byte> bytes = encode_message(message);
            for (int i = 0; i < 2000; ++i) {
                std::vector<std::byte> changed = bytes;
                changed[random.below(changed.size())] ^= std::byte(1U << random.below(8));
                const std::optional<Message> decoded = decode_message(changed);
                if (decoded) CHECK(encode_message(*decoded) == changed);
            }
        }
    }
}

}  // namespace weir::testing
