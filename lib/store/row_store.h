// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RowStore: numbered rows of equal size, and RowView: how a kernel reaches them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/memory.h"

namespace weir {

/// The row of a key that was never written: none.
inline constexpr uint32_t kNoRow = ~uint32_t{0};

/// Where a part of every row lies. The rows of one granule lie side by side.
struct RowView {
    std::byte* const* granules = nullptr;
    size_t stride_bytes = 0;
    size_t offset_bytes = 0;
    uint32_t shift = 0;         ///< a granule has 2^shift rows
    std::byte* flat = nullptr;  ///< the first row, if all rows happen to lie side by side

    [[nodiscard]] std::byte* at(uint32_t row) const noexcept {
        return granules[row >> shift] + offset_bytes + (row & mask()) * stride_bytes;
    }

    [[nodiscard]] uint32_t mask() const noexcept { return (uint32_t{1} << shift) - 1; }

    /// How many rows, from `row` on, are sure to lie side by side.
    [[nodiscard]] uint32_t run(uint32_t row) const noexcept { return mask() + 1 - (row & mask()); }
};

/// Grows by extents, each as large as all before it together, but at most 16 MiB, so that no push
/// waits long for one; larger if one reserve() needs more. An extent is one allocation. A table of
/// pointers cuts it into granules of at most 64 KiB (or one row), so that a row is found with two
/// loads, wherever its extent lies. As long as all rows take less than a huge page, they have one
/// small extent: a job may have thousands of tables of a few keys. A larger one takes its place,
/// and the rows move there, so that they lie side by side and, in the end, in huge pages.
///
/// Thread: owning shard
class RowStore {
public:
    static constexpr size_t kGranuleBytes = size_t{64} << 10;
    static constexpr size_t kSmallBytesMin = 512;
    static constexpr size_t kSmallBytesMax = size_t{2} << 20;  // a huge page
    static constexpr size_t kExtentBytesMax = size_t{16} << 20;

    /// `initial` is what a fresh row holds; its size is the row's size.
    RowStore(Memory& memory, std::span<const std::byte> initial);

    /// Makes room for the rows 0..row_count-1. Existing rows stay where they are, unless they are small().
    /// Errors: Errc::kNoMemory; existing rows are unchanged
    [[nodiscard]] Status reserve(size_t row_count);
    /// The same without room for more, in one allocation: for a store that grows seldom.
    [[nodiscard]] Status reserve_only(size_t row_count);

    /// Whether all rows that have room are in one small extent: then the next reserve() may move them.
    [[nodiscard]] bool is_small() const noexcept { return granules_.empty() || small_rows_ != 0; }

    /// Makes room for `row_count` rows that lie side by side. No row of their granules may have
    /// room: neither before this call, nor from reserve() after it.
    /// Errors: Errc::kNoMemory; existing rows are unchanged
    [[nodiscard]] Status add_run(uint32_t first_row, uint32_t row_count);

    /// Gives back the memory of rows that have room, all from one allocation. If the Memory cannot
    /// take back a part of an allocation, it gets all of it back with the last rows.
    void drop_run(uint32_t first_row, uint32_t row_count);

    /// Makes rows fresh again.
    void reset_rows(std::span<const uint32_t> rows) noexcept;

    /// Gives everything back.
    void clear() noexcept;

    /// One past the last row that ever had room.
    [[nodiscard]] size_t capacity() const noexcept {
        return small_rows_ != 0 ? small_rows_ : granules_.size() << shift_;
    }

    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

    [[nodiscard]] uint32_t rows_per_granule() const noexcept { return uint32_t{1} << shift_; }

    /// Rows that have room and lie side by side.
    struct Run {
        uint32_t first_row = 0;
        uint32_t row_count = 0;
    };

    /// All rows that have room, one Run for each allocation.
    [[nodiscard]] std::vector<Run> runs() const;

    [[nodiscard]] std::span<const std::byte> initial() const noexcept { return initial_; }

    /// Valid until the next reserve(); the rows themselves stay.
    [[nodiscard]] RowView view(size_t offset_bytes = 0) const noexcept {
        std::byte* flat = flat_ == nullptr ? nullptr : flat_ + offset_bytes;
        return {granules_.data(), initial_.size(), offset_bytes, shift_, flat};
    }

private:
    /// Granules that are missing for `row_count` rows; 0: none.
    [[nodiscard]] size_t granules_for(size_t row_count) const noexcept {
        return row_count <= capacity() ? 0 : ((row_count - capacity() - 1) >> shift_) + 1;
    }

    [[nodiscard]] Error no_memory(size_t row_count) const;

    /// Rows of one allocation. Those that a drop_run() has cut apart may share it.
    struct Extent {
        Run run;
        std::byte* first = nullptr;  // the first row
        std::shared_ptr<Block> block;
    };

    [[nodiscard]] bool grow_small(size_t row_count);
    [[nodiscard]] bool grow_small_to(size_t row_count);
    [[nodiscard]] bool add_extent(size_t granule_count, bool is_needed);
    void add_extent(Run run, Block block);

    struct Halves {
        std::shared_ptr<Block> head;
        std::shared_ptr<Block> tail;
    };

    [[nodiscard]] Halves free_between(const std::shared_ptr<Block>& block, const std::byte* begin,
                                      const std::byte* end);
    void fill(std::byte* rows, size_t row_count) const noexcept;

    Memory& memory_;
    std::vector<std::byte> initial_;
    bool initial_is_zero_;
    uint32_t shift_;
    std::vector<Extent> extents_;
    std::vector<std::byte*> granules_;
    uint32_t small_rows_ = 0;    // that have room in the only extent, if that is small
    std::byte* flat_ = nullptr;  // row 0, if all rows lie side by side with it
    size_t bytes_ = 0;
};

}  // namespace weir
