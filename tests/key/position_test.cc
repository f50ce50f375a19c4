// SPDX-License-Identifier: Apache-2.0
#include "lib/key/position.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "lib/key/position_set.h"
#include "lib/key/position_slices.h"
#include "tests/seed.h"

TEST_SUITE("position") {
    using namespace weir;
    constexpr uint64_t kLast = ~uint64_t{0};

    TEST_CASE("mixing and unmixing undo each other") {
        WEIR_TEST_SEED(seed, 3);
        Random random(seed);
        const PositionMap map = PositionMap::sparse();
        for (const uint64_t key : {uint64_t{0}, uint64_t{1}, kLast, uint64_t{1} << 63})
            CHECK(map.key(map.position(key)) == key);
        for (int i = 0; i < 10'000; ++i) {
            const uint64_t key = random();
            CHECK(unmix64(mix64(key)) == key);
            CHECK(mix64(unmix64(key)) == key);
        }
    }

    TEST_CASE("a dense map keeps the order and comes back, for every small table") {
        for (uint64_t n = 1; n <= 40; ++n) {
            const PositionMap map = PositionMap::dense(n);
            for (uint64_t key = 0; key < n; ++key) {
                const uint64_t position = map.position(key);
                if (key > 0) CHECK(position > map.position(key - 1));
                CHECK(map.key(position) == key);
                CHECK(map.first_key_at(position) == key);
                CHECK(map.first_key_at(position + 1) == key + 1);
                CHECK(map.end_key_at(position) == key + 1);
                if (position > 0) CHECK(map.end_key_at(position - 1) == key);
            }
            CHECK(map.end_key_at(kLast) == n);
            CHECK(map.key(kLast) == n - 1);
        }
    }

    TEST_CASE("a dense map of the largest table is exact at its ends") {
        const PositionMap map = PositionMap::dense(kLast);
        for (const uint64_t key : {uint64_t{0}, uint64_t{1}, kLast / 2, kLast / 2 + 1, kLast - 1}) {
            CHECK(map.key(map.position(key)) == key);
            CHECK(map.first_key_at(map.position(key)) == key);
        }
    }

    TEST_CASE("a position set contains exactly what its ranges hold") {
        WEIR_TEST_SEED(seed, 5);
        Random random(seed);
        for (int round = 0; round < 100; ++round) {
            std::vector<PositionRange> ranges(random.below(20));
            for (PositionRange& range : ranges) {
                const uint64_t size = random() >> (1 + random.below(60));
                range.first = random();
                range.last = range.first > kLast - size ? kLast : range.first + size;
            }
            const PositionSet set(ranges);
            std::vector<uint64_t> probes = {0, 1, kLast, kLast - 1};
            for (const PositionRange range : ranges) {
                for (const uint64_t edge : {range.first, range.last})
                    probes.insert(probes.end(), {edge - 1, edge, edge + 1});
            }
            for (int i = 0; i < 200; ++i)
                probes.push_back(random());
            for (const uint64_t probe : probes) {
                bool held = false;
                for (const PositionRange range : ranges)
                    held |= range.contains(probe);
                CHECK(set.contains(probe) == held);
            }
        }
        CHECK(PositionSet::whole_ring().contains(kLast));
        CHECK_FALSE(PositionSet().contains(0));
    }

    TEST_CASE("touching ranges become one, and the dense keys of all parts are the whole table") {
        const PositionRange halves[] = {{kLast / 2 + 1, kLast}, {0, kLast / 2}};
        CHECK(PositionSet(halves).is_whole_ring());
        for (uint64_t n = 1; n < 20; ++n) {
            const auto low = PositionSet(std::span(halves).last(1)).dense_keys(n);
            const auto high = PositionSet(std::span(halves).first(1)).dense_keys(n);
            uint64_t count = 0;
            for (const KeyRange range : low)
                count += range.key_count();
            for (const KeyRange range : high)
                count += range.key_count();
            CHECK(count == n);
            CHECK(PositionSet::whole_ring().dense_keys(n) == std::vector<KeyRange>{{0, n}});
        }
    }

    TEST_CASE("sets are joined, cut and compared as sets of single positions are") {
        WEIR_TEST_SEED(seed, 12);
        Random random(seed);
        // 64 slots of the ring; a bit of `bits` for each.
        const auto set_of = [](uint64_t bits) {
            std::vector<PositionRange> ranges;
            for (uint64_t slot = 0; slot < 64; ++slot) {
                if ((bits >> slot & 1) != 0)
                    ranges.push_back({slot << 58, slot << 58 | ~uint64_t{0} >> 6});
            }
            return PositionSet(ranges);
        };
        const auto same = [](const PositionSet& a, const PositionSet& b) {
            return std::ranges::equal(a.ranges(), b.ranges());
        };
        for (int i = 0; i < 500; ++i) {
            const uint64_t a = random() & random() & (random() >> random.below(64));
            const uint64_t b = (random() | random()) << random.below(64);
            REQUIRE(same(set_of(a).with(set_of(b)), set_of(a | b)));
            REQUIRE(same(set_of(a).without(set_of(b)), set_of(a & ~b)));
            REQUIRE(set_of(a).intersects(set_of(b)) == ((a & b) != 0));
            const PositionSlices slices(set_of(a));
            REQUIRE(slices.intersects(PositionSlices(set_of(b))) == ((a & b) != 0));
        }
        CHECK(PositionSlices(PositionSet::whole_ring()).is_whole_ring());
        CHECK_FALSE(PositionSlices(set_of(~uint64_t{1})).is_whole_ring());
        PositionSlices one;
        one.add(~uint64_t{0});
        CHECK(one.intersects(PositionSlices(set_of(uint64_t{1} << 63))));
        CHECK_FALSE(one.intersects(PositionSlices(set_of(~uint64_t{0} >> 1))));
        CHECK(PositionSlices::slice_of(~uint64_t{0}).last == ~uint64_t{0});
    }
}
