// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/record_message.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir {
namespace {

RecordMessage rows_record(std::span<const std::byte> bytes) {
    RecordMessage record;
    record.table = 3;
    record.row_count = 2;
    record.keys = bytes.first(16);
    record.values = bytes.subspan(16, 8);
    record.state = bytes.subspan(24, 24);
    record.times = {{7, {0, 99}, 12}, {8, {100, ~uint64_t{0}}, 1}};
    record.clocks = {{{5, 50}, {{1, {{5, 9}, {20, 3}}}, {4, {{5, 1}}}}}};
    record.iterations = {{{5, 20}, 6, {{5, Errc::kNoMemory, 2}}}, {{21, 50}, 4, {}}};
    return record;
}

void check_same(const RecordMessage& a, const RecordMessage& b) {
    CHECK(a.kind == b.kind);
    CHECK(a.is_range == b.is_range);
    CHECK(a.table == b.table);
    CHECK(a.row_count == b.row_count);
    CHECK(a.first_key == b.first_key);
    CHECK(a.list == b.list);
    CHECK(a.is_known == b.is_known);
    CHECK(std::ranges::equal(a.keys, b.keys));
    CHECK(std::ranges::equal(a.values, b.values));
    CHECK(std::ranges::equal(a.state, b.state));
    CHECK(a.segments == b.segments);
    CHECK(a.times == b.times);
    CHECK(a.clocks == b.clocks);
    CHECK(a.iterations == b.iterations);
}

TEST_SUITE("record_message") {
    TEST_CASE("what is encoded is decoded") {
        const std::vector<std::byte> bytes(64, std::byte{5});
        const RecordMessage list = rows_record(bytes);
        RecordMessage range = list;
        range.is_range = true;
        range.first_key = 1000;
        range.keys = {};
        RecordMessage plain = list;
        plain.times.clear();
        plain.clocks.clear();
        plain.iterations.clear();
        RecordMessage begin;
        begin.kind = RecordMessage::Kind::kBegin;
        begin.segments = {{{0, 9}, 4}, {{50, 59}, 5}};
        RecordMessage end = begin;
        end.kind = RecordMessage::Kind::kEnd;
        RecordMessage numbered = list;
        numbered.list = 7;
        RecordMessage known = numbered;
        known.is_known = true;
        known.keys = {};
        RecordMessage forget;
        forget.kind = RecordMessage::Kind::kForgetLists;
        for (const RecordMessage& record :
             {list, range, plain, begin, end, numbered, known, forget}) {
            const std::vector<std::byte> encoded = record.encode();
            const auto decoded = RecordMessage::decode(encoded);
            REQUIRE(decoded.has_value());
            check_same(record, *decoded);
        }
        const FollowMessage follow{3, 9};
        CHECK(FollowMessage::decode(follow.encode())->number == 9);
    }

    TEST_CASE("what is cut short, too long, or of two kinds is refused") {
        const std::vector<std::byte> bytes(64, std::byte{5});
        const std::vector<std::byte> encoded = rows_record(bytes).encode();
        for (size_t size = 0; size < encoded.size(); ++size)
            CHECK_FALSE(RecordMessage::decode(std::span(encoded).first(size)).has_value());
        std::vector<std::byte> longer = encoded;
        longer.push_back(std::byte{0});
        CHECK_FALSE(RecordMessage::decode(longer).has_value());
        RecordMessage both = rows_record(bytes);
        both.segments = {{{0, 9}, 4}};
        CHECK_FALSE(RecordMessage::decode(both.encode()).has_value());
        both.kind = RecordMessage::Kind::kBegin;
        CHECK_FALSE(RecordMessage::decode(both.encode()).has_value());
        RecordMessage empty;
        empty.kind = RecordMessage::Kind::kEnd;
        CHECK_FALSE(RecordMessage::decode(empty.encode()).has_value());
        RecordMessage forget = both;
        forget.kind = RecordMessage::Kind::kForgetLists;
        CHECK_FALSE(RecordMessage::decode(forget.encode()).has_value());
        RecordMessage known = rows_record(bytes);
        known.is_known = true;  // by no number
        known.keys = {};
        CHECK_FALSE(RecordMessage::decode(known.encode()).has_value());
        known.list = 1;
        CHECK(RecordMessage::decode(known.encode()).has_value());
        known.keys = std::span(bytes).first(16);
        CHECK_FALSE(RecordMessage::decode(known.encode()).has_value());
        known.keys = known.values = known.state = {};
        known.row_count = 0;
        CHECK_FALSE(RecordMessage::decode(known.encode()).has_value());
    }

    TEST_CASE("rows that are lent are read where they lie") {
        std::vector<std::byte> bytes(64);
        for (size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<std::byte>(i);
        RecordMessage known = rows_record(bytes);
        known.list = 9;
        known.is_known = true;
        known.keys = {};
        RecordMessage plain = known;
        plain.times.clear();
        plain.clocks.clear();
        plain.iterations.clear();
        for (const RecordMessage& record : {rows_record(bytes), known, plain}) {
            std::vector<std::byte> rows(record.rows_bytes());
            std::vector<std::byte> encoded = record.encode_lent(rows);
            RecordMessage::set_lent_at(encoded, {4096, rows.size(), 77});
            const auto at = RecordMessage::lent_at(encoded);
            REQUIRE(at.has_value());
            CHECK(at->address == 4096);
            CHECK(at->length_bytes == rows.size());
            CHECK(at->key == 77);
            const auto decoded = RecordMessage::decode(encoded, rows);
            REQUIRE(decoded.has_value());
            check_same(record, *decoded);
            CHECK(decoded->values.data() >= rows.data());
            CHECK(decoded->encode() == record.encode());
            for (const size_t size : {size_t{0}, rows.size() - 1})
                CHECK_FALSE(RecordMessage::decode(encoded, std::span(rows).first(size)));
            for (size_t size = 0; size < encoded.size(); ++size)
                CHECK_FALSE(RecordMessage::decode(std::span(encoded).first(size), rows));
            CHECK_FALSE(RecordMessage::lent_at(record.encode()));
            CHECK_FALSE(RecordMessage::decode(record.encode(), rows));
        }
    }

    TEST_CASE("rows that are too many for one record are cut into several") {
        const std::vector<std::byte> state(RecordMessage::kBytesMax + (size_t{2} << 20));
        const std::vector<std::byte> values(state.size() / 16);
        RecordMessage record;
        record.is_range = true;
        record.first_key = 100;
        record.row_count = 1000;
        const size_t row_bytes = values.size() / record.row_count;
        record.values = std::span(values).first(row_bytes * record.row_count);
        record.state = std::span(state).first(16 * row_bytes * record.row_count);
        CHECK_FALSE(RecordMessage::decode(record.encode()));
        const uint64_t step = record.rows_to_cut();
        CHECK(step * row_bytes * 17 <= RecordMessage::kCutBytes);
        const RecordMessage last = record.rows_from(1000 - step, step);
        CHECK(last.first_key == 1100 - step);
        CHECK(last.values.data() + last.values.size() ==
              record.values.data() + record.values.size());
        CHECK(last.state.data() + last.state.size() == record.state.data() + record.state.size());
        const std::vector<std::byte> bytes = last.encode();
        CHECK(RecordMessage::decode(bytes));
    }

    TEST_CASE("a numbered list is cut where it is cut when it is known") {
        const std::vector<std::byte> keys(8 * (size_t{1} << 20));
        RecordMessage list;
        list.row_count = keys.size() / 8;
        list.keys = keys;
        list.values = std::span(keys).first(4 * list.row_count);
        list.list = 10;
        RecordMessage known = list;
        known.is_known = true;
        known.keys = {};
        const uint64_t step = list.rows_to_cut();
        REQUIRE(known.rows_to_cut() == step);
        CHECK(list.part_count() == known.part_count());
        const RecordMessage last = known.rows_from(step * (list.part_count() - 1), 1);
        CHECK(last.is_known);
        CHECK(last.list == 10 + list.part_count() - 1);
        CHECK(list.rows_from(step, step).list == 11);
        CHECK(list.rows_from(step, step).keys.size() == 8 * step);
    }

    TEST_CASE("changed bytes are refused, or mean what they say") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        const std::vector<std::byte> bytes(64, std::byte{5});
        const std::vector<std::byte> encoded = rows_record(bytes).encode();
        for (int i = 0; i < 20'000; ++i) {
            std::vector<std::byte> changed = encoded;
            for (uint64_t n = 1 + random.below(3); n > 0; --n)
                changed[random.below(changed.size())] = static_cast<std::byte>(random());
            const auto decoded = RecordMessage::decode(changed);
            if (decoded) REQUIRE(decoded->encode() == changed);
        }
    }
}

}  // namespace
}  // namespace weir
