// SPDX-License-Identifier: Apache-2.0
#include "lib/store/index/segment_split.h"

#include <bit>
#include <cstring>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("segment_split") {
    using namespace weir;

    static constexpr size_t kBuckets = 256;
    static constexpr uint32_t kLowBits = 64 - 3;  // the segment's keys share 3 leading bits

    using Segment = std::vector<KeyBucket>;
    using Rows = std::map<uint64_t, uint32_t>;

    /// The row + 1 of the key as a look-up finds it, 0 if it is not there.
    static uint32_t find(const Segment& segment, uint64_t key, size_t at) {
        while (true) {
            const KeyBucket& bucket = segment[at & (kBuckets - 1)];
            for (size_t place = 0; place < bucket.used; ++place) {
                if (bucket.keys[place] == key) return bucket.rows_plus_one[place];
            }
            if (bucket.overflowed == 0) return 0;
            ++at;
        }
    }

    /// All keys of the segment. Places that are not used must not look as if they had a row.
    static size_t count(const Segment& segment) {
        size_t keys = 0;
        for (const KeyBucket& bucket : segment) {
            keys += bucket.used;
            for (size_t place = bucket.used; place < KeyBucket::kKeys; ++place)
                CHECK(bucket.rows_plus_one[place] == 0);
        }
        return keys;
    }

    static void check_split(KeyCompare compare, Random & random, size_t key_count) {
        const KeyHash hash{random(), random() | 1};
        const auto shift = static_cast<uint32_t>(kLowBits - std::countr_zero(kBuckets));
        Segment low(kBuckets);
        Segment high(kBuckets);
        std::memset(static_cast<void*>(high.data()), 0xa5, kBuckets * sizeof(KeyBucket));
        Rows rows;
        while (rows.size() < key_count) {
            const uint64_t key = random.below(16) == 0 ? rows.size() : random();
            if (hash(key) >> kLowBits != 5) continue;
            const auto row_plus_one = static_cast<uint32_t>(rows.size() + 1);
            if (!rows.emplace(key, row_plus_one).second) continue;
            put_behind(low.data(), kBuckets - 1, hash(key) >> shift, key, row_plus_one);
        }
        SegmentSplit split(hash, compare);
        split.run(low.data(), high.data(), kBuckets, shift - 1);
        CHECK(count(low) + count(high) == key_count);
        bool right = true;
        for (const auto& [key, row_plus_one] : rows) {
            const uint64_t at = hash(key) >> (shift - 1);
            const Segment& segment = (at & kBuckets) != 0 ? high : low;
            right &= find(segment, key, at) == row_plus_one;
        }
        CHECK(right);
    }

    TEST_CASE("every key is in its half afterwards, whatever splits the buckets") {
        WEIR_TEST_SEED(seed, 51);
        std::vector<KeyCompare> compares{KeyCompare::kPortable};
        if (best_key_compare() == KeyCompare::kAvx512) compares.push_back(KeyCompare::kAvx512);
        for (const KeyCompare compare : compares) {
            CAPTURE(static_cast<int>(compare));
            Random random(seed);
            // Empty, sparse, as full as an index lets it become, and full to the last place: then
            // runs of overflowed buckets wrap around the end.
            for (const size_t key_count : {size_t{0}, size_t{1}, size_t{100}, kBuckets * 15 / 4,
                                           kBuckets * 19 / 4, kBuckets * KeyBucket::kKeys}) {
                CAPTURE(key_count);
                for (int i = 0; i < 20; ++i)
                    check_split(compare, random, key_count);
            }
        }
    }
}
