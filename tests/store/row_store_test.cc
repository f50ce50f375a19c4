// SPDX-License-Identifier: Apache-2.0
#include "lib/store/row_store.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/row_copy.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rule_runner.h"
#include "tests/seed.h"

TEST_SUITE("row_store") {
    using namespace weir;

    TEST_CASE(
        "while its rows fit into a huge page a store grows in small steps, and keeps what is "
        "there") {
        for (const size_t bytes : {size_t{4}, size_t{100}, size_t{3000}}) {
            CAPTURE(bytes);
            std::vector<std::byte> initial(bytes, std::byte{7});
            HeapMemory memory;
            RowStore store(memory, initial);
            bool right = true;
            for (uint32_t row = 0; row * bytes < RowStore::kSmallBytesMax; ++row) {
                REQUIRE(store.reserve(row + 1));
                right &=
                    memory.bytes_in_use() <=
                    std::max<size_t>(RowStore::kSmallBytesMin, 2 * (row + 1) * bytes) +
                        (row * bytes < RowStore::kGranuleBytes / 4 ? 0 : RowStore::kGranuleBytes);
                right &= store.view().flat == store.view().at(0);
                right &= std::memcmp(store.view().at(row), initial.data(), bytes) == 0;
                std::memcpy(store.view().at(row), &row, sizeof row);
            }
            const auto rows = static_cast<uint32_t>(store.capacity());
            REQUIRE(store.reserve(5 * rows + 1));
            for (uint32_t row = 0; row * bytes < RowStore::kSmallBytesMax; ++row)
                right &= std::memcmp(store.view().at(row), &row, sizeof row) == 0;
            right &= std::memcmp(store.view().at(5 * rows), initial.data(), bytes) == 0;
            CHECK(right);
            CHECK_FALSE(store.is_small());
            store.clear();
            CHECK(memory.bytes_in_use() == 0);
        }
    }

    TEST_CASE("rows stay where they are and hold the initial values while the store grows") {
        for (const size_t bytes :
             {size_t{4}, size_t{12}, size_t{100}, size_t{65'536}, size_t{100'000}}) {
            std::vector<std::byte> initial(bytes);
            for (size_t i = 0; i < bytes; ++i)
                initial[i] = static_cast<std::byte>(i % 7 + 1);
            HeapMemory memory;
            RowStore store(memory, initial);
            std::vector<std::byte*> places;
            for (size_t rows = RowStore::kSmallBytesMax / bytes + 1;
                 rows * bytes < size_t{20} << 20; rows = rows * 3 + 1) {
                REQUIRE(store.reserve(rows));
                for (size_t row = places.size(); row < rows; ++row)
                    places.push_back(store.view().at(static_cast<uint32_t>(row)));
            }
            bool right = true;
            for (size_t row = 0; row < places.size(); ++row) {
                right &= store.view().at(static_cast<uint32_t>(row)) == places[row];
                right &= std::memcmp(places[row], initial.data(), bytes) == 0;
                std::memset(places[row], 0, bytes);  // rows that overlap would show in the next
            }
            CHECK(right);
        }
    }

    TEST_CASE("pushes and pulls reach every row of a store of many extents") {
        WEIR_TEST_SEED(seed, 61);
        Random random(seed);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const RuleEntry& rule = **rules.find("add");
        const RuleRunner add(rule, rule.layout(ValueType::kInt32, 1), Rounding::kNearest, {},
                             "counts");
        HeapMemory memory;
        RowStore store(memory, std::vector<std::byte>(sizeof(int32_t)));
        std::vector<int32_t> model;
        for (const size_t rows : {size_t{1000}, size_t{700'000}, size_t{1'500'000}}) {
            REQUIRE(store.reserve(rows));
            model.resize(rows);
            // Strides reach everything; runs with one row out of place must not be taken for runs.
            std::vector<std::vector<uint32_t>> lists(40);
            for (size_t i = 0; i < lists.size(); ++i) {
                auto& list = lists[i];
                list.resize(1 + random.below(1000));
                const auto first = static_cast<uint32_t>(random.below(rows - list.size() + 1));
                std::iota(list.begin(), list.end(), first);
                if (i % 3 == 1)
                    for (uint32_t& row : list)
                        row = static_cast<uint32_t>(random.below(rows));
                if (i % 3 == 2)
                    list[random.below(list.size())] = static_cast<uint32_t>(random.below(rows));
            }
            std::vector<uint32_t> all(rows);
            std::iota(all.begin(), all.end(), 0U);
            std::ranges::shuffle(all, random);
            lists.push_back(all);
            for (const auto& list : lists) {
                std::vector<int32_t> pushed(list.size());
                for (int32_t& value : pushed)
                    value = static_cast<int32_t>(random.below(100));
                const auto* bytes = reinterpret_cast<const std::byte*>(pushed.data());
                add.rows({store.view(), {}, 1}, list, bytes);
                for (size_t i = 0; i < list.size(); ++i)
                    model[list[i]] += pushed[i];
            }
            std::vector<int32_t> out(rows);
            const int32_t missing = -1;
            copy_rows(store.view(), all, sizeof(int32_t),
                      reinterpret_cast<const std::byte*>(&missing),
                      reinterpret_cast<std::byte*>(out.data()));
            bool right = true;
            for (size_t i = 0; i < rows; ++i)
                right &= out[i] == model[all[i]];
            CHECK(right);
        }
    }

    TEST_CASE("rows that are put somewhere are found there, and nothing else has changed") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        constexpr uint32_t kRows = 40'000;  // some granules
        for (const size_t bytes : {size_t{4}, size_t{8}, size_t{12}, size_t{200}}) {
            CAPTURE(bytes);
            HeapMemory memory;
            RowStore store(memory, std::vector<std::byte>(bytes));
            REQUIRE(store.reserve(kRows));
            std::vector<std::byte> model(kRows * bytes);
            for (int round = 0; round < 20; ++round) {
                std::vector<uint32_t> rows;  // scattered ones, and runs among them
                for (uint64_t row = 0; row < kRows; row += 1 + random.below(60)) {
                    const uint64_t run = random.below(20) == 0 ? 1 + random.below(3000) : 1;
                    for (uint64_t i = 0; i < run && row < kRows; ++i)
                        rows.push_back(static_cast<uint32_t>(row++));
                }
                std::vector<std::byte> values(rows.size() * bytes);
                for (std::byte& value : values)
                    value = static_cast<std::byte>(random.below(256));
                put_rows(store.view(), rows, bytes, values.data());
                for (size_t i = 0; i < rows.size(); ++i)
                    std::copy_n(&values[i * bytes], bytes, &model[rows[i] * bytes]);
            }
            std::vector<uint32_t> all(kRows);
            std::iota(all.begin(), all.end(), 0U);
            std::vector<std::byte> found(model.size());
            copy_rows(store.view(), all, bytes, nullptr, found.data());
            CHECK(found == model);
        }
    }

    TEST_CASE("a run of rows ends exactly where it ends") {
        for (const size_t length :
             {size_t{1}, size_t{2}, size_t{255}, size_t{256}, size_t{257}, size_t{900}}) {
            std::vector<uint32_t> rows(length + 300);
            std::iota(rows.begin(), rows.end(), 5U);
            CHECK(consecutive_rows(rows) == rows.size());
            for (const uint32_t other : {0U, 4U, 5U, rows[length] + 1, kNoRow}) {
                auto broken = rows;
                broken[length] = other;
                CHECK(consecutive_rows(broken) == length);
            }
        }
        CHECK(consecutive_rows({}) == 0);
        const uint32_t none[] = {kNoRow, 0};
        CHECK(consecutive_rows(none) == 1);
        const uint32_t last[] = {kNoRow - 1, kNoRow};
        CHECK(consecutive_rows(last) == 1);
    }
}
