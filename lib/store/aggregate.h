// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Aggregate: combines several workers' pushes of one iteration before the update rule runs. It
/// is used again for a later iteration.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/combine.h"
#include "lib/store/row_layout.h"
#include "lib/store/row_store.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rule_runner.h"

namespace weir {

/// One accumulator per row, as wide as a push to it, and a bit that says whether the row was
/// touched. The first push to a row is stored; later ones are combined with it by the rule's
/// Combine. For a mean, the pushes to each row are counted.
///
/// Thread: owning shard
class Aggregate {
public:
    Aggregate(Memory& memory, Combine combine, const RowLayout& layout);

    /// From the next iteration on, in place of what the constructor was given; not of a mean.
    void combine_as(const CombineAs& as);

    /// What the sum of a row takes.
    [[nodiscard]] static size_t row_bytes_of(Combine combine, const RowLayout& layout) noexcept {
        return layout.pushed_bytes() + (combine == Combine::kMean ? sizeof(uint32_t) : 0);
    }

    /// Takes the memory of all rows that a table has, and no more: adding to them cannot fail.
    /// Errors: Errc::kNoMemory
    [[nodiscard]] Status reserve_only(size_t row_count);

    /// Adds to the rows from first_row on; their pushed values lie side by side.
    /// Errors: Errc::kNoMemory; nothing was added
    [[nodiscard]] Status add_run(uint32_t first_row, size_t row_count, const std::byte* pushed);

    /// Adds to any rows; `pushed` has the same order.
    /// Errors: Errc::kNoMemory; nothing was added
    [[nodiscard]] Status add_rows(std::span<const uint32_t> rows, const std::byte* pushed);

    /// Runs the rule once on every touched row of `target`, then forgets all that was added.
    /// `arguments`: as RuleRunner has them.
    void apply(const RowTarget& target, const RuleRunner& rule, const RuleArguments* arguments);

    /// Calls fn(first_row, row_count) for the rows that apply() would run the rule on.
    template <class Fn>
    void for_touched(Fn&& fn) const {
        for_touched(0, row_limit(), fn);
    }

    /// The same of those from `begin` on, below `end`.
    template <class Fn>
    void for_touched(uint32_t begin, uint32_t end, Fn&& fn) const {
        end = std::min(end, row_limit());
        for (uint32_t row = next_row(begin, true); row < end;) {
            const uint32_t run_end = std::min(end, next_row(row, false));
            fn(row, run_end - row);
            row = next_row(run_end, true);
        }
    }

    /// Whether something was added to the row.
    [[nodiscard]] bool has(uint32_t row) const noexcept {
        return row / 64 < touched_.size() && (touched_[row / 64] >> row % 64 & 1) != 0;
    }

    /// Forgets all that was added, without running the rule.
    void clear() noexcept {
        std::ranges::fill(touched_, 0);
        added_rows_ = 0;
    }

    /// To how many rows something was added; those count again to which it was more than once.
    [[nodiscard]] size_t added_rows() const noexcept { return added_rows_; }

    /// Counts them: from now on each counts once in added_rows().
    size_t count_touched() noexcept;

    /// What the sums take.
    [[nodiscard]] size_t row_bytes() const noexcept {
        return accumulators_.bytes() + (counts_ ? counts_->bytes() : 0);
    }

    [[nodiscard]] size_t bytes() const noexcept {
        return row_bytes() + touched_.size() * sizeof(uint64_t);
    }

private:
    [[nodiscard]] Status reserve(size_t row_count);

    /// How many rows have room for all that is kept of them.
    [[nodiscard]] size_t capacity() const noexcept {
        return counts_ ? std::min(counts_->capacity(), accumulators_.capacity())
                       : accumulators_.capacity();
    }

    void count(uint32_t row) noexcept;
    void divide(uint32_t first_row, size_t row_count) noexcept;

    void make_bits() { touched_.resize((capacity() + 63) / 64); }

    /// One past the last row that can have been touched.
    [[nodiscard]] uint32_t row_limit() const noexcept {
        return static_cast<uint32_t>(std::min<size_t>(touched_.size() * 64, kNoRow));
    }

    /// The first row at or after `from` whose bit is `touched`; one past the last if there is none.
    [[nodiscard]] uint32_t next_row(uint32_t from, bool touched) const noexcept;

    CombineKernels combine_;
    RowLayout layout_;
    RowStore accumulators_;
    std::optional<RowStore> counts_;  // of the pushes to each row, if a mean is wanted
    std::vector<uint64_t> touched_;   // a bit per row
    size_t added_rows_ = 0;
};

}  // namespace weir
