// SPDX-License-Identifier: Apache-2.0
#include "lib/store/row_store.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

namespace weir {

RowStore::RowStore(Memory& memory, std::span<const std::byte> initial)
    : memory_(memory),
      initial_(initial.begin(), initial.end()),
      initial_is_zero_(
          std::ranges::all_of(initial, [](std::byte b) { return b == std::byte{0}; })) {
    WEIR_CHECK(!initial.empty());
    const size_t rows = std::max<size_t>(1, kGranuleBytes / initial.size());
    shift_ = static_cast<uint32_t>(std::bit_width(rows) - 1);
}

Status RowStore::reserve(size_t row_count) {
    const size_t granule_bytes = initial_.size() << shift_;
    if (capacity() < row_count && is_small() && !grow_small(row_count)) return no_memory(row_count);
    while (capacity() < row_count) {
        const size_t needed = granules_for(row_count);
        const size_t doubling = std::max<size_t>(
            1, std::min(capacity() * initial_.size(), kExtentBytesMax) / granule_bytes);
        // If there is no memory to double, try what is needed now.
        if (!(doubling > needed && add_extent(doubling, false)) && !add_extent(needed, true))
            return no_memory(row_count);
    }
    return {};
}

Status RowStore::reserve_only(size_t row_count) {
    if (capacity() >= row_count) return {};
    if (is_small()) return grow_small_to(row_count) ? Status() : no_memory(row_count);
    const size_t needed = granules_for(row_count);
    if (needed > 0 && !add_extent(needed, true)) return no_memory(row_count);
    return {};
}

/// Twice as many rows as there are, or what is needed now if that is more, or memory is short.
bool RowStore::grow_small(size_t row_count) {
    const size_t first = std::max<size_t>(1, kSmallBytesMin / initial_.size());
    const size_t last = std::max<size_t>(rows_per_granule(), kSmallBytesMax / initial_.size());
    const size_t doubled = std::min(std::max(2 * capacity(), first), last);
    return (doubled > row_count && grow_small_to(doubled)) || grow_small_to(row_count);
}

/// Moves the rows to an extent with room for so many; for whole granules, if it is more than one.
bool RowStore::grow_small_to(size_t row_count) {
    const size_t granule_rows = rows_per_granule();
    if (row_count > (~size_t{0} >> 1) / initial_.size() || row_count > kNoRow) return false;
    const size_t rows =
        row_count <= granule_rows ? row_count : (row_count + granule_rows - 1) >> shift_ << shift_;
    Block block(memory_, rows * initial_.size());
    if (!block) return false;
    const size_t had = capacity();
    const std::vector<Extent> before = std::move(extents_);
    clear();
    add_extent({0, static_cast<uint32_t>(rows)}, std::move(block));
    if (!before.empty()) std::memcpy(flat_, before[0].first, had * initial_.size());
    small_rows_ = rows * initial_.size() < kSmallBytesMax ? static_cast<uint32_t>(rows) : 0;
    return true;
}

Error RowStore::no_memory(size_t row_count) const {
    return {Errc::kNoMemory,
            fmt::format("no memory for {} more rows of {} bytes beside the {} there are; use more "
                        "servers, or see in the server's log which limit was reached",
                        row_count - capacity(), initial_.size(), capacity())};
}

bool RowStore::add_extent(size_t granule_count, bool is_needed) {
    const size_t granule_bytes = initial_.size() << shift_;
    if (granule_count > (~size_t{0} >> 1) / granule_bytes) return false;
    const size_t bytes = granule_count * granule_bytes;
    Block block = is_needed ? Block(memory_, bytes) : Block::spare(memory_, bytes);
    if (!block) return false;
    add_extent({static_cast<uint32_t>(capacity()), static_cast<uint32_t>(granule_count << shift_)},
               std::move(block));
    return true;
}

void RowStore::add_extent(Run run, Block block) {
    const size_t first_granule = run.first_row >> shift_;
    const size_t granule_bytes = initial_.size() << shift_;
    std::byte* const first = block.data();
    if (!initial_is_zero_) fill(first, run.row_count);
    const size_t granule_count = ((size_t{run.row_count} - 1) >> shift_) + 1;
    std::byte* const row_0 = granules_.empty() && run.first_row == 0 ? first : flat_;
    const bool is_in_line = row_0 != nullptr && row_0 + run.first_row * initial_.size() == first;
    flat_ = is_in_line ? row_0 : nullptr;
    if (granules_.size() < first_granule + granule_count)
        granules_.resize(first_granule + granule_count);
    for (size_t i = 0; i < granule_count; ++i)
        granules_[first_granule + i] = first + i * granule_bytes;
    bytes_ += block.bytes();
    extents_.push_back({run, first, std::make_shared<Block>(std::move(block))});
}

Status RowStore::add_run(uint32_t first_row, uint32_t row_count) {
    WEIR_CHECK(row_count > 0 && first_row % rows_per_granule() == 0);
    Block block(memory_, row_count * initial_.size());
    if (!block) {
        return Error(Errc::kNoMemory,
                     fmt::format("no memory for {} more rows of {} bytes; use more servers, or see "
                                 "in the server's log which limit was reached",
                                 row_count, initial_.size()));
    }
    add_extent({first_row, row_count}, std::move(block));
    return {};
}

void RowStore::drop_run(uint32_t first_row, uint32_t row_count) {
    const auto extent = std::ranges::find_if(extents_, [&](const Extent& e) {
        return first_row >= e.run.first_row && first_row - e.run.first_row < e.run.row_count;
    });
    WEIR_CHECK(extent != extents_.end());
    const Extent whole = std::move(*extent);
    extents_.erase(extent);
    const uint32_t before = first_row - whole.run.first_row;
    WEIR_CHECK(row_count > 0 && row_count <= whole.run.row_count - before);
    const uint32_t behind = whole.run.row_count - before - row_count;
    std::byte* const dropped = whole.first + before * initial_.size();
    std::byte* const rest = dropped + row_count * initial_.size();
    const Halves halves =
        free_between(whole.block, before == 0 ? nullptr : dropped, behind == 0 ? nullptr : rest);
    if (before != 0) extents_.push_back({{whole.run.first_row, before}, whole.first, halves.head});
    if (behind != 0) extents_.push_back({{first_row + row_count, behind}, rest, halves.tail});
}

/// Gives back the memory from `begin` (nullptr: the start of the block) to `end` (nullptr: its
/// end), as far as that is possible. Returns who has what lies before and behind.
RowStore::Halves RowStore::free_between(const std::shared_ptr<Block>& block, const std::byte* begin,
                                        const std::byte* end) {
    constexpr size_t kUnit = Block::kAlignment;
    if (block.use_count() > 1) return {block, block};  // who is last frees all of it
    const size_t bytes = block->bytes();
    const size_t from =
        begin == nullptr ? 0
                         : (static_cast<size_t>(begin - block->data()) + kUnit - 1) / kUnit * kUnit;
    const size_t to =
        end == nullptr ? bytes : static_cast<size_t>(end - block->data()) / kUnit * kUnit;
    if (from >= to) return {block, block};
    Block middle = from == 0 ? std::move(*block) : block->cut(from);
    if (!middle) return {block, block};
    Block tail = to == bytes ? Block() : middle.cut(to - from);
    if (to != bytes && !tail) {
        tail = std::move(middle);
    } else {
        bytes_ -= middle.bytes();
    }
    return {block, std::make_shared<Block>(std::move(tail))};
}

void RowStore::reset_rows(std::span<const uint32_t> rows) noexcept {
    const RowView all = view();
    for (const uint32_t row : rows)
        std::memcpy(all.at(row), initial_.data(), initial_.size());
}

void RowStore::clear() noexcept {
    extents_.clear();
    granules_.clear();
    small_rows_ = 0;
    flat_ = nullptr;
    bytes_ = 0;
}

std::vector<RowStore::Run> RowStore::runs() const {
    std::vector<Run> all;
    for (const Extent& extent : extents_)
        all.push_back(extent.run);
    return all;
}

void RowStore::fill(std::byte* rows, size_t row_count) const noexcept {
    // Copies one row, then doubles the filled part again and again.
    const size_t total = row_count * initial_.size();
    std::memcpy(rows, initial_.data(), initial_.size());
    for (size_t done = initial_.size(); done < total;) {
        const size_t next = std::min(done, total - done);
        std::memcpy(rows + done, rows, next);
        done += next;
    }
}

}  // namespace weir
