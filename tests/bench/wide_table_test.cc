// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/wide_table.h"

#include <cmath>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("wide_table") {
    using namespace weir;
    using limits::WideTable;

    TEST_CASE("its rows are those of a map after adagrad steps, with every kind of comparison") {
        WEIR_TEST_SEED(seed, 72);
        const limits::Compare best = limits::best_compare();
        for (const limits::Compare kind :
             {limits::Compare::kPortable, limits::Compare::kAvx2, limits::Compare::kAvx512}) {
            if (kind > best) continue;
            CAPTURE(static_cast<int>(kind));
            Random random(seed);
            constexpr size_t kKeys = 500;
            const size_t width = 1 + random.below(40);
            std::vector<WideTable::Bucket> buckets(limits::line_buckets_for(kKeys));
            std::vector<float> rows(kKeys * 2 * width);
            const limits::WideStep step{.epsilon = 1e-3F};
            WideTable table(buckets, rows.data(), width, step, kind);
            std::vector<uint64_t> keys(kKeys);
            for (size_t i = 0; i < kKeys; ++i)
                keys[i] = mix64(i);
            table.insert(keys);
            std::map<uint64_t, std::vector<double>> values;
            std::map<uint64_t, std::vector<double>> states;
            for (const uint64_t key : keys)
                values[key] = states[key] = std::vector<double>(width);
            for (int round = 0; round < 20; ++round) {
                std::vector<uint64_t> list;
                for (const uint64_t key : keys)
                    if (random.below(3) == 0) list.push_back(key);
                std::vector<float> gradients(list.size() * width);
                for (float& gradient : gradients)
                    gradient = static_cast<float>(random.uniform() - 0.5);
                table.push(list, gradients.data());
                for (size_t i = 0; i < list.size(); ++i) {
                    for (size_t at = 0; at < width; ++at) {
                        const double g = gradients[i * width + at];
                        double& state = states[list[i]][at];
                        state += g * g;
                        values[list[i]][at] -= 0.1 * g / (std::sqrt(state) + 1e-3);
                    }
                }
            }
            std::vector<float> out(kKeys * width);
            table.pull(keys, out.data());
            bool right = true;
            for (size_t i = 0; i < kKeys; ++i) {
                for (size_t at = 0; at < width; ++at)
                    right &= std::abs(out[i * width + at] - values[keys[i]][at]) < 1e-4;
            }
            CHECK(right);
        }
    }
}
