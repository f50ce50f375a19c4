// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables that run out of memory, and the memory of their open iterations.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"
#include "tests/heap_bytes.h"
#include "tests/store/made_table.h"

TEST_SUITE("table_memory") {
    using namespace weir;

    TEST_CASE("a sparse table of a few keys takes a few KiB, sums of open iterations included") {
        HeapMemory memory;
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        KnownLists lists(memory, 0);
        constexpr size_t kTables = 200;
        std::vector<std::unique_ptr<TableShard>> tables;
        const size_t before = testing::heap_bytes();
        for (uint32_t i = 0; i < kTables; ++i) {
            TableSchema schema{.id = i, .name = "t", .layout = Layout::kSparse, .max_delay = 1};
            tables.push_back(
                *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists));
        }
        CHECK(memory.bytes_in_use() == 0);  // as long as they are empty
        const std::vector<uint64_t> keys = numbers(3);
        const std::vector<float> ones(3, 1.0F);
        for (const auto& table : tables) {
            const RowList rows = *table->rows_for_push(keys);
            REQUIRE(table->push(rows, std::as_bytes(std::span(ones))));
            for (const uint64_t iteration : {1, 2})
                REQUIRE(table->push_aggregate(iteration, rows, std::as_bytes(std::span(ones))));
        }
        CHECK(memory.bytes_in_use() / kTables <= 4096);
        CHECK((testing::heap_bytes() - before) / kTables <= 8192);  // with what is in `memory`
    }

    TEST_CASE("the keys of rows are found with and without memory to remember them") {
        HeapMemory memory;
        const auto table = made({.name = "t", .layout = Layout::kSparse}, memory);
        const std::vector<uint64_t> keys = numbers(20'000, 7);
        const std::vector<float> ones(keys.size(), 1.0F);
        const RowList list = *table->rows_for_push(keys);
        REQUIRE(table->push_aggregate(1, list, std::as_bytes(std::span(ones))));
        const std::vector<uint32_t> rows(list.rows.rbegin(), list.rows.rend());
        const std::vector<uint64_t> expected(keys.rbegin(), keys.rend());
        for (const size_t limit : {size_t{0}, ~size_t{0}}) {
            CAPTURE(limit);
            memory.set_limit(limit);
            std::vector<uint64_t> found;
            table->find_keys(rows, found);
            CHECK(found == expected);
            AggregatedRows listed;
            table->list_aggregated(1, listed);
            CHECK(listed.rows.size() == keys.size());
            std::ranges::sort(listed.keys);
            CHECK(listed.keys == keys);
        }
    }

    TEST_CASE("when memory ends, pushes of new keys fail and every value stays readable") {
        HeapMemory memory(1 << 20);
        const auto table = made({.name = "t", .layout = Layout::kSparse, .width = 3}, memory);
        std::vector<uint64_t> held;
        bool failed = false;
        for (uint64_t round = 0; round < 200 && !failed; ++round) {
            std::vector<uint64_t> keys(500);
            for (size_t i = 0; i < keys.size(); ++i)
                keys[i] = round * 1000 + i;
            const std::vector<float> ones(keys.size() * 3, 1.0F);
            const auto rows = table->rows_for_push(keys);
            if (rows) {
                REQUIRE(table->push(*rows, std::as_bytes(std::span(ones))));
                held.insert(held.end(), keys.begin(), keys.end());
            } else {
                CHECK(rows.code() == Errc::kNoMemory);
                failed = true;
            }
        }
        CHECK(failed);
        CHECK(held.size() > 5000);
        std::vector<float> out(held.size() * 3);
        REQUIRE(table->pull(*table->rows_for_pull(held), std::as_writable_bytes(std::span(out))));
        for (const float value : out)
            REQUIRE(value == 1.0F);
        const uint64_t fresh[] = {~uint64_t{0}};
        REQUIRE(table->pull(*table->rows_for_pull(fresh),
                            std::as_writable_bytes(std::span(out).first(3))));
        CHECK(out[0] == 0.0F);
    }

    TEST_CASE("a table or an aggregate without memory fails whole") {
        HeapMemory memory(1 << 20);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        KnownLists lists(memory, 0);
        CHECK(TableShard::make({.name = "t", .key_count = 1 << 20}, PositionSet::whole_ring(),
                               rules, memory, lists)
                  .code() == Errc::kNoMemory);
        CHECK(memory.bytes_in_use() == 0);
        const auto table = made({.name = "t", .key_count = 1 << 17}, memory);
        memory.set_limit(memory.bytes_in_use());
        const std::vector<float> ones(1 << 17, 1.0F);
        CHECK(table->push_aggregate(1, {0, 1 << 17}, std::as_bytes(std::span(ones))).code() ==
              Errc::kNoMemory);
        table->apply_aggregate(1);
        CHECK(std::to_integer<int>((*table->values({0, 1}))[3]) == 0);
    }

    TEST_CASE("a dense table takes the memory of its window when it is made, and no more later") {
        constexpr uint64_t kKeys = 1 << 14;  // 64 KiB of values
        HeapMemory memory;
        const auto plain = made({.name = "t", .key_count = kKeys}, memory);
        const size_t plain_bytes = memory.bytes_in_use();
        const auto table = made({.name = "t", .key_count = kKeys, .max_delay = 3}, memory);
        const size_t in_use = memory.bytes_in_use();
        CHECK(in_use - plain_bytes >= plain_bytes + 4 * kKeys * sizeof(float));
        CHECK(in_use - plain_bytes < plain_bytes + 5 * kKeys * sizeof(float));
        memory.set_limit(0);
        const std::vector<float> ones(kKeys, 1.0F);
        const auto bytes = std::as_bytes(std::span(ones));
        for (uint64_t i = 1; i <= 20; ++i) {
            for (uint64_t ahead = i == 1 ? 0 : 3; ahead < 4; ++ahead)
                REQUIRE(table->push_aggregate(i + ahead, {0, kKeys}, bytes));
            i % 5 == 0 ? table->drop_aggregate(i) : table->apply_aggregate(i);
        }
        CHECK(memory.bytes_in_use() == in_use);
        const auto values = *table->values({kKeys - 1, kKeys});
        CHECK(*reinterpret_cast<const float*>(values.data()) == 16);
    }

    TEST_CASE("a window without memory says what it needs and what there was") {
        constexpr uint64_t kKeys = 1 << 18;  // 1 MiB of values
        HeapMemory memory(size_t{6} << 20);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        KnownLists lists(memory, 0);
        const auto refused = TableShard::make({.name = "t", .key_count = kKeys, .max_delay = 7},
                                              PositionSet::whole_ring(), rules, memory, lists);
        REQUIRE(refused.code() == Errc::kNoMemory);
        const std::string& text = refused.error().message();
        INFO(text);
        CHECK(text.find("table 't': the sums of its 8 open iterations (max_delay 7) need 8388608 "
                        "bytes on this shard, and only ") != std::string::npos);
        CHECK(text.find("choose a smaller max_delay") != std::string::npos);
        CHECK(text.find("and only 5242880 were left") != std::string::npos);  // 6 MiB less values
        CHECK(memory.bytes_in_use() == 0);
    }

    TEST_CASE("a sparse table takes the memory of its window for the keys that it is to expect") {
        constexpr uint64_t kKeys = 1 << 14;
        TableSchema schema{.name = "t", .layout = Layout::kSparse, .key_count = kKeys};
        HeapMemory memory;
        const auto plain = made(schema, memory);
        const size_t plain_bytes = memory.bytes_in_use();
        schema.max_delay = 3;
        const auto table = made(schema, memory);
        const size_t sums = 4 * kKeys * sizeof(float);
        CHECK(memory.bytes_in_use() - plain_bytes >= plain_bytes + sums);
        CHECK(memory.bytes_in_use() - plain_bytes < plain_bytes + sums + sums / 4);
        const std::vector<uint64_t> keys = numbers(kKeys);
        const std::vector<float> ones(kKeys, 1.0F);
        const RowList rows = *table->rows_for_push(keys);
        memory.set_limit(0);
        for (uint64_t i = 1; i <= 4; ++i)
            CHECK(table->push_aggregate(i, rows, std::as_bytes(std::span(ones))));

        HeapMemory small(size_t{1} << 20);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        KnownLists lists(small, 0);
        for (const uint64_t expected : {uint64_t{1} << 20, ~uint64_t{0}}) {
            CAPTURE(expected);
            schema.key_count = expected;
            const auto refused =
                TableShard::make(schema, PositionSet::whole_ring(), rules, small, lists);
            REQUIRE(refused.code() == Errc::kNoMemory);
            CHECK(refused.error().message().find("the sums of its 4 open iterations") !=
                  std::string::npos);
        }
        CHECK(small.bytes_in_use() == 0);
    }

    TEST_CASE("a shard of a sparse table expects its share of the keys") {
        constexpr uint64_t kKeys = 1 << 16;
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const TableSchema schema{
            .name = "t", .layout = Layout::kSparse, .key_count = kKeys, .max_delay = 7};
        HeapMemory memory;
        KnownLists lists(memory, 0);
        const PositionRange first_quarter{0, ~uint64_t{0} / 4};
        const PositionSet quarter(std::span(&first_quarter, 1));
        const auto table = TableShard::make(schema, quarter, rules, memory, lists);
        REQUIRE(table);
        CHECK(memory.bytes_in_use() >= 8 * kKeys / 4 * sizeof(float));
        CHECK(memory.bytes_in_use() < 8 * kKeys / 2 * sizeof(float));
    }

    TEST_CASE("a table takes the memory of its window for what it takes over, or refuses that") {
        constexpr uint64_t kKeys = 1 << 18;  // 1 MiB of values
        constexpr uint64_t kHalf = ~uint64_t{0} / 2;
        const PositionRange first_half{0, kHalf};
        const PositionRange second_half{kHalf + 1, ~uint64_t{0}};
        const PositionSet first(std::span(&first_half, 1));
        const PositionSet second(std::span(&second_half, 1));
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            CAPTURE(static_cast<int>(layout));
            HeapMemory memory;
            KnownLists lists(memory, 0);
            const TableSchema schema{
                .name = "t", .layout = layout, .key_count = kKeys, .max_delay = 3};
            const auto table = *TableShard::make(schema, first, rules, memory, lists);
            const size_t in_use = memory.bytes_in_use();
            const size_t sums = 4 * kKeys / 2 * sizeof(float);
            memory.set_limit(in_use + sums);
            if (layout == Layout::kDense) {
                const Status refused = table->hold(second);  // values and sums
                REQUIRE(refused.code() == Errc::kNoMemory);
                CHECK(refused.error().message().find("the sums of its 4 open iterations") !=
                      std::string::npos);
                CHECK_FALSE(table->held().intersects(second));
                CHECK(table->row_count() == kKeys / 2);
                CHECK(memory.bytes_in_use() == in_use);
            }
            memory.set_limit(in_use + 8 * sums);
            REQUIRE(table->hold(second).has_value());
            table->serve(table->held());
            CHECK(memory.bytes_in_use() >= in_use + sums);
            const std::vector<uint64_t> keys = numbers(kKeys);
            const std::vector<float> ones(kKeys, 1.0F);
            const RowList rows = *table->rows_for_push(keys);
            memory.set_limit(0);
            for (uint64_t i = 1; i <= 4; ++i)
                CHECK(table->push_aggregate(i, rows, std::as_bytes(std::span(ones))));
            for (uint64_t i = 1; i <= 4; ++i)
                table->apply_aggregate(i);
            std::vector<float> out(kKeys);
            REQUIRE(table->pull(rows, std::as_writable_bytes(std::span(out))));
            CHECK(out == std::vector<float>(kKeys, 4));
        }
    }

    TEST_CASE("a sparse table's sums of several iterations fail one by one") {
        HeapMemory memory;
        const auto table =
            made({.name = "t", .layout = Layout::kSparse, .key_count = 0, .max_delay = 1}, memory);
        const std::vector<uint64_t> keys = numbers(1000);
        const std::vector<float> ones(keys.size(), 1.0F);
        const auto bytes = std::as_bytes(std::span(ones));
        const RowList rows = *table->rows_for_push(keys);
        REQUIRE(table->push_aggregate(1, rows, bytes));
        memory.set_limit(0);
        CHECK(table->push_aggregate(2, rows, bytes).code() == Errc::kNoMemory);
        table->drop_aggregate(2);
        REQUIRE(table->push_aggregate(1, rows, bytes));
        table->apply_aggregate(1);
        REQUIRE(table->push_aggregate(3, rows, bytes));  // where that of 1 was
        table->apply_aggregate(3);
        std::vector<float> out(keys.size());
        REQUIRE(table->pull(rows, std::as_writable_bytes(std::span(out))));
        CHECK(out == std::vector<float>(keys.size(), 3.0F));
    }

    TEST_CASE("rows that the last list has made are known, and of a dense table none") {
        HeapMemory memory;
        TableSchema schema{.id = 1,
                           .name = "t",
                           .layout = Layout::kSparse,
                           .width = 3,
                           .rule = "adagrad",
                           .initial_value = 0.25};
        schema.parameters.value = {0.5, 0.01};
        const Made table = made(schema, memory);
        const std::vector<uint64_t> keys = numbers(40, 1'000'003);
        const RowList list = *table->rows_for_push(keys);
        const auto made_count = [&] {
            return std::ranges::count_if(list.rows,
                                         [&](uint32_t row) { return table->was_made(row); });
        };
        CHECK(made_count() == 40);
        const RowList some = *table->rows_for_push(std::span(keys).first(7));
        CHECK(made_count() == 0);
        const std::vector<float> gradient(7 * schema.width, 1.0F);
        REQUIRE(table->push(some, std::as_bytes(std::span(gradient))).has_value());
        schema.layout = Layout::kDense;
        schema.key_count = 10;
        CHECK_FALSE(made(schema, memory)->was_made(0));
    }
}
