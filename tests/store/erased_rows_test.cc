// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables whose rows end: erased by key, expired by stamp, and taken by the vacuum; against a map.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/store/made_table.h"
#include "tests/table_schemas.h"

TEST_SUITE("erased_rows") {
    using namespace weir;

    namespace {

    TableSchema erasable(uint32_t width = 1) {
        TableSchema schema = testing::sparse_table("t", ValueType::kFloat32, width);
        schema.erasable = true;
        return schema;
    }

    void push(Made& table, std::span<const uint64_t> keys, float value, uint32_t stamp = 1) {
        const std::vector<float> values(keys.size() * table->schema().width, value);
        const RowList list = *table->rows_for_push(keys);
        REQUIRE(table->push(list, std::as_bytes(std::span(values)), nullptr, stamp));
    }

    void push_part(Made& table, uint64_t iteration, std::span<const uint64_t> keys, float value) {
        const std::vector<float> values(keys.size() * table->schema().width, value);
        const RowList list = *table->rows_for_push(keys);
        REQUIRE(table->push_aggregate(iteration, list, std::as_bytes(std::span(values))));
    }

    void erase(Made& table, std::span<const uint64_t> keys, std::optional<uint32_t> before = {}) {
        Entries entries;
        entries.list = *table->rows_to_erase(keys);
        REQUIRE(table->erase(entries, before));
    }

    std::vector<float> pulled(Made& table, std::span<const uint64_t> keys) {
        std::vector<float> values(keys.size() * table->schema().width);
        const RowList list = *table->rows_for_pull(keys);
        REQUIRE(table->pull(list, std::as_writable_bytes(std::span(values))));
        return values;
    }

    bool is_written(Made& table, uint64_t key) {
        return table->is_written(table->rows_for_pull({&key, 1})->rows.front());
    }

    std::set<uint64_t> listed(Made& table) {
        std::set<uint64_t> keys;
        ListedRows rows;
        for (KeyCursor at; !at.at_end;) {
            table->list(at, PositionSet::whole_ring(), 100, rows);
            for (const uint64_t key : rows.keys)
                CHECK(keys.insert(key).second);
        }
        std::set<uint64_t> by_row;
        for (KeyCursor at; !at.at_end;) {
            if (!table->list_by_row(at, PositionSet::whole_ring(), 100, rows)) break;
            std::vector<uint64_t> some(rows.row_count());
            table->copy_keys(rows, std::as_writable_bytes(std::span(some)));
            by_row.insert(some.begin(), some.end());
        }
        CHECK(by_row == keys);
        return keys;
    }

    void vacuum(Made& table) {
        while (table->wants_vacuum())
            table->vacuum_some();
    }

    }  // namespace

    TEST_CASE("an erased key reads as one that was never pushed, and its next push begins anew") {
        HeapMemory memory;
        TableSchema schema = erasable(3);
        schema.initial_value = 7;
        SUBCASE("constant") {}
        SUBCASE("random") {
            schema.initial_value = uniform(-1, 1, 5);
        }
        Made table = made(schema, memory);
        const std::vector<uint64_t> keys = numbers(10);
        const std::vector<float> initial = pulled(table, keys);
        push(table, keys, 1);
        CHECK(table->written_count() == 10);
        erase(table, std::vector<uint64_t>{2, 3, 50});
        CHECK(table->written_count() == 8);
        CHECK_FALSE(is_written(table, 2));
        CHECK_FALSE(is_written(table, 50));
        CHECK(is_written(table, 4));
        CHECK(listed(table) == std::set<uint64_t>{0, 1, 4, 5, 6, 7, 8, 9});
        const std::vector<float> now = pulled(table, keys);
        for (size_t i = 0; i < now.size(); ++i) {
            CAPTURE(i);
            const bool is_erased = i / 3 == 2 || i / 3 == 3;
            CHECK(now[i] == initial[i] + (is_erased ? 0 : 1));
        }
        push(table, keys, 1);
        CHECK(table->written_count() == 10);
        CHECK(pulled(table, keys)[6] == initial[6] + 1);
    }

    TEST_CASE("the state of a rule ends with its row") {
        HeapMemory memory;
        TableSchema schema = erasable();
        schema.rule = "adagrad";
        schema.parameters.value = {0.5, 1e-8};
        Made table = made(schema, memory);
        const std::vector<uint64_t> keys{5};
        push(table, keys, 1);
        const float first = pulled(table, keys)[0];
        push(table, keys, 1);
        erase(table, keys);
        CHECK(pulled(table, keys)[0] == 0);
        push(table, keys, 1);
        CHECK(pulled(table, keys)[0] == first);
    }

    TEST_CASE("only rows with a lower stamp expire, and a row keeps the greatest one") {
        HeapMemory memory;
        Made table = made(erasable(), memory);
        push(table, std::vector<uint64_t>{1, 2, 3}, 1, 10);
        push(table, std::vector<uint64_t>{2}, 1, 20);
        push(table, std::vector<uint64_t>{2, 4}, 1, 5);
        erase(table, numbers(10), 10);
        CHECK(listed(table) == std::set<uint64_t>{1, 2, 3});
        erase(table, numbers(10), 20);
        CHECK(listed(table) == std::set<uint64_t>{2});
        push(table, std::vector<uint64_t>{3}, 1, 3);  // what was erased begins at 0
        erase(table, numbers(10), 4);
        CHECK(listed(table) == std::set<uint64_t>{2});
    }

    TEST_CASE(
        "rows that were made for a sum are empty until it is applied, and get its iteration") {
        HeapMemory memory;
        Made table = made(erasable(), memory);
        const std::vector<uint64_t> keys{1, 2};
        push_part(table, 6, keys, 3);
        CHECK(table->row_count() == 2);
        CHECK(table->written_count() == 0);
        CHECK(listed(table).empty());
        erase(table, keys);
        table->apply_aggregate(6);
        CHECK(pulled(table, keys) == std::vector<float>{3, 3});
        CHECK(table->written_count() == 2);
        erase(table, keys, 6);
        CHECK(table->written_count() == 2);
        erase(table, keys, 7);
        CHECK(table->written_count() == 0);
    }

    TEST_CASE("the vacuum takes no row of which an open iteration has a sum") {
        HeapMemory memory;
        Made table = made(erasable(), memory);
        const std::vector<uint64_t> keys = numbers(4000);
        push(table, keys, 1);
        const std::vector<uint64_t> summed = numbers(1000, 4);
        push_part(table, 3, summed, 2);
        erase(table, keys);
        vacuum(table);
        CHECK(table->row_count() == 1000);
        std::vector<uint64_t> others(3000);  // take the room of those that went
        for (size_t i = 0; i < others.size(); ++i)
            others[i] = 10'000 + i;
        push(table, others, 5);
        table->apply_aggregate(3);
        CHECK(pulled(table, summed) == std::vector<float>(1000, 2));
        CHECK(pulled(table, others) == std::vector<float>(3000, 5));
        CHECK(table->written_count() == 4000);
        erase(table, summed);
        CHECK(table->wants_vacuum());
    }

    TEST_CASE("a list that is known by its hash is forgotten when the vacuum takes rows") {
        HeapMemory memory;
        Made table = made(erasable(), memory);
        const std::vector<uint64_t> keys = numbers(2000);
        push(table, keys, 1);
        const ListId id = table->rows_for_push(keys)->id;
        REQUIRE(table->known_rows(id));
        erase(table, keys);
        CHECK(table->known_rows(id));
        vacuum(table);
        CHECK(table->known_rows(id).code() == Errc::kUnknownList);
        CHECK(table->row_count() == 0);
    }

    TEST_CASE("while a snapshot is kept the vacuum waits, and the snapshot has what was there") {
        HeapMemory memory;
        Made table = made(erasable(), memory);
        const std::vector<uint64_t> keys = numbers(2000);
        push(table, keys, 1);
        erase(table, std::span(keys).first(500));
        REQUIRE(table->keep_snapshot());
        CHECK_FALSE(table->wants_vacuum());
        erase(table, std::span(keys).subspan(1000));
        push(table, std::span(keys).first(10), 4);
        CHECK_FALSE(table->wants_vacuum());
        std::map<uint64_t, float> read;
        ListedRows rows;
        for (KeyCursor at; !at.at_end;) {
            table->list_snapshot(at, PositionSet::whole_ring(), 100, rows);
            std::vector<float> values(rows.keys.size());
            std::vector<std::byte> state(rows.keys.size() * table->row_layout().state_bytes);
            table->read_snapshot(rows, std::as_writable_bytes(std::span(values)), state);
            for (size_t i = 0; i < values.size(); ++i)
                read[rows.keys[i]] = values[i];
        }
        CHECK(read.size() == 1500);
        CHECK(read.begin()->first == 500);
        CHECK(std::ranges::all_of(read, [](const auto& row) { return row.second == 1; }));
        CHECK_FALSE(table->is_snapshot_spoilt());
        (void)table->take_snapshot();
        CHECK(table->wants_vacuum());
    }

    TEST_CASE("rows that come from elsewhere bring their marks: an empty one makes no row") {
        HeapMemory memory;
        TableSchema schema = erasable(2);
        schema.initial_value = normal(0, 1, 9);
        Made from = made(schema, memory);
        Made to = made(schema, memory);
        const std::vector<uint64_t> keys = numbers(20);
        push(from, std::span(keys).first(10), 1, 4);
        push(to, std::span(keys).subspan(5), 2);
        erase(from, std::vector<uint64_t>{3, 7});
        const RowList list = *from->rows_for_pull(keys);
        std::vector<std::byte> values(keys.size() * from->row_layout().value_bytes());
        std::vector<std::byte> state(keys.size() * from->row_layout().state_bytes);
        from->copy_values(list.rows, values);
        from->copy_state(list.rows, state);
        CHECK(to->has_empty(state));
        REQUIRE(to->take(keys, values, state));
        CHECK(listed(to) == listed(from));
        CHECK(pulled(to, keys) == pulled(from, keys));
        CHECK(to->row_count() == 19);  // 0, 1, 2, 4, and what it had
        erase(to, keys, 4);
        CHECK(to->written_count() == 8);
        erase(to, keys, 5);
        CHECK(to->written_count() == 0);
    }

    TEST_CASE("whole rows keep their stamps, and are never empty") {
        HeapMemory memory;
        Made table = made(erasable(), memory);
        const std::vector<uint64_t> keys{1, 2};
        push(table, std::span(keys).first(1), 3, 9);
        Entries entries;
        entries.list = *table->rows_for_pull(keys);
        std::vector<std::byte> rows(2 * table->row_layout().row_bytes());
        REQUIRE(table->pull_rows(entries, rows));
        erase(table, keys);
        entries.list = *table->rows_for_push(keys);
        REQUIRE(table->push_rows(entries, rows, 4));
        CHECK(pulled(table, keys) == std::vector<float>{3, 0});
        erase(table, keys, 5);
        CHECK(listed(table) == std::set<uint64_t>{1});
        erase(table, keys, 10);
        CHECK(listed(table).empty());
    }

    TEST_CASE("a table that gains and loses keys again and again uses its memory again") {
        HeapMemory memory;
        constexpr size_t kKeys = 20'000;
        const auto round = [](size_t number) {
            std::vector<uint64_t> keys = numbers(kKeys);
            for (uint64_t& key : keys)
                key += number * kKeys;
            return keys;
        };
        Made fresh = made(erasable(8), memory);
        push(fresh, round(0), 1);
        const size_t live_bytes = fresh->bytes();
        Made table = made(erasable(8), memory);
        size_t most = 0;
        for (size_t i = 0; i < 20; ++i) {
            push(table, round(i), 1);
            most = std::max(most, table->bytes());
            const std::vector<uint64_t> keys = round(i);
            for (size_t at = 0; at < kKeys; at += 1000) {
                erase(table, std::span(keys).subspan(at, 1000));
                vacuum(table);
            }
            CHECK(table->written_count() == 0);
        }
        CHECK(static_cast<double>(most) <= 1.5 * static_cast<double>(live_bytes));
    }

    TEST_CASE("while keys come and go between its steps, the vacuum keeps pace with them") {
        constexpr size_t kLive = 100'000;  // of several segments of the index
        constexpr size_t kSome = 5'000;
        HeapMemory memory;
        Made table = made(erasable(), memory);
        std::vector<uint64_t> keys(kLive);
        for (uint64_t round = 0; round < 8; ++round) {
            for (size_t i = 0; i < kLive; ++i)
                keys[i] = round * kLive + i;
            for (size_t at = 0; at < kLive; at += kSome) {
                push(table, std::span(keys).subspan(at, kSome), 1);
                table->vacuum_some();
                CHECK(table->row_count() <= kLive * 3 / 2);
            }
            CHECK(table->written_count() == kLive);
            for (size_t at = 0; at < kLive; at += kSome) {
                erase(table, std::span(keys).subspan(at, kSome));
                table->vacuum_some();
            }
        }
        while (table->wants_vacuum())
            table->vacuum_some();
        CHECK(table->row_count() == 0);
    }

    TEST_CASE("pushes, erasing, expiry, sums and the vacuum in any order are as of a map") {
        WEIR_TEST_SEED(seed, 4711);
        Random random(seed);
        HeapMemory memory;
        TableSchema schema = erasable(2);
        if (random.below(2) == 0) schema.initial_value = uniform(0, 4, 3);
        Made table = made(schema, memory);

        struct Row {
            float added = 0;
            uint32_t stamp = 0;
        };

        std::map<uint64_t, Row> rows;
        std::map<uint64_t, float> sum;
        uint64_t iteration = 1;
        const std::vector<uint64_t> all = numbers(3000);
        Made initial = made(schema, memory);
        const std::vector<float> first = pulled(initial, all);
        const auto draw = [&] {
            std::vector<uint64_t> keys;
            const uint64_t of = 1 + random.below(8);
            for (const uint64_t key : all) {
                if (random.below(of) == 0) keys.push_back(key);
            }
            if (keys.empty()) keys.push_back(random.below(3000));
            return keys;
        };
        for (int step = 0; step < 300; ++step) {
            const std::vector<uint64_t> keys = draw();
            switch (random.below(6)) {
                case 0:
                case 1: {
                    const auto stamp = static_cast<uint32_t>(1 + random.below(50));
                    push(table, keys, 1, stamp);
                    for (const uint64_t key : keys) {
                        ++rows[key].added;
                        rows[key].stamp = std::max(rows[key].stamp, stamp);
                    }
                    break;
                }
                case 2: {
                    erase(table, keys);
                    for (const uint64_t key : keys)
                        rows.erase(key);
                    break;
                }
                case 3: {
                    const auto before = static_cast<uint32_t>(1 + random.below(60));
                    erase(table, keys, before);
                    for (const uint64_t key : keys) {
                        if (rows.contains(key) && rows[key].stamp < before) rows.erase(key);
                    }
                    break;
                }
                case 4:
                    push_part(table, iteration, keys, 2);
                    for (const uint64_t key : keys)
                        sum[key] += 2;
                    break;
                default:
                    if (random.below(2) == 0) {
                        table->apply_aggregate(iteration);
                        for (const auto& [key, value] : sum) {
                            rows[key].added += value;
                            rows[key].stamp =
                                std::max(rows[key].stamp, static_cast<uint32_t>(iteration));
                        }
                    } else {
                        table->drop_aggregate(iteration);
                    }
                    sum.clear();
                    ++iteration;
            }
            for (uint64_t some = random.below(6); some > 0; --some)
                table->vacuum_some();
            CHECK(table->written_count() == rows.size());
            if (step % 20 != 0) continue;
            const std::vector<float> values = pulled(table, all);
            bool is_right = true;
            for (const uint64_t key : all) {
                const float added = rows.contains(key) ? rows[key].added : 0;
                is_right &= std::abs(values[2 * key] - first[2 * key] - added) < 1e-3F;
                is_right &= is_written(table, key) == rows.contains(key);
            }
            CHECK(is_right);
            CHECK(listed(table).size() == rows.size());
        }
    }

    TEST_CASE("erasing in another table, or a range, is refused") {
        HeapMemory memory;
        Made plain = made(testing::sparse_table("t"), memory);
        Entries entries;
        const std::vector<uint64_t> keys{1};
        entries.list = *plain->rows_to_erase(keys);
        CHECK(plain->erase(entries).code() == Errc::kInvalidArgument);
        Made table = made(erasable(), memory);
        entries.is_range = true;
        entries.range = {0, 1};
        CHECK(table->erase(entries).code() == Errc::kInvalidArgument);
        TableSchema dense = testing::dense_table("t", 10);
        dense.erasable = true;
        KnownLists lists(memory, 1 << 20);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto refused =
            TableShard::make(dense, PositionSet::whole_ring(), rules, memory, lists);
        CHECK(refused.code() == Errc::kInvalidArgument);
    }
}
