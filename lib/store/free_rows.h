// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FreeRows: the numbers of rows that were dropped and may be used again.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weir {

/// A bit per row. It takes memory only once rows have been dropped.
///
/// Thread: owning shard
class FreeRows {
public:
    /// `row` must not be free.
    void add(uint32_t row);
    /// `row_count` rows from `first` on, none of them free.
    void add_run(uint32_t first, uint32_t row_count);
    /// Removes rows that are free.
    void remove_run(uint32_t first, uint32_t row_count) noexcept;

    /// Takes the lowest rows; there must be as many.
    void take(std::span<uint32_t> rows) noexcept;

    [[nodiscard]] bool contains(uint32_t row) const noexcept {
        return row / 64 < words_.size() && (words_[row / 64] >> row % 64 & 1) != 0;
    }

    [[nodiscard]] size_t count() const noexcept { return count_; }

    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

    /// Whether these rows are all free.
    [[nodiscard]] bool has_run(uint32_t first, uint32_t row_count) const noexcept;

    void clear() noexcept;

    /// Calls fn(row) for each of them, ascending.
    template <class Fn>
    void for_each(Fn&& fn) const {
        for (size_t word = first_word_; word < words_.size(); ++word) {
            for (uint64_t bits = words_[word]; bits != 0; bits &= bits - 1)
                fn(static_cast<uint32_t>(word * 64 + std::countr_zero(bits)));
        }
    }

private:
    std::vector<uint64_t> words_;
    size_t first_word_ = 0;  // no row is free in the words before it
    size_t count_ = 0;
};

}  // namespace weir
