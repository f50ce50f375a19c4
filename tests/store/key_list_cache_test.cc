// SPDX-License-Identifier: Apache-2.0
#include "lib/store/key_list_cache.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/store/table.h"

TEST_SUITE("key_list_cache") {
    using namespace weir;

    static std::vector<uint64_t> list_from(uint64_t first, size_t count) {
        std::vector<uint64_t> keys(count);
        for (size_t i = 0; i < count; ++i)
            keys[i] = first + i * 3;
        return keys;
    }

    static void keep(KeyListCache & cache, const std::vector<uint64_t>& keys, uint32_t mark) {
        Block rows = cache.reserve(keys.size());
        REQUIRE(rows);
        rows.as<uint32_t>()[0] = mark;
        cache.keep(list_id(keys), std::move(rows));
    }

    TEST_CASE("the list that was not used for longest is forgotten first") {
        HeapMemory memory;
        KeyListCache cache(memory, 3 * 100 * sizeof(uint32_t));
        const auto a = list_from(1, 100);
        const auto b = list_from(2, 100);
        const auto c = list_from(3, 100);
        const auto d = list_from(4, 100);
        keep(cache, a, 10);
        keep(cache, b, 11);
        keep(cache, c, 12);
        CHECK((*cache.find(list_id(a)))[0] == 10);
        keep(cache, d, 13);
        CHECK_FALSE(cache.find(list_id(b)).has_value());
        CHECK((*cache.find(list_id(a)))[0] == 10);
        CHECK((*cache.find(list_id(c)))[0] == 12);
        CHECK(cache.list_count() == 3);
        CHECK(memory.bytes_in_use() == cache.bytes());
    }

    TEST_CASE("an equal hash with another count or other ends is another list") {
        HeapMemory memory;
        KeyListCache cache(memory, 1 << 20);
        keep(cache, list_from(1, 100), 10);
        ListId id = list_id(list_from(1, 100));
        REQUIRE(cache.find(id).has_value());
        for (uint64_t ListId::*field : {&ListId::count, &ListId::first_key, &ListId::last_key}) {
            ListId other = id;
            other.*field += 1;
            CHECK_FALSE(cache.find(other).has_value());
        }
        // And where both are kept, the later one replaces the first.
        ListId twin = id;
        twin.last_key += 1;
        cache.keep(twin, cache.reserve(100));
        CHECK(cache.find(twin).has_value());
        CHECK_FALSE(cache.find(id).has_value());
        CHECK(cache.list_count() == 1);
    }

    TEST_CASE("short lists and lists beyond the budget are not kept") {
        HeapMemory memory;
        KeyListCache cache(memory, 1000);
        CHECK_FALSE(cache.reserve(KeyListCache::kKeyCountMin - 1));
        CHECK(cache.reserve(KeyListCache::kKeyCountMin));
        CHECK_FALSE(cache.reserve(251));
        CHECK_FALSE(cache.reserve(size_t{1} << 40));
    }

    TEST_CASE("when memory is short, old lists make room for new ones") {
        HeapMemory memory(1000);
        KeyListCache cache(memory, 1 << 20);
        keep(cache, list_from(1, 200), 10);
        keep(cache, list_from(2, 200), 11);
        CHECK(cache.list_count() == 1);
        CHECK((*cache.find(list_id(list_from(2, 200))))[0] == 11);
    }

    TEST_CASE("a list pulled before its keys were written sees them once they are") {
        HeapMemory memory;
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto table = *TableShard::make({.name = "t", .layout = Layout::kSparse},
                                             PositionSet::whole_ring(), rules, memory);
        const auto keys = list_from(5, 5000);
        const RowList before = *table->rows_for_pull(keys);
        CHECK_FALSE(before.remembered);
        CHECK(before.rows[0] == kNoRow);
        CHECK(table->known_rows(list_id(keys)).code() == Errc::kUnknownList);
        CHECK(table->row_count() == 0);

        // All but one of the keys come, in another list.
        std::vector<uint64_t> most(keys.begin(), keys.end() - 1);
        const std::vector<float> ones(most.size(), 1.0F);
        REQUIRE(table->push(*table->rows_for_push(most), std::as_bytes(std::span(ones))));
        std::vector<float> out(keys.size(), -1.0F);
        const RowList half = *table->rows_for_pull(keys);
        CHECK_FALSE(half.remembered);
        REQUIRE(table->pull(half, std::as_writable_bytes(std::span(out))));
        CHECK(out.front() == 1.0F);
        CHECK(out.back() == 0.0F);

        const std::vector<float> twos(keys.size(), 2.0F);
        REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(twos))));
        CHECK(table->rows_for_pull(keys)->remembered);
        REQUIRE(
            table->pull(*table->known_rows(list_id(keys)), std::as_writable_bytes(std::span(out))));
        CHECK(out.front() == 3.0F);
        CHECK(out.back() == 2.0F);
    }
}
