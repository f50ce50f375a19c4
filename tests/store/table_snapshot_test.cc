// SPDX-License-Identifier: Apache-2.0
/// \file
/// Snapshots of tables: what is read is what was there when the snapshot was made, whatever is pushed
/// meanwhile.
#include <algorithm>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/table.h"
#include "tests/seed.h"
#include "tests/store/made_table.h"

TEST_SUITE("table_snapshot") {
    using namespace weir;

    namespace {

    using Rows = std::map<uint64_t, std::vector<float>>;  ///< by key: values, then state

    PositionSet two_parts() {
        const std::vector<PositionRange> ranges{{uint64_t{1} << 60, uint64_t{5} << 60},
                                                {uint64_t{9} << 60, uint64_t{14} << 60}};
        return PositionSet(ranges);
    }

    class SnapshotHistory {
    public:
        SnapshotHistory(Layout layout, uint32_t width, const char* rule, uint64_t seed)
            : random_(seed), schema_(make_schema(layout, width, rule)) {
            table_ = made(schema_, memory_, two_parts());
            const PositionMap map =
                layout == Layout::kDense ? PositionMap::dense(kKeys) : PositionMap::sparse();
            for (uint64_t key = 0; key < kKeys; ++key) {
                if (two_parts().contains(map.position(key))) keys_.push_back(key);
            }
        }

        void run() {
            for (int i = 0; i < 20; ++i)
                change();
            for (int round = 0; round < 3; ++round) {
                const Rows before = rows_now();
                REQUIRE(table_->keep_snapshot());
                Rows seen;
                KeyCursor cursor;
                while (!cursor.at_end) {
                    for (uint64_t i = random_.below(4); i > 0; --i)
                        change();
                    read_some(cursor, seen);
                }
                CHECK_FALSE(table_->is_snapshot_spoilt());
                CHECK(seen == before);
                (void)table_->take_snapshot();
                for (int i = 0; i < 5; ++i)
                    change();
            }
        }

        /// Of a table that does not change meanwhile, in steps that do not match its units. Returns how
        /// many of these were copied twice.
        size_t keep_without_changes() {
            change();
            const Rows before = rows_now();
            REQUIRE(table_->keep_snapshot());
            Rows seen;
            for (KeyCursor cursor; !cursor.at_end;)
                read_some(cursor, seen, 25);
            CHECK(seen == before);
            return table_->take_snapshot()->kept_count();
        }

        void drop_while_reading() {
            change();
            REQUIRE(table_->keep_snapshot());
            const PositionRange first = two_parts().ranges()[0];
            table_->give_up(PositionSet(std::span(&first, 1)));
            CHECK(table_->is_snapshot_spoilt());
            (void)table_->take_snapshot();
        }

    private:
        static constexpr uint64_t kKeys = 6000;

        static TableSchema make_schema(Layout layout, uint32_t width, const char* rule) {
            TableSchema schema{.id = 1, .name = "t", .layout = layout, .width = width};
            schema.key_count = layout == Layout::kDense ? kKeys : 0;
            schema.rule = rule;
            schema.initial_value = 2;
            if (schema.rule == "adagrad") schema.parameters.value = {0.5, 0.01};
            return schema;
        }

        /// Pushes a range or a list, or closes an iteration of some of them.
        void change() {
            const bool is_part = random_.below(4) == 0;
            if (schema_.layout == Layout::kDense && random_.below(2) == 0) {
                const auto extents = table_->extents();
                const KeyRange extent = extents[random_.below(extents.size())];
                const uint64_t first = extent.begin + random_.below(extent.key_count());
                const KeyRange keys{first, std::min(extent.end, first + 1 + random_.below(900))};
                const auto pushed = values(keys.key_count());
                REQUIRE((is_part ? table_->push_aggregate(1, keys, pushed)
                                 : table_->push(keys, pushed)));
            } else {
                std::vector<uint64_t> list;
                for (uint64_t i = 1 + random_.below(60); i > 0; --i)
                    list.push_back(keys_[random_.below(keys_.size())]);
                std::ranges::sort(list);
                list.erase(std::unique(list.begin(), list.end()), list.end());
                const auto rows = table_->rows_for_push(list);
                REQUIRE(rows);
                const auto pushed = values(list.size());
                REQUIRE((is_part ? table_->push_aggregate(1, *rows, pushed)
                                 : table_->push(*rows, pushed)));
            }
            if (is_part) table_->apply_aggregate(1);
        }

        std::span<const std::byte> values(uint64_t row_count) {
            pushed_.resize(row_count * schema_.width);
            for (float& value : pushed_)
                value = static_cast<float>(random_.below(1000)) + 1;
            return std::as_bytes(std::span(pushed_));
        }

        Rows rows_now() {
            Rows rows;
            ListedRows listed;
            for (KeyCursor cursor; !cursor.at_end;) {
                table_->list(cursor, two_parts(), 100, listed);
                std::vector<std::byte> values(listed.row_count() *
                                              table_->row_layout().value_bytes());
                std::vector<std::byte> state(listed.row_count() * table_->row_layout().state_bytes);
                table_->copy_values(listed, values);
                table_->copy_state(listed, state);
                add(rows, listed, values, state);
            }
            return rows;
        }

        void read_some(KeyCursor& cursor, Rows& rows) {
            read_some(cursor, rows, 1 + random_.below(700));
        }

        void read_some(KeyCursor& cursor, Rows& rows, size_t row_count_max) {
            ListedRows listed;
            table_->list_snapshot(cursor, two_parts(), row_count_max, listed);
            std::vector<std::byte> values(listed.row_count() * table_->row_layout().value_bytes());
            std::vector<std::byte> state(listed.row_count() * table_->row_layout().state_bytes);
            table_->read_snapshot(listed, values, state);
            add(rows, listed, values, state);
        }

        void add(Rows& rows, const ListedRows& listed, std::span<const std::byte> values,
                 std::span<const std::byte> state) const {
            for (size_t i = 0; i < listed.row_count(); ++i) {
                const uint64_t key = listed.keys.empty() ? listed.range.begin + i : listed.keys[i];
                std::vector<float>& row = rows[key];
                REQUIRE(row.empty());
                for (const auto& [bytes, row_bytes] :
                     {std::pair(values, table_->row_layout().value_bytes()),
                      std::pair(state, size_t{table_->row_layout().state_bytes})}) {
                    const size_t had = row.size();
                    row.resize(had + row_bytes / sizeof(float));
                    if (row_bytes != 0)
                        std::memcpy(row.data() + had, bytes.data() + i * row_bytes, row_bytes);
                }
            }
        }

        Random random_;
        HeapMemory memory_;
        TableSchema schema_;
        Made table_;
        std::vector<uint64_t> keys_;
        std::vector<float> pushed_;
    };

    }  // namespace

    TEST_CASE("a snapshot shows the rows as they were, while the table changes") {
        WEIR_TEST_SEED(seed, 1);
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            for (const char* rule : {"assign", "adagrad"}) {
                for (const uint32_t width : {1U, 3U, 2000U}) {
                    CAPTURE(layout == Layout::kDense);
                    CAPTURE(rule);
                    CAPTURE(width);
                    if (width == 2000 && layout == Layout::kDense) continue;  // slow
                    SnapshotHistory(layout, width, rule, seed).run();
                }
            }
        }
    }

    TEST_CASE("rows that do not change are copied once") {
        // Of more than 200 units of 16 rows, in two ranges: but for those at their ends.
        CHECK(SnapshotHistory(Layout::kDense, 64, "assign", 1).keep_without_changes() <= 4);
        CHECK(SnapshotHistory(Layout::kSparse, 1, "assign", 1).keep_without_changes() == 0);
    }

    TEST_CASE("a snapshot is spoilt when rows are dropped") {
        SnapshotHistory(Layout::kDense, 1, "assign", 1).drop_while_reading();
        SnapshotHistory(Layout::kSparse, 1, "assign", 1).drop_while_reading();
    }
}
