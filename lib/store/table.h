// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableShard: one shard's part of a table, as the shard's push and pull use it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_list.h"
#include "lib/key/key_range.h"
#include "lib/key/position_set.h"
#include "lib/store/aggregate.h"
#include "lib/store/dense_store.h"
#include "lib/store/key_list_cache.h"
#include "lib/store/memory.h"
#include "lib/store/sparse_store.h"
#include "lib/store/table_schema.h"

namespace weir {

/// Where the keys of one list lie in one table.
struct RowList {
    std::span<const uint32_t> rows;  ///< kNoRow for a key that was never written (only in pulls)
    ListId id;
    KeyListCache::Rows remembered;  ///< keeps `rows` alive; none if the list is not remembered
};

/// Arguments may come from a faulty or hostile peer, and may lie in memory that the peer can
/// change at any time. Therefore keys are copied before they are checked and used, sizes and
/// alignments are checked, and a refused call leaves all values as they were. Key lists are
/// ascending.
///
/// A push brings width x pushed_values values per key; a pull returns width values per key.
///
/// Thread: owning shard. A RowList that is not remembered is valid until the next rows_for_push()
///         or rows_for_pull().
class TableShard {
public:
    /// `owned` is the shard's part of the ring. `rules`, `memory` and `lists` must outlive the
    /// table. No other table that uses `lists` may have the same id in its schema. A dense table
    /// with a max_delay takes the memory of its aggregates at once, so that its window cannot fail
    /// later; other tables take it when they need it.
    /// Errors: those of check_schema(); Errc::kNoMemory
    [[nodiscard]] static Result<std::unique_ptr<TableShard>> make(const TableSchema& schema,
                                                                  const PositionSet& owned,
                                                                  const RuleRegistry& rules,
                                                                  Memory& memory,
                                                                  KeyListCache& lists);

    [[nodiscard]] const TableSchema& schema() const noexcept { return schema_; }

    [[nodiscard]] size_t pulled_row_bytes() const noexcept { return pulled_row_bytes_; }

    [[nodiscard]] size_t pushed_row_bytes() const noexcept { return pushed_row_bytes_; }

    /// The number of keys that have a row here.
    [[nodiscard]] size_t row_count() const;

    /// What values, state, index and accumulators take together.
    [[nodiscard]] size_t bytes() const;

    // Ranges of a dense table, each within one owned range.
    // Errors: Errc::kInvalidArgument (sparse table, wrong size, misaligned), Errc::kOutOfRange

    [[nodiscard]] Status push(KeyRange keys, std::span<const std::byte> pushed);
    /// Prefetches the first of these values, if this shard has them. Any range is allowed.
    void prefetch(KeyRange keys) const noexcept;
    /// The values in place, to be sent without a copy; valid until the next change.
    [[nodiscard]] Result<std::span<const std::byte>> values(KeyRange keys) const;

    // Key lists: first find the rows, then push to or pull from them.
    // Errors: Errc::kInvalidArgument (unsorted, duplicate), Errc::kOutOfRange (not owned)

    /// The rows of `keys`; a sparse table makes missing ones.
    /// Errors: also Errc::kNoMemory; some new keys may then exist, with the initial values
    [[nodiscard]] Result<RowList> rows_for_push(std::span<const uint64_t> keys);
    /// The rows of `keys`; makes none.
    [[nodiscard]] Result<RowList> rows_for_pull(std::span<const uint64_t> keys);
    /// The rows of a remembered list.
    /// Errors: Errc::kUnknownList
    [[nodiscard]] Result<RowList> known_rows(const ListId& id);

    [[nodiscard]] Status push(const RowList& list, std::span<const std::byte> pushed);
    [[nodiscard]] Status pull(const RowList& list, std::span<std::byte> out) const;

    // Aggregation over workers, by iteration. Those that are not applied or dropped lie within
    // schema().window() iterations, one after the other: each has an aggregate of its own.
    // Errors: as push(), and Errc::kNoMemory

    [[nodiscard]] Status push_aggregate(uint64_t iteration, KeyRange keys,
                                        std::span<const std::byte> pushed);
    [[nodiscard]] Status push_aggregate(uint64_t iteration, const RowList& list,
                                        std::span<const std::byte> pushed);
    /// Runs the rule once on what was aggregated.
    void apply_aggregate(uint64_t iteration);
    /// Forgets what was aggregated: the iteration has failed.
    void drop_aggregate(uint64_t iteration) noexcept;

private:
    /// Keys are read in blocks that stay in cache. A list that fits into one block is read once,
    /// a longer one twice.
    static constexpr size_t kBlockKeys = 16384;

    TableShard(const TableSchema& schema, const PositionSet& owned, const RuleEntry& rule,
               Memory& memory, KeyListCache& lists);
    [[nodiscard]] Status make_store(Memory& memory, const RuleEntry& rule,
                                    const PositionSet& owned);

    [[nodiscard]] Result<RowList> rows_of(std::span<const uint64_t> keys, bool create);
    [[nodiscard]] static RowList remembered(const ListId& id, KeyListCache::Rows rows);
    [[nodiscard]] Result<size_t> look_up(std::span<const uint64_t> keys, const ListId& id,
                                         bool create, std::span<uint32_t> rows);
    [[nodiscard]] Result<size_t> look_up_block(std::span<const uint64_t> block, bool create,
                                               std::span<uint32_t> rows);
    [[nodiscard]] Result<std::span<const uint64_t>> read_block(std::span<const uint64_t> keys,
                                                               size_t begin);
    [[nodiscard]] Result<ListId> read_list(std::span<const uint64_t> keys);
    [[nodiscard]] Result<uint32_t> range_row(KeyRange keys) const;
    [[nodiscard]] Status check_pushed(uint64_t key_count, std::span<const std::byte> pushed) const;
    [[nodiscard]] Error refused(Errc code, std::string_view why) const;
    [[nodiscard]] RowTarget target() const;
    [[nodiscard]] Aggregate& make_aggregate(uint64_t iteration);
    [[nodiscard]] Status reserve_window();

    [[nodiscard]] std::optional<Aggregate>& aggregate_of(uint64_t iteration) noexcept {
        return aggregates_[iteration % aggregates_.size()];
    }

    TableSchema schema_;
    const RuleEntry& rule_entry_;
    Memory& memory_;
    RuleRunner rule_;
    size_t pulled_row_bytes_;
    size_t pushed_row_bytes_;
    PositionSet owned_;
    bool owns_all_;
    std::optional<std::variant<DenseStore, SparseStore>> store_;
    KeyListCache& lists_;
    std::vector<std::optional<Aggregate>> aggregates_;  ///< schema_.window()

    ListHasher hasher_;
    std::vector<uint64_t> block_;         // a copy of keys, which no peer can change
    std::vector<uint32_t> scratch_rows_;  // of lists that are not remembered
};

}  // namespace weir
