// SPDX-License-Identifier: Apache-2.0
#include "lib/store/memory_with_caches.h"

#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"

TEST_SUITE("memory_with_caches") {
    using namespace weir;

    /// Gives its pieces of 100 bytes, the oldest first.
    class Pieces final : public Reclaimable {
    public:
        Pieces(Memory& memory, size_t count) {
            for (size_t i = 0; i < count; ++i)
                pieces_.emplace_back(memory, 100);
        }

        size_t give_back(size_t bytes) noexcept override {
            size_t freed = 0;
            for (; freed < bytes && !pieces_.empty(); freed += 100)
                pieces_.erase(pieces_.begin());
            return freed;
        }

        [[nodiscard]] size_t count() const { return pieces_.size(); }

    private:
        std::vector<Block> pieces_;
    };

    TEST_CASE("caches give what is needed, in their order, and nothing before it is needed") {
        HeapMemory heap(1000);
        MemoryWithCaches memory(heap);
        Pieces first(memory, 3);
        Pieces second(memory, 3);
        memory.add(first);
        memory.add(second);
        const Block fits(memory, 400);
        CHECK(fits);
        CHECK(first.count() == 3);
        CHECK_FALSE(Block::spare(memory, 100));
        CHECK(first.count() == 3);
        const Block some(memory, 150);
        CHECK(some);
        CHECK(first.count() == 1);
        const Block more(memory, 200);
        CHECK(more);
        CHECK(first.count() == 0);
        CHECK(second.count() == 2);
        CHECK_FALSE(Block(memory, 300));
        CHECK(second.count() == 0);
        CHECK(heap.bytes_in_use() == 750);
    }

    std::vector<uint64_t> numbers(uint64_t first, size_t count) {
        std::vector<uint64_t> keys(count);
        std::iota(keys.begin(), keys.end(), first);
        return keys;
    }

    /// What a shard has around its tables.
    struct Store {
        explicit Store(size_t bytes)
            : limit_bytes(bytes), heap(bytes), memory(heap), lists(memory, bytes) {
            memory.add(lists);
        }

        std::unique_ptr<TableShard> make_table(uint32_t id, uint32_t width = 1) {
            return *TableShard::make(
                {.id = id, .name = "t", .layout = Layout::kSparse, .width = width},
                PositionSet::whole_ring(), rules, memory, lists);
        }

        /// Remembers lists until there is no room for another.
        void fill(TableShard& table, size_t list_keys) {
            for (uint64_t i = 1; heap.bytes_in_use() + list_keys * 4 <= limit_bytes; ++i)
                REQUIRE(table.rows_for_push(numbers(i, list_keys))->remembered != nullptr);
        }

        size_t limit_bytes;
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        HeapMemory heap;
        MemoryWithCaches memory;
        KnownLists lists;
    };

    TEST_CASE("rows, aggregates and other tables take the room of remembered lists") {
        Store store(size_t{16} << 20);
        const auto table = store.make_table(1);
        const auto keys = numbers(1, 2000);
        const std::vector<float> ones(keys.size(), 1.0F);
        const auto bytes = std::as_bytes(std::span(ones));
        store.fill(*table, 2000);
        const RowList rows = *table->rows_for_push(keys);
        REQUIRE(rows.remembered != nullptr);
        const size_t count = store.lists.list_count();
        REQUIRE(count > 1000);
        // The list of a push stays while the aggregate makes room for its accumulators, also if
        // all others have to go.
        store.heap.set_limit(store.heap.bytes_in_use());
        REQUIRE(table->push_aggregate(1, rows, bytes));
        CHECK(table->known_rows(list_id(keys)).has_value());
        CHECK(store.lists.list_count() < count);
        table->apply_aggregate(1);
        std::vector<float> out(keys.size());
        REQUIRE(table->pull(rows, std::as_writable_bytes(std::span(out))));
        CHECK(out == ones);
        // Another table.
        const size_t after = store.lists.list_count();
        const auto other = store.make_table(2, 1024);
        REQUIRE(other->rows_for_push(numbers(1, 1000)));
        CHECK(store.lists.list_count() < after);
    }

    TEST_CASE("keys go before what would remember their list") {
        constexpr size_t kKeys = 400'000;
        Store store(size_t{32} << 20);
        const auto table = store.make_table(1);
        // Measured without remembering: what the keys alone need.
        size_t needed = 0;
        {
            KnownLists none(store.memory, 0);
            const auto alone =
                *TableShard::make({.name = "a", .layout = Layout::kSparse},
                                  PositionSet::whole_ring(), store.rules, store.memory, none);
            REQUIRE(alone->rows_for_push(numbers(1, kKeys)));
            needed = store.heap.bytes_in_use();
        }
        // The least memory with which they fit, which may be less than what they take when there
        // is plenty.
        bool fits = false;
        for (size_t limit = needed / 4 * 3; !fits && limit < 2 * needed; limit += needed / 64) {
            Store tight(limit);
            const auto one = tight.make_table(1);
            const Result<RowList> rows = one->rows_for_push(numbers(1, kKeys));
            fits = rows.has_value();
            if (!fits) continue;
            CHECK(rows->remembered == nullptr);
            CHECK(rows->rows.back() == kKeys - 1);
        }
        CHECK(fits);
    }
}
