// SPDX-License-Identifier: Apache-2.0
#include "lib/key/key_batch.h"

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/last_words.h"
#include "tests/seed.h"

namespace weir {
namespace {

static_assert(BatchKeys<std::vector<uint64_t>> && BatchKeys<std::vector<int32_t>>);
static_assert(BatchKeys<std::span<const int64_t>> && BatchKeys<std::array<uint32_t, 3>>);
static_assert(BatchKeys<std::span<unsigned long long>>);
static_assert(!BatchKeys<std::vector<uint16_t>> && !BatchKeys<std::vector<double>>);
static_assert(!BatchKeys<std::deque<uint64_t>> && !BatchKeys<std::list<uint64_t>>);

}  // namespace

TEST_SUITE("key batch") {
    TEST_CASE("keys in any order become sorted and unique, and every key finds its place") {
        WEIR_TEST_SEED(seed, 4711);
        Random random(seed);
        KeyBatch batch;
        for (const size_t count : {0U, 1U, 2U, 100U, 511U, 512U, 5000U, 100'000U}) {
            for (const uint64_t range :
                 {uint64_t{1}, uint64_t{300}, uint64_t{1} << 20, ~uint64_t{0}}) {
                std::vector<uint64_t> callers(count);
                std::map<uint64_t, uint32_t> expected;
                for (uint64_t& key : callers) {
                    key = random.below(range) * (range == 300 ? uint64_t{1} << 50 : 1);
                    ++expected[key];
                }
                batch.assign(callers);
                REQUIRE(batch.keys().size() == expected.size());
                REQUIRE(batch.counts().size() == expected.size());
                REQUIRE(batch.places().size() == count);
                size_t u = 0;
                for (const auto& [key, times] : expected) {
                    REQUIRE(batch.keys()[u] == key);
                    REQUIRE(batch.counts()[u] == times);
                    ++u;
                }
                for (size_t i = 0; i < count; ++i)
                    REQUIRE(batch.keys()[batch.places()[i]] == callers[i]);
            }
        }
    }

    TEST_CASE("rows are spread to the caller's order, and summed per key") {
        const std::vector<int64_t> callers{7, -1, 7, 3, 7};
        const KeyBatch batch(callers);
        CHECK(std::ranges::equal(batch.keys(), std::array{uint64_t{3}, uint64_t{7}, ~uint64_t{0}}));
        CHECK(std::ranges::equal(batch.counts(), std::array{1U, 3U, 1U}));
        for (const size_t width : {1UL, 2UL, 5UL}) {
            std::vector<float> rows(3 * width);
            for (size_t i = 0; i < rows.size(); ++i)
                rows[i] = static_cast<float>(i);
            std::vector<float> out(5 * width);
            batch.spread<float>(rows, out, width);
            for (size_t i = 0; i < out.size(); ++i)
                CHECK(out[i] == rows[batch.places()[i / width] * width + i % width]);
            std::vector<float> sums(3 * width, 99.0F);
            batch.sum<float>(out, sums, width);
            for (size_t i = 0; i < sums.size(); ++i)
                CHECK(sums[i] == rows[i] * static_cast<float>(batch.counts()[i / width]));
        }
    }

    TEST_CASE("rows of a wrong size end the program with the sizes, as the program's own mistake") {
        const KeyBatch batch(std::array<uint64_t, 3>{9, 4, 9});
        std::vector<float> two(2);
        std::vector<float> three(3);
        CHECK(testing::last_words([&] { batch.spread<float>(two, two); }) ==
              "weir: KeyBatch::spread: the rows of keys() have 2 values, and need 2; those of the "
              "caller's keys have 2, and need 3\n");
        CHECK(testing::last_words([&] { batch.sum<float>(three, two, 2); }) ==
              "weir: KeyBatch::sum: the rows of keys() have 2 values, and need 4; those of the "
              "caller's keys have 3, and need 6\n");
    }
}

}  // namespace weir
