// SPDX-License-Identifier: Apache-2.0
#include "lib/key/key_list.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("key_list") {
    using namespace weir;

    TEST_CASE("a key out of order is found wherever it is, and the error names it") {
        std::vector<uint64_t> keys(10'000);
        for (size_t i = 0; i < keys.size(); ++i)
            keys[i] = i * 3;
        CHECK(check_sorted_unique(keys));
        for (const size_t at : {size_t{1}, size_t{2}, size_t{4095}, size_t{4096}, size_t{4097},
                                size_t{8192}, keys.size() - 1}) {
            std::vector<uint64_t> twice = keys;
            twice[at] = twice[at - 1];
            const Status status = check_sorted_unique(twice);
            REQUIRE(status.code() == Errc::kInvalidArgument);
            CHECK(status.error().text().find("index " + std::to_string(at) + " ") !=
                  std::string::npos);
        }
    }

    TEST_CASE("empty and single lists are sorted, and the largest keys are compared unsigned") {
        CHECK(check_sorted_unique({}));
        const uint64_t one[] = {7};
        CHECK(check_sorted_unique(one));
        const uint64_t ends[] = {0, ~uint64_t{0}};
        CHECK(check_sorted_unique(ends));
        const uint64_t wrong[] = {~uint64_t{0}, 0};
        CHECK_FALSE(check_sorted_unique(wrong));
    }

    TEST_CASE("a list hashed in pieces has the hash of the whole") {
        WEIR_TEST_SEED(seed, 11);
        Random random(seed);
        ListHasher hasher;
        for (int round = 0; round < 50; ++round) {
            std::vector<uint64_t> keys(random.below(5000));
            for (uint64_t& key : keys)
                key = random();
            hasher.reset(keys.size());
            for (size_t begin = 0; begin < keys.size();) {
                const size_t count = std::min<size_t>(1 + random.below(700), keys.size() - begin);
                hasher.add(std::span(keys).subspan(begin, count));
                begin += count;
            }
            CHECK(hasher.hash() == hash_key_list(keys));
        }
    }

    TEST_CASE("every changed key, added key or removed key changes the hash") {
        std::vector<uint64_t> keys(300);
        for (size_t i = 0; i < keys.size(); ++i)
            keys[i] = i * i;
        const uint64_t hash = hash_key_list(keys);
        for (size_t i = 0; i < keys.size(); ++i) {
            std::vector<uint64_t> changed = keys;
            changed[i] += 1;
            CHECK(hash_key_list(changed) != hash);
            CHECK(hash_key_list(std::span(keys).first(i)) != hash);
        }
        CHECK(list_id(keys) == ListId{hash, 300, 0, 299 * 299});
        CHECK(list_id({}).count == 0);
    }
}
