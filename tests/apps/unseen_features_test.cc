// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/unseen_features.h"

#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/apps/memory_exchange.h"
#include "tests/seed.h"

namespace weir::apps {

TEST_SUITE("unseen_features") {
    TEST_CASE("features of test lines are counted once, whoever has them, and so are unseen ones") {
        for (const uint32_t workers : {1U, 3U}) {
            const std::vector<std::vector<uint64_t>> train = {{1, 5, ~uint64_t{0}}, {}, {7, 5}};
            const std::vector<std::vector<uint64_t>> test = {{7, 9}, {9, 10, ~uint64_t{0}}, {}};
            test::run_workers(workers, 0, [&](BlockExchange& exchange) {
                const uint32_t self = exchange.worker_index();
                const auto found = count_unseen(exchange, train[self], test[self]);
                REQUIRE(found);
                CHECK(found->feature_count == (workers == 1 ? 2 : 4));
                CHECK(found->unseen_count == 2);
            });
        }
    }

    TEST_CASE("it is the same for more features than go at a time") {
        WEIR_TEST_SEED(seed, 3);
        Random random(seed);
        std::vector<std::vector<uint64_t>> train(2);
        std::vector<std::vector<uint64_t>> test(2);
        std::set<uint64_t> seen;
        std::set<uint64_t> asked;
        for (uint32_t worker = 0; worker < 2; ++worker) {
            std::set<uint64_t> mine;
            std::set<uint64_t> tests;
            for (int i = 0; i < 70'000; ++i) {
                mine.insert(random.below(200'000));
                tests.insert(random.below(250'000));
            }
            train[worker].assign(mine.begin(), mine.end());
            test[worker].assign(tests.begin(), tests.end());
            seen.insert(mine.begin(), mine.end());
            asked.insert(tests.begin(), tests.end());
        }
        uint64_t unseen = 0;
        for (const uint64_t key : asked)
            unseen += seen.contains(key) ? 0 : 1;
        test::run_workers(2, 0, [&](BlockExchange& exchange) {
            const uint32_t self = exchange.worker_index();
            const auto found = count_unseen(exchange, train[self], test[self]);
            REQUIRE(found);
            CHECK(found->feature_count == asked.size());
            CHECK(found->unseen_count == unseen);
        });
    }
}

}  // namespace weir::apps
