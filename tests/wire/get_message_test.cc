// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/get_message.h"

#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir {
namespace {

template <class Message>
void check_beginnings(const std::vector<std::byte>& bytes, size_t least) {
    for (size_t size = 0; size < bytes.size(); ++size) {
        const auto some = Message::decode(std::span(bytes).first(size));
        const bool is_whole = size >= least && (size - least) % sizeof(uint64_t) == 0;
        CHECK(some.has_value() == is_whole);  // with fewer keys
    }
}

GetReply reply_of_three() {
    GetReply reply;
    reply.type = ValueType::kUInt32;
    reply.width = 2;
    reply.why = "gone";
    reply.states = {KeyState::kThere, KeyState::kUnknown, KeyState::kInitial};
    reply.values.resize(3 * reply.row_bytes(), std::byte{7});
    return reply;
}

}  // namespace

TEST_SUITE("get_message") {
    TEST_CASE("questions are read as they were written, and no beginning of one is taken for it") {
        const GetMessage asked{.table = "weights", .keys = {7, 3, ~uint64_t{0}}};
        const auto read = GetMessage::decode(asked.encode());
        REQUIRE(read);
        CHECK(read->table == asked.table);
        CHECK(read->keys == asked.keys);
        check_beginnings<GetMessage>(asked.encode(), 4 + 7 + 8);
        const ShardGetMessage relayed{.table = 9, .keys = {5, 6}};
        const auto taken = ShardGetMessage::decode(relayed.encode());
        REQUIRE(taken);
        CHECK(taken->table == 9);
        CHECK(taken->keys == relayed.keys);
        check_beginnings<ShardGetMessage>(relayed.encode(), 4 + 8);
    }

    TEST_CASE("no keys, too many keys and long names are refused") {
        CHECK_FALSE(GetMessage::decode(GetMessage{.table = "t", .keys = {}}.encode()));
        CHECK_FALSE(ShardGetMessage::decode(ShardGetMessage{.table = 1, .keys = {}}.encode()));
        std::vector<uint64_t> keys(GetLimits::kKeysMax);
        CHECK(GetMessage::decode(GetMessage{.table = "t", .keys = keys}.encode()));
        CHECK(ShardGetMessage::decode(ShardGetMessage{.table = 1, .keys = keys}.encode()));
        keys.push_back(0);
        CHECK_FALSE(GetMessage::decode(GetMessage{.table = "t", .keys = keys}.encode()));
        CHECK_FALSE(ShardGetMessage::decode(ShardGetMessage{.table = 1, .keys = keys}.encode()));
        CHECK_FALSE(
            GetMessage::decode(GetMessage{.table = std::string(257, 'a'), .keys = {1}}.encode()));
    }

    TEST_CASE("a reply is read as it was written; of a long reason the beginning") {
        GetReply reply = reply_of_three();
        reply.why = std::string(1000, 'x');
        const auto read = GetReply::decode(reply.encode());
        REQUIRE(read);
        CHECK(read->type == reply.type);
        CHECK(read->width == 2);
        CHECK(read->why == std::string(GetLimits::kWhyBytesMax, 'x'));
        CHECK(read->states == reply.states);
        CHECK(read->values == reply.values);
        std::vector<std::byte> bytes = reply.encode();
        for (size_t size = 0; size < bytes.size(); ++size)
            CHECK_FALSE(GetReply::decode(std::span(bytes).first(size)));
        bytes.push_back({});
        CHECK_FALSE(GetReply::decode(bytes));
    }

    TEST_CASE("replies that no manager sends are refused") {
        const auto refuses = [](auto change) {
            GetReply reply = reply_of_three();
            change(reply);
            return !GetReply::decode(reply.encode());
        };
        CHECK(refuses([](GetReply& r) { r.type = static_cast<ValueType>(6); }));
        CHECK(refuses([](GetReply& r) { r.width = 0; }));
        CHECK(refuses([](GetReply& r) { r.width = ~0U; }));
        CHECK(refuses([](GetReply& r) { r.states[1] = static_cast<KeyState>(3); }));
        CHECK(refuses([](GetReply& r) { r.states.push_back(KeyState::kThere); }));
        CHECK(refuses([](GetReply& r) { r.states = {}, r.values = {}; }));
        CHECK_FALSE(refuses([](GetReply&) {}));
    }

    TEST_CASE("whatever bytes change, a reply is refused or has as many rows as states") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        const std::vector<std::byte> bytes = reply_of_three().encode();
        for (int i = 0; i < 20'000; ++i) {
            std::vector<std::byte> changed = bytes;
            for (uint64_t flips = 1 + random.below(3); flips > 0; --flips)
                changed[random.below(changed.size())] = static_cast<std::byte>(random.below(256));
            const auto read = GetReply::decode(changed);
            if (read) CHECK(read->values.size() == read->states.size() * read->row_bytes());
        }
    }
}

}  // namespace weir
