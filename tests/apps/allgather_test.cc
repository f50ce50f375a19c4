// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/allgather.h"

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/apps/memory_exchange.h"
#include "tests/seed.h"

namespace weir::apps {

TEST_SUITE("allgather") {
    TEST_CASE("everybody gets all lists end to end, every bit, also where a list is empty") {
        constexpr uint32_t kWorkers = 3;
        WEIR_TEST_SEED(seed, 11);
        Random random(seed);
        std::vector<std::vector<uint64_t>> lists(kWorkers);
        lists[0] = {~uint64_t{0}, 0, (uint64_t{1} << 53) + 1};
        for (uint64_t i = 0; i < kReduceValueCountMax; ++i)  // more than one sum can carry
            lists[2].push_back(random());
        std::vector<uint64_t> expected = lists[0];
        expected.insert(expected.end(), lists[2].begin(), lists[2].end());

        test::MemoryServer server(kWorkers, 0);
        std::vector<std::vector<uint64_t>> got(kWorkers);
        std::vector<std::thread> threads;
        for (uint32_t worker = 0; worker < kWorkers; ++worker) {
            threads.emplace_back([&, worker] {
                test::MemoryExchange exchange(server, worker);
                auto all = allgather(exchange, lists[worker]);
                if (all) got[worker] = std::move(*all);
            });
        }
        for (std::thread& thread : threads)
            thread.join();
        for (const std::vector<uint64_t>& all : got)
            CHECK(all == expected);
    }

    TEST_CASE("alone it is one's own list") {
        test::MemoryServer server(1, 0);
        test::MemoryExchange exchange(server, 0);
        const std::vector<uint64_t> mine{7, ~uint64_t{0}};
        CHECK(allgather(exchange, mine).value() == mine);
    }
}

}  // namespace weir::apps
