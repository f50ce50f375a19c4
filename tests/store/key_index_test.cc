// SPDX-License-Identifier: Apache-2.0
#include "lib/store/index/key_index.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"
#include "tests/seed.h"
#include "tests/store/next_rows.h"

TEST_SUITE("key_index") {
    using namespace weir;
    using weir::testing::next_rows;

    static Status upsert(KeyIndex & index, std::span<const uint64_t> keys,
                         std::span<uint32_t> rows) {
        const size_t missing = index.find(keys, rows);
        WEIR_TRY(index.insert_missing(keys, rows, next_rows(index, missing)));
        return {};
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

    /// Every way to compare keys that this processor has.
    static std::vector<KeyCompare> compares() {
        std::vector<KeyCompare> all{KeyCompare::kPortable};
        if (best_key_compare() != KeyCompare::kPortable) all.push_back(KeyCompare::kAvx2);
        if (best_key_compare() == KeyCompare::kAvx512) all.push_back(KeyCompare::kAvx512);
        return all;
    }

    TEST_CASE("histories of finds and inserts are those of a map, whatever compares the keys") {
        WEIR_TEST_SEED(seed, 42);
        for (const KeyCompare compare : compares()) {
            CAPTURE(static_cast<int>(compare));
            Random random(seed);
            HeapMemory memory;
            KeyIndex index(memory, {.expected_keys = random.below(2) * random.below(300'000),
                                    .compare = compare});
            std::unordered_map<uint64_t, uint32_t> model;
            bool right = true;
            // Far enough for segments that are split, and split again.
            const uint64_t span = 400'000;
            while (model.size() < 250'000) {
                std::set<uint64_t> chosen;
                const uint64_t wanted = 1 + random.below(5000);
                for (uint64_t i = 0; i < wanted; ++i)
                    chosen.insert(mix64(random.below(span)));  // 0 is one of them
                const std::vector<uint64_t> keys(chosen.begin(), chosen.end());
                std::vector<uint32_t> rows(keys.size());
                const size_t missing = index.find(keys, rows);
                size_t model_missing = 0;
                for (size_t i = 0; i < keys.size(); ++i) {
                    const auto at = model.find(keys[i]);
                    right &= rows[i] == (at == model.end() ? kNoRow : at->second);
                    model_missing += at == model.end() ? 1 : 0;
                }
                right &= missing == model_missing;
                if (random.below(4) == 0) continue;
                if (index.has_room_for(keys.size())) {
                    std::ranges::fill(rows, 0U);
                    index.upsert(keys, rows);
                } else {
                    REQUIRE(index.insert_missing(keys, rows, next_rows(index, missing)));
                }
                for (size_t i = 0; i < keys.size(); ++i) {
                    const auto next = static_cast<uint32_t>(model.size());
                    right &= rows[i] == model.try_emplace(keys[i], next).first->second;
                }
                right &= index.size() == model.size();
            }
            CHECK(right);
        }
    }

    TEST_CASE("an index grows in small steps of memory, without a second one beside it") {
        HeapMemory memory;
        KeyIndex index(memory);
        std::vector<uint64_t> keys(100);
        std::vector<uint32_t> rows(keys.size());
        constexpr size_t kSegmentBytes = KeyIndex::kSegmentBuckets * sizeof(KeyBucket);
        size_t before = 0;
        size_t largest_step = 0;
        for (uint64_t next = 0; next < 1'000'000; next += keys.size()) {
            for (size_t i = 0; i < keys.size(); ++i)
                keys[i] = mix64(next + i);
            REQUIRE(upsert(index, keys, rows));
            const size_t now = memory.bytes_in_use();
            CHECK(now >= before);
            largest_step = std::max(largest_step, now - before);
            before = now;
        }
        CHECK(largest_step <= 3 * kSegmentBytes);  // the first split
        CHECK(index.bytes() == memory.bytes_in_use());
        CHECK(index.bytes() < size_t{40} * 1'000'000);
    }

    /// The key that has this hash under this seed.
    static uint64_t key_of_hash(uint64_t hash, uint64_t seed) {
        const auto inverse = [](uint64_t odd) {
            uint64_t x = odd;  // right in the last 3 bits, and in twice as many after each step
            for (int i = 0; i < 5; ++i)
                x *= 2 - odd * x;
            return x;
        };
        Random random(seed);
        const uint64_t mask = random();
        uint64_t key = hash * inverse(random() | 1);
        key ^= key >> 32;
        return (key * inverse(0x9e3779b97f4a7c15ULL)) ^ mask;
    }

    TEST_CASE("keys made up to share one bucket do so only for who knows the seed") {
        constexpr uint64_t kSeed = 7;
        constexpr uint64_t kKeys = 3000;
        std::vector<uint64_t> keys(kKeys);
        for (uint64_t i = 0; i < kKeys; ++i)
            keys[i] = key_of_hash((uint64_t{5} << 48) + i * 977, kSeed);
        std::vector<uint32_t> rows(kKeys);
        HeapMemory memory;
        KeyIndex known(memory, {.seed = kSeed});
        REQUIRE(upsert(known, keys, rows));
        CHECK(known.longest_walk() == kKeys / KeyBucket::kKeys);  // so bad can it get
        CHECK(known.find(keys, rows) == 0);                       // slow, and right
        for (int i = 0; i < 20; ++i) {
            KeyIndex index(memory);
            REQUIRE(upsert(index, keys, rows));
            REQUIRE(index.longest_walk() < 100);  // usually below 10; seeds differ in each run
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
        KeyIndex index(memory, {.expected_keys = ~size_t{0}});
        const uint64_t keys[] = {1, 2, 3};
        uint32_t rows[3];
        REQUIRE(upsert(index, keys, rows));
        CHECK(rows[2] == 2);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        TableSchema schema{.layout = Layout::kSparse, .key_count = ~uint64_t{0}};
        KnownLists lists(memory, 1 << 20);
        const auto table =
            *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists);
        CHECK(table->rows_for_push(keys)->rows[2] == 2);
    }

    TEST_CASE("what was expected fits without growing") {
        HeapMemory memory;
        KeyIndex index(memory, {.expected_keys = 10'000});
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
