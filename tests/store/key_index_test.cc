// SPDX-License-Identifier: Apache-2.0
#include "lib/store/key_index.h"

#include <set>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/table.h"
#include "tests/seed.h"

TEST_SUITE("key_index") {
    using namespace weir;

    static Status upsert(KeyIndex & index, std::span<const uint64_t> keys,
                         std::span<uint32_t> rows) {
        const size_t missing = index.find(keys, rows);
        return index.insert_missing(keys, rows, missing);
    }

    TEST_CASE("every key keeps its row while the index grows, and strangers have none") {
        WEIR_TEST_SEED(seed, 41);
        Random random(seed);
        // Random keys, neighbours, multiples of powers of two, keys that differ at the top only.
        for (const int pattern : {0, 1, 2, 3}) {
            HeapMemory memory;
            KeyIndex index(memory);
            std::unordered_map<uint64_t, uint32_t> model;
            const auto key_of = [&](uint64_t i) {
                if (pattern == 0) return mix64(i + seed);
                if (pattern == 1) return i;
                if (pattern == 2) return i << 32;
                return ~(i << 44);
            };
            for (uint64_t next = 0; next < 60'000;) {
                std::set<uint64_t> chosen;
                const uint64_t count = 1 + random.below(3000);
                for (uint64_t i = 0; i < count; ++i)
                    chosen.insert(key_of(random.below(next + count)));
                next += count / 2;
                const std::vector<uint64_t> keys(chosen.begin(), chosen.end());
                std::vector<uint32_t> rows(keys.size());
                REQUIRE(upsert(index, keys, rows));
                bool right = true;
                for (size_t i = 0; i < keys.size(); ++i) {
                    const auto [at, fresh] = model.try_emplace(keys[i], rows[i]);
                    right &= at->second == rows[i] && rows[i] < index.size();
                }
                CHECK(right);
                REQUIRE(index.size() == model.size());
            }
            std::vector<uint64_t> probes;
            for (uint64_t i = 0; i < 100'000; ++i)
                probes.push_back(key_of(i));
            std::vector<uint32_t> rows(probes.size());
            size_t missing = index.find(probes, rows);
            bool right = true;
            for (size_t i = 0; i < probes.size(); ++i) {
                const auto at = model.find(probes[i]);
                right &= rows[i] == (at == model.end() ? kNoRow : at->second);
                missing -= at == model.end() ? 1 : 0;
            }
            CHECK(right);
            CHECK(missing == 0);
        }
    }

    TEST_CASE("0 and 2^64 - 1 are keys like others, there only once they were inserted") {
        HeapMemory memory;
        KeyIndex index(memory);
        const uint64_t ends[] = {0, ~uint64_t{0}};
        uint32_t rows[2];
        CHECK(index.find(ends, rows) == 2);
        for (uint64_t key = 1; key <= 2000; ++key) {  // buckets of every filling
            uint32_t row[1];
            REQUIRE(upsert(index, std::span(&key, 1), row));
            REQUIRE(index.find(ends, rows) == 2);
        }
        REQUIRE(upsert(index, ends, rows));
        CHECK(rows[0] == 2000);
        CHECK(rows[1] == 2001);
        CHECK(index.find(ends, rows) == 0);
    }

    TEST_CASE("without memory an insert fails and all that was there stays") {
        HeapMemory memory;
        KeyIndex index(memory);
        std::vector<uint64_t> keys(20);
        for (size_t i = 0; i < keys.size(); ++i)
            keys[i] = i * 7;
        std::vector<uint32_t> rows(keys.size());
        REQUIRE(upsert(index, keys, rows));
        memory.set_limit(memory.bytes_in_use());
        std::vector<uint64_t> more(1000);
        for (size_t i = 0; i < more.size(); ++i)
            more[i] = 1000 + i;
        std::vector<uint32_t> more_rows(more.size());
        CHECK(upsert(index, more, more_rows).code() == Errc::kNoMemory);
        CHECK(index.size() == 20);
        CHECK(index.find(keys, rows) == 0);
        CHECK(index.find(more, more_rows) == 1000);
        memory.set_limit(~size_t{0});
        CHECK(upsert(index, more, more_rows));
        CHECK(more_rows.back() == 1019);
    }

    TEST_CASE("an expectation beyond all memory does no harm") {
        HeapMemory memory(1 << 20);
        KeyIndex index(memory, ~size_t{0});
        const uint64_t keys[] = {1, 2, 3};
        uint32_t rows[3];
        REQUIRE(upsert(index, keys, rows));
        CHECK(rows[2] == 2);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        TableSchema schema{.layout = Layout::kSparse, .key_count = ~uint64_t{0}};
        KeyListCache lists(memory, 1 << 20);
        const auto table =
            *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists);
        CHECK(table->rows_for_push(keys)->rows[2] == 2);
    }

    TEST_CASE("what was expected fits without growing") {
        HeapMemory memory;
        KeyIndex index(memory, 10'000);
        std::vector<uint64_t> keys(1);
        std::vector<uint32_t> rows(1);
        REQUIRE(upsert(index, keys, rows));
        memory.set_limit(memory.bytes_in_use());
        for (uint64_t key = 1; key < 10'000; ++key) {
            keys[0] = mix64(key);
            REQUIRE(upsert(index, keys, rows));
        }
    }
}
