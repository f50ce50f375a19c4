// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/key_slots.h"

#include <map>
#include <optional>

#include <doctest/doctest.h>

#include "tests/seed.h"

TEST_SUITE("key_slots") {
    using namespace weir;

    namespace {

    /// Beside a map, with so many keys at most.
    void check_beside_map(KeySlots slots, uint64_t first_key, uint64_t key_count, uint64_t seed) {
        Random random(seed);
        std::map<uint64_t, uint32_t> map;
        for (uint32_t step = 0; step < 30'000; ++step) {
            const uint64_t key = first_key + random.below(key_count);
            const auto at = map.find(key);
            slots.prefetch(key);
            CHECK(slots.find(key) == (at == map.end() ? KeySlots::kNone : at->second));
            if (at == map.end()) {
                slots.insert(key, step);
                map[key] = step;
            } else if (random.below(3) != 0) {
                slots.erase(key);
                map.erase(at);
            }
            REQUIRE(slots.size() == map.size());
            if (step % 10'000 == 9'999) {
                std::map<uint64_t, uint32_t> all;
                slots.for_each([&](uint64_t k, uint32_t slot) { all[k] = slot; });
                CHECK(all == map);
                for (const auto& entry : map)
                    REQUIRE(slots.find(entry.first) == entry.second);
            }
            if (step == 20'000) {
                slots.clear();
                map.clear();
            }
        }
    }

    }  // namespace

    TEST_CASE("keys are found until they are erased, in a hash table and in an array") {
        WEIR_TEST_SEED(seed, 1);
        for (const uint64_t count : {uint64_t{3}, uint64_t{48}, uint64_t{50}, uint64_t{5'000}}) {
            check_beside_map({}, 0, count, seed);
            check_beside_map({}, ~uint64_t{0} - count, count, seed);
            check_beside_map(KeySlots({7, 7 + count}), 7, count, seed);
        }
    }

    TEST_CASE("a key outside of the range of an array has no slot") {
        KeySlots slots(KeyRange{10, 20});
        slots.insert(10, 0);
        slots.insert(19, 1);
        CHECK(slots.is_array());
        CHECK(slots.find(9) == KeySlots::kNone);
        CHECK(slots.find(20) == KeySlots::kNone);
        CHECK(slots.find(19) == 1);
        slots.prefetch(1000);
    }
}
