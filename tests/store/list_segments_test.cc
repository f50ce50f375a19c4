// SPDX-License-Identifier: Apache-2.0
/// \file
/// In which segments the lists of pushes have keys, as the table that looks up their rows finds them.

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/store/made_table.h"

namespace weir::test {

TEST_SUITE("list_segments") {
    static std::vector<uint64_t> keys_from(uint64_t first, size_t count = kRememberedKeysMin) {
        std::vector<uint64_t> keys(count);
        std::iota(keys.begin(), keys.end(), first);
        return keys;
    }

    /// Keys whose positions are themselves times 2^54.
    static TableSchema dense_schema() {
        return {.id = 1, .name = "t", .layout = Layout::kDense, .key_count = 1024};
    }

    static const SegmentList kQuarters(7, {{0, (uint64_t{1} << 62) - 1},
                                           {uint64_t{1} << 62, (uint64_t{2} << 62) - 1},
                                           {uint64_t{3} << 62, ~uint64_t{0}}});

    TEST_CASE(
        "a list that came in full is known by its hash, with its segments of that generation") {
        HeapMemory memory;
        const Made table = made(dense_schema(), memory);
        const auto keys = keys_from(250);
        const ListId id = list_id(keys);
        const RowList full = *table->rows_for_push(keys, &kQuarters);
        REQUIRE(full.segments != nullptr);
        REQUIRE(full.segments->runs().size() == 1);
        CHECK(full.segments->runs().front() == SegmentRun{0, 2});
        const Result<RowList> known = table->known_rows(id, &kQuarters);
        REQUIRE(known.has_value());
        CHECK(*known->segments == *full.segments);
        const SegmentList whole(8, {{0, ~uint64_t{0}}});
        CHECK(table->known_rows(id, &whole).code() == Errc::kUnknownList);
        CHECK(table->known_rows(id).has_value());  // its rows are as before
        ListId other = id;
        ++other.last_key;
        CHECK(table->known_rows(other, &kQuarters).code() == Errc::kUnknownList);

        CHECK(table->rows_for_push(keys, &whole)->segments->runs().front() == SegmentRun{0, 1});
        CHECK(table->known_rows(id, &whole).has_value());
        CHECK(table->known_rows(id, &kQuarters).code() == Errc::kUnknownList);
    }

    TEST_CASE("a list that was pulled is not known to pushes, until it is pushed") {
        HeapMemory memory;
        const Made table = made(dense_schema(), memory);
        const auto keys = keys_from(250);
        REQUIRE(table->rows_for_pull(keys).has_value());
        CHECK(table->known_rows(list_id(keys)).has_value());
        CHECK(table->known_rows(list_id(keys), &kQuarters).code() == Errc::kUnknownList);
        REQUIRE(table->rows_for_push(keys, &kQuarters).has_value());
        CHECK(table->known_rows(list_id(keys), &kQuarters).has_value());
    }

    TEST_CASE("a short list has segments, and is not remembered") {
        HeapMemory memory;
        const Made table = made(dense_schema(), memory);
        const auto few = keys_from(1, kRememberedKeysMin - 1);
        CHECK(table->rows_for_push(few, &kQuarters)->segments->runs().size() == 1);
        CHECK(table.lists->bytes() == 0);
        CHECK(table->rows_for_push(few)->segments == nullptr);
    }

    TEST_CASE("keys that the shard does not hold mark nothing") {
        HeapMemory memory;
        const Made table = made(dense_schema(), memory);
        CHECK(table->rows_for_push(keys_from(600), &kQuarters)->segments->runs().empty());
    }

    TEST_CASE("the segments are those of the keys one by one, in lists of any length") {
        WEIR_TEST_SEED(seed, 83);
        Random random(seed);
        for (int i = 0; i < 200; ++i) {
            HeapMemory memory;
            const uint64_t key_count = 1 + random.below(40'000);
            const bool is_dense = random.below(2) == 0;
            const Made table = made({.id = 1,
                                     .name = "t",
                                     .layout = is_dense ? Layout::kDense : Layout::kSparse,
                                     .key_count = key_count},
                                    memory);
            const PositionMap map =
                is_dense ? PositionMap::dense(key_count) : PositionMap::sparse();
            std::vector<uint64_t> keys;
            for (uint64_t key = 0; key < key_count; key += 1 + random.below(i % 3 == 0 ? 1 : 50))
                keys.push_back(key);
            for (uint64_t generation = 1; generation <= 2; ++generation) {
                std::vector<PositionRange> segments;
                const uint64_t count = 1 + random.below(40);
                const uint64_t length = ~uint64_t{0} / count;
                for (uint64_t first = 0; segments.size() < count; first += length) {
                    if (~uint64_t{0} - first < length) break;
                    if (random.below(8) != 0) segments.push_back({first, first + length - 1});
                }
                const SegmentList held(generation, segments);
                SegmentMarks wanted;
                wanted.reset(held);
                for (const uint64_t key : keys) {
                    const uint32_t segment = held.find(map.position(key));
                    if (segment != SegmentList::kNone) wanted.mark(segment);
                }
                REQUIRE(*table->rows_for_push(keys, &held)->segments == wanted.touched());
                REQUIRE(*table->rows_for_push(keys, &held)->segments == wanted.touched());
            }
        }
    }
}

}  // namespace weir::test
