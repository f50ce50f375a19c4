// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/touched_lists.h"

#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir::test {

TEST_SUITE("touched_lists") {
    static std::vector<uint64_t> keys_from(uint64_t first, size_t count = kRememberedKeysMin) {
        std::vector<uint64_t> keys(count);
        std::iota(keys.begin(), keys.end(), first);
        return keys;
    }

    /// Keys whose positions are themselves times 2^54.
    static const PositionMap kMap = PositionMap::dense(1024);
    static const SegmentList kQuarters(7, {{0, (uint64_t{1} << 62) - 1},
                                           {uint64_t{1} << 62, (uint64_t{2} << 62) - 1},
                                           {uint64_t{3} << 62, ~uint64_t{0}}});

    TEST_CASE("a list that came in full is found by its hash, for its table and generation") {
        TouchedLists lists(1 << 20);
        const auto keys = keys_from(250);
        const ListId id = list_id(keys);
        const TouchedSegments touched = lists.look_up(1, kMap, keys, id, kQuarters);
        REQUIRE(touched.runs().size() == 1);
        CHECK(touched.runs().front() == SegmentRun{0, 2});
        REQUIRE(lists.find(1, id, kQuarters) != nullptr);
        CHECK(*lists.find(1, id, kQuarters) == touched);
        CHECK(lists.find(2, id, kQuarters) == nullptr);
        CHECK(lists.find(1, id, SegmentList(8, {{0, ~uint64_t{0}}})) == nullptr);
        ListId other = id;
        ++other.last_key;
        CHECK(lists.find(1, other, kQuarters) == nullptr);
    }

    TEST_CASE("a list that changes while it is read, or is short, is not remembered") {
        TouchedLists lists(1 << 20);
        const auto keys = keys_from(1);
        const ListId another = list_id(keys_from(2));
        (void)lists.look_up(1, kMap, keys, another, kQuarters);
        CHECK(lists.find(1, another, kQuarters) == nullptr);
        const auto few = keys_from(1, kRememberedKeysMin - 1);
        CHECK(lists.look_up(1, kMap, few, list_id(few), kQuarters).runs().size() == 1);
        CHECK(lists.bytes() == 0);
    }

    TEST_CASE("keys that the shard does not hold mark nothing") {
        TouchedLists lists(1 << 20);
        const auto keys = keys_from(600);
        CHECK(lists.look_up(1, kMap, keys, list_id(keys), kQuarters).runs().empty());
    }

    TEST_CASE("the segments are those of the keys one by one, in lists of any length") {
        WEIR_TEST_SEED(seed, 83);
        Random random(seed);
        TouchedLists lists(1 << 20);
        for (int i = 0; i < 300; ++i) {
            const uint64_t key_count = 1 + random.below(20'000);
            const PositionMap map =
                random.below(2) == 0 ? PositionMap::sparse() : PositionMap::dense(key_count);
            std::vector<PositionRange> segments;
            const uint64_t count = 1 + random.below(40);
            const uint64_t length = ~uint64_t{0} / count;
            for (uint64_t first = 0; segments.size() < count; first += length) {
                if (~uint64_t{0} - first < length) break;
                if (random.below(8) != 0) segments.push_back({first, first + length - 1});
            }
            const SegmentList held(i, segments);
            std::vector<uint64_t> keys;
            for (uint64_t key = 0; key < key_count; key += 1 + random.below(i % 3 == 0 ? 1 : 50))
                keys.push_back(key);
            SegmentMarks wanted;
            wanted.reset(held);
            for (const uint64_t key : keys) {
                const uint32_t segment = held.find(map.position(key));
                if (segment != SegmentList::kNone) wanted.mark(segment);
            }
            REQUIRE(lists.look_up(1, map, keys, list_id(keys), held) == wanted.touched());
        }
    }

    TEST_CASE("the memory of remembered lists is bounded") {
        TouchedLists lists(10'000);
        for (uint64_t first = 0; first < 800; ++first) {
            const auto keys = keys_from(first);
            (void)lists.look_up(1, kMap, keys, list_id(keys), kQuarters);
            CHECK(lists.find(1, list_id(keys), kQuarters) != nullptr);
            CHECK(lists.bytes() <= 10'000);
        }
        CHECK(lists.find(1, list_id(keys_from(0)), kQuarters) == nullptr);
        TouchedLists none(10);
        const auto keys = keys_from(0);
        (void)none.look_up(1, kMap, keys, list_id(keys), kQuarters);
        CHECK(none.bytes() == 0);
    }
}

}  // namespace weir::test
