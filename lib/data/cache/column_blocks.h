// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ColumnBlocks: what a solver by blocks of columns reads, a group of columns at a time. The
/// groups lie in memory, or in a ColumnCache on disk; the solver does the same for both:
///
/// ```cpp
/// blocks.will_need(next);                            // read while this thread computes
/// WEIR_ASSIGN(const linalg::Columns columns, blocks.open(group));
/// linalg::gradient(columns, {0, columns.line_count()}, slopes, gradient);
/// blocks.done(group);                                // its memory may be used again
/// ```

#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/result.h"
#include "lib/data/cache/block_reader.h"
#include "lib/data/cache/cache_format.h"
#include "lib/data/feature_matrix.h"
#include "lib/linalg/columns.h"

namespace weir::data {

/// Thread: one; the columns that open() returns may be read by any.
class ColumnBlocks {
public:
    explicit ColumnBlocks(FeatureMatrix matrix) : matrix_(std::move(matrix)) {}

    /// The blocks of a cache. memory_bytes: limit of memory_bytes()
    ///
    /// Errors: kNoMemory if the limit leaves no room for two of the largest groups, with the least
    ///     that does, or if no thread can start
    [[nodiscard]] static Result<ColumnBlocks> of_cache(CacheFile file, CacheIndex index,
                                                       uint64_t memory_bytes);

    [[nodiscard]] uint64_t row_count() const noexcept { return matrix_.row_count(); }

    [[nodiscard]] uint64_t column_count() const noexcept { return matrix_.column_count(); }

    [[nodiscard]] uint32_t group_count() const noexcept {
        return static_cast<uint32_t>(matrix_.group_count());
    }

    /// -1 or +1, per row.
    [[nodiscard]] std::span<const int8_t> labels() const noexcept { return matrix_.labels; }

    /// Of all columns, in their order: group by group, sorted within each.
    [[nodiscard]] std::span<const uint64_t> keys() const noexcept { return matrix_.keys; }

    /// Group g is columns [group_begin()[g], group_begin()[g + 1]).
    [[nodiscard]] std::span<const uint64_t> group_begin() const noexcept {
        return matrix_.group_begin;
    }

    [[nodiscard]] uint64_t nonzero_count(uint32_t group) const noexcept;
    [[nodiscard]] uint64_t nonzero_count() const noexcept;

    /// A hint that open(group) comes soon, behind those of earlier hints. Two groups ahead are
    /// enough: hints do not push away blocks that are open, or that earlier hints named.
    void will_need(uint32_t group);

    /// The columns of the group; column c is the group's c-th, whichever places it has in
    /// `places`. Valid until as many calls of done(group) as of open(group).
    ///
    /// Errors: none in memory; else those of BlockReader::open()
    [[nodiscard]] Result<linalg::Columns> open(uint32_t group);

    void done(uint32_t group);

    /// Bytes of the matrix, keys and labels, on disk or in memory.
    [[nodiscard]] uint64_t data_bytes() const noexcept;

    /// The most memory that it takes for them.
    [[nodiscard]] uint64_t memory_bytes() const noexcept;

    /// What was read from disk and waited for. All 0 in memory.
    [[nodiscard]] BlockReader::Counts counts() const;

private:
    struct Cached;

    FeatureMatrix matrix_;  // of a cache: without offsets, rows and values
    std::shared_ptr<Cached> cached_;
};

}  // namespace weir::data
