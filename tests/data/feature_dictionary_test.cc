// SPDX-License-Identifier: Apache-2.0
#include "lib/data/feature_dictionary.h"

#include <unordered_map>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("feature_dictionary") {
    using weir::data::FeatureDictionary;

    TEST_CASE("keys get rising indices on first sight and keep them through growth") {
        WEIR_TEST_SEED(seed, 5);
        weir::Random random(seed);
        FeatureDictionary dictionary;
        std::unordered_map<uint64_t, uint32_t> model;
        for (int round = 0; round < 500; ++round) {
            std::vector<uint64_t> keys(random.below(300));
            for (uint64_t& key : keys)
                key = random.below(40000) * (random.below(2) == 0 ? 1 : 1ULL << 40);
            std::vector<uint32_t> indices(keys.size());
            REQUIRE(dictionary.insert(keys, indices));
            for (size_t i = 0; i < keys.size(); ++i) {
                const auto [at, fresh] =
                    model.try_emplace(keys[i], static_cast<uint32_t>(model.size()));
                REQUIRE(indices[i] == at->second);
            }
        }
        for (const auto& [key, index] : model)
            REQUIRE(dictionary.find(key) == index);
        CHECK(dictionary.find(12345678901234567) == FeatureDictionary::kNotFound);
        CHECK(dictionary.take_keys().size() == model.size());
    }

    TEST_CASE("the extreme keys are keys like others") {
        FeatureDictionary dictionary;
        const std::vector<uint64_t> keys = {~uint64_t{0}, 0, ~uint64_t{0}, 1};
        std::vector<uint32_t> indices(4);
        REQUIRE(dictionary.insert(keys, indices));
        CHECK(indices == std::vector<uint32_t>{0, 1, 0, 2});
    }

    TEST_CASE("a dictionary whose keys were taken starts anew") {
        FeatureDictionary dictionary;
        std::vector<uint32_t> index(1);
        REQUIRE(dictionary.insert(std::vector<uint64_t>{7}, index));
        CHECK(dictionary.take_keys() == std::vector<uint64_t>{7});
        CHECK(dictionary.find(7) == FeatureDictionary::kNotFound);
    }
}
