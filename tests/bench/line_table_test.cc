// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/line_table.h"

#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("line_table") {
    using namespace weir;
    using limits::LineTable;

    TEST_CASE("its sums are those of a map, with every kind of comparison") {
        WEIR_TEST_SEED(seed, 71);
        std::vector<limits::Compare> kinds{limits::Compare::kPortable};
        const limits::Compare best = limits::best_compare();
        if (best != limits::Compare::kPortable) kinds.push_back(limits::Compare::kAvx2);
        if (best == limits::Compare::kAvx512) kinds.push_back(best);
        for (const limits::Compare kind : kinds) {
            CAPTURE(static_cast<int>(kind));
            Random random(seed);
            constexpr size_t kKeys = 20'000;
            std::vector<LineTable::Bucket> buckets(limits::line_buckets_for(kKeys + 1));
            LineTable table(buckets, kind);
            std::unordered_map<uint64_t, float> model;
            for (int round = 0; round < 200; ++round) {
                std::vector<uint64_t> keys(1 + random.below(400));
                std::vector<float> deltas(keys.size());
                for (size_t i = 0; i < keys.size(); ++i) {
                    keys[i] = random.below(kKeys) << (round % 2 == 0 ? 0 : 40);  // 0 among them
                    deltas[i] = static_cast<float>(random.below(100));
                    if (model.size() == kKeys && !model.contains(keys[i])) keys[i] = 0;
                    model[keys[i]] += deltas[i];
                }
                table.add(keys, deltas.data());
            }
            REQUIRE(table.size() == model.size());
            std::unordered_map<uint64_t, float> sums;
            for (const LineTable::Bucket& bucket : buckets) {
                for (uint32_t place = 0; place < bucket.used; ++place)
                    sums.emplace(bucket.keys[place], bucket.values[place]);
            }
            CHECK(sums == model);
        }
    }

    TEST_CASE("has room for what it was sized for, in buckets that are a power of two") {
        for (const size_t keys : {size_t{0}, size_t{1}, size_t{9}, size_t{1000}, size_t{12345}}) {
            const size_t buckets = limits::line_buckets_for(keys);
            CHECK((buckets & (buckets - 1)) == 0);
            CHECK(buckets >= 2);
            CHECK(buckets * 5 * 3 >= keys * 4);
        }
    }
}
