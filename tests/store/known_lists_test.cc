// SPDX-License-Identifier: Apache-2.0
#include "lib/store/index/known_lists.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"

TEST_SUITE("known_lists") {
    using namespace weir;

    static std::vector<uint64_t> list_from(uint64_t first, size_t count) {
        std::vector<uint64_t> keys(count);
        for (size_t i = 0; i < count; ++i)
            keys[i] = first + i * 3;
        return keys;
    }

    constexpr uint32_t kTable = 3;

    static uint32_t first_row(const KnownLists::Entry& list) {
        REQUIRE(list != nullptr);
        return list->rows.as<const uint32_t>()[0];
    }

    static void keep(KnownLists & cache, const std::vector<uint64_t>& keys, uint32_t mark) {
        Block rows = cache.reserve(keys.size());
        REQUIRE(rows);
        rows.as<uint32_t>()[0] = mark;
        cache.keep(kTable, list_id(keys), std::move(rows));
    }

    TEST_CASE("the list that was not used for longest is forgotten first") {
        HeapMemory memory;
        KnownLists cache(memory, 3 * (100 * sizeof(uint32_t) + KnownLists::kEntryBytes));
        const auto a = list_from(1, 100);
        const auto b = list_from(2, 100);
        const auto c = list_from(3, 100);
        const auto d = list_from(4, 100);
        keep(cache, a, 10);
        keep(cache, b, 11);
        keep(cache, c, 12);
        CHECK(first_row(cache.find(kTable, list_id(a))) == 10);
        keep(cache, d, 13);
        CHECK(cache.find(kTable, list_id(b)) == nullptr);
        CHECK(first_row(cache.find(kTable, list_id(a))) == 10);
        CHECK(first_row(cache.find(kTable, list_id(c))) == 12);
        CHECK(cache.list_count() == 3);
        CHECK(memory.bytes_in_use() + 3 * KnownLists::kEntryBytes == cache.bytes());
    }

    TEST_CASE("an equal hash with another count or other ends is another list") {
        HeapMemory memory;
        KnownLists cache(memory, 1 << 20);
        keep(cache, list_from(1, 100), 10);
        ListId id = list_id(list_from(1, 100));
        REQUIRE(cache.find(kTable, id) != nullptr);
        for (uint64_t ListId::*field : {&ListId::count, &ListId::first_key, &ListId::last_key}) {
            ListId other = id;
            other.*field += 1;
            CHECK(cache.find(kTable, other) == nullptr);
        }
        // And where both are kept, the later one replaces the first.
        ListId twin = id;
        twin.last_key += 1;
        cache.keep(kTable, twin, cache.reserve(100));
        CHECK(cache.find(kTable, twin) != nullptr);
        CHECK(cache.find(kTable, id) == nullptr);
        CHECK(cache.list_count() == 1);
    }

    TEST_CASE("short lists and lists beyond the budget are not kept") {
        HeapMemory memory;
        KnownLists cache(memory, 1000);
        CHECK_FALSE(cache.reserve(kRememberedKeysMin - 1));
        CHECK(cache.reserve(kRememberedKeysMin));
        CHECK_FALSE(cache.reserve(251));
        CHECK_FALSE(cache.reserve(size_t{1} << 40));
    }

    TEST_CASE("when memory is short, old lists make room for new ones") {
        HeapMemory heap(1000);
        MemoryWithCaches memory(heap);
        KnownLists cache(memory, 1 << 20);
        memory.add(cache);
        keep(cache, list_from(1, 200), 10);
        keep(cache, list_from(2, 200), 11);
        CHECK(cache.list_count() == 1);
        CHECK(first_row(cache.find(kTable, list_id(list_from(2, 200)))) == 11);
    }

    TEST_CASE("the oldest are given back first, and rows that somebody holds never") {
        HeapMemory memory;
        KnownLists cache(memory, 1 << 20);
        for (uint64_t i = 1; i <= 5; ++i)
            keep(cache, list_from(i, 100), static_cast<uint32_t>(i));
        KnownLists::Entry held = cache.find(kTable, list_id(list_from(2, 100)));
        held = cache.find(kTable, list_id(list_from(1, 100)));  // the newest now, before list 2
        CHECK(cache.give_back(401) == 800);
        CHECK(cache.find(kTable, list_id(list_from(3, 100))) == nullptr);
        CHECK(cache.find(kTable, list_id(list_from(4, 100))) == nullptr);
        CHECK(cache.find(kTable, list_id(list_from(5, 100))) != nullptr);
        CHECK(cache.give_back(1 << 20) == 800);
        CHECK(cache.list_count() == 1);
        CHECK(first_row(held) == 1);
        held.reset();
        CHECK(cache.give_back(1) == 400);
        CHECK(memory.bytes_in_use() == 0);
        CHECK(cache.bytes() == 0);
    }

    TEST_CASE("a list that is held makes no room for others, and is forgotten with its positions") {
        HeapMemory memory;
        KnownLists cache(memory, 400 + KnownLists::kEntryBytes);
        keep(cache, list_from(1, 100), 10);
        KnownLists::Entry held = cache.find(kTable, list_id(list_from(1, 100)));
        CHECK_FALSE(cache.reserve(100));
        CHECK(cache.keep_without_rows(kTable, list_id(list_from(2, 100))) == nullptr);
        CHECK(cache.known(kTable, list_id(list_from(1, 100))).has_value());
        cache.forget(kTable, PositionSlices::whole_ring());
        CHECK(cache.known(kTable, list_id(list_from(1, 100))).code() == Errc::kUnknownList);
        CHECK(first_row(held) == 10);  // its memory lives as long as it is held
        CHECK(cache.bytes() == 0);
        held.reset();
        CHECK(memory.bytes_in_use() == 0);
        keep(cache, list_from(2, 100), 11);
        CHECK(cache.list_count() == 1);
    }

    TEST_CASE("a list without rows is not known, and its rows may come later") {
        HeapMemory memory;
        KnownLists cache(memory, 1 << 20);
        const ListId id = list_id(list_from(1, 100));
        const KnownLists::Entry entry = cache.keep_without_rows(kTable, id);
        REQUIRE(entry != nullptr);
        CHECK(cache.list_count() == 0);
        CHECK(cache.find(kTable, id) == entry);
        CHECK(cache.known(kTable, id).code() == Errc::kUnknownList);
        keep(cache, list_from(1, 100), 10);
        CHECK(cache.list_count() == 1);
        CHECK(cache.known(kTable, id).has_value());
    }

    TEST_CASE("segments are known for the generation for which they were found") {
        HeapMemory memory;
        KnownLists cache(memory, 1 << 20);
        const ListId id = list_id(list_from(1, 100));
        keep(cache, list_from(1, 100), 10);
        const SegmentList held(7, {{0, ~uint64_t{0}}});
        CHECK(cache.known(kTable, id).has_value());
        CHECK(cache.known(kTable, id, &held).code() == Errc::kUnknownList);
        cache.marks().reset(held);
        cache.marks().mark(0);
        const size_t before = cache.bytes();
        cache.set_segments(*cache.find(kTable, id), cache.marks().touched());
        CHECK(cache.bytes() == before + sizeof(SegmentRun));
        CHECK(cache.known(kTable, id, &held).has_value());
        const SegmentList later(8, {{0, ~uint64_t{0}}});
        CHECK(cache.known(kTable, id, &later).code() == Errc::kUnknownList);
    }

    TEST_CASE("segments count in the budget") {
        HeapMemory memory;
        KnownLists cache(memory, 400 + KnownLists::kEntryBytes);
        keep(cache, list_from(1, 100), 10);
        const SegmentList held(7, {{0, ~uint64_t{0}}});
        cache.marks().reset(held);
        cache.marks().mark(0);
        const KnownLists::Entry entry = cache.find(kTable, list_id(list_from(1, 100)));
        cache.set_segments(*entry, cache.marks().touched());
        CHECK(cache.bytes() == 0);
        CHECK(cache.find(kTable, list_id(list_from(1, 100))) == nullptr);
    }

    TEST_CASE("one list has other rows in another table") {
        HeapMemory memory;
        KnownLists cache(memory, 1 << 20);
        const ListId id = list_id(list_from(1, 100));
        keep(cache, list_from(1, 100), 10);
        CHECK(cache.find(kTable + 1, id) == nullptr);
        Block rows = cache.reserve(100);
        rows.as<uint32_t>()[0] = 20;
        cache.keep(kTable + 1, id, std::move(rows));
        CHECK(first_row(cache.find(kTable, id)) == 10);
        CHECK(first_row(cache.find(kTable + 1, id)) == 20);
    }

    TEST_CASE("a list pulled before its keys were written sees them once they are") {
        HeapMemory memory;
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        KnownLists lists(memory, 1 << 20);
        const auto table = *TableShard::make({.name = "t", .layout = Layout::kSparse},
                                             PositionSet::whole_ring(), rules, memory, lists);
        const auto keys = list_from(5, 5000);
        const RowList before = *table->rows_for_pull(keys);
        CHECK(before.remembered == nullptr);
        CHECK(before.rows[0] == kNoRow);
        CHECK(table->known_rows(list_id(keys)).code() == Errc::kUnknownList);
        CHECK(table->row_count() == 0);

        // All but one of the keys come, in another list.
        std::vector<uint64_t> most(keys.begin(), keys.end() - 1);
        const std::vector<float> ones(most.size(), 1.0F);
        REQUIRE(table->push(*table->rows_for_push(most), std::as_bytes(std::span(ones))));
        std::vector<float> out(keys.size(), -1.0F);
        const RowList half = *table->rows_for_pull(keys);
        CHECK(half.remembered == nullptr);
        REQUIRE(table->pull(half, std::as_writable_bytes(std::span(out))));
        CHECK(out.front() == 1.0F);
        CHECK(out.back() == 0.0F);

        const std::vector<float> twos(keys.size(), 2.0F);
        REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(twos))));
        CHECK(table->rows_for_pull(keys)->remembered != nullptr);
        REQUIRE(
            table->pull(*table->known_rows(list_id(keys)), std::as_writable_bytes(std::span(out))));
        CHECK(out.front() == 3.0F);
        CHECK(out.back() == 2.0F);
    }
}
