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
    while (capacity() < row_count) {
        const size_t needed = granules_for(row_count);
        const size_t doubling =
            std::clamp(capacity() * initial_.size(), kExtentBytesMin, kExtentBytesMax) /
            granule_bytes;
        // If there is no memory to double, try what is needed now.
        if (!(doubling > needed && add_extent(doubling, false)) && !add_extent(needed, true))
            return no_memory(row_count);
    }
    return {};
}

Status RowStore::reserve_only(size_t row_count) {
    const size_t needed = granules_for(row_count);
    if (needed > 0 && !add_extent(needed, true)) return no_memory(row_count);
    return {};
}

Error RowStore::no_memory(size_t row_count) const {
    return {Errc::kNoMemory,
            fmt::format("table: no memory for {} more rows of {} bytes beside the {} there are; "
                        "give the server a larger pool",
                        row_count - capacity(), initial_.size(), capacity())};
}

bool RowStore::add_extent(size_t granule_count, bool is_needed) {
    const size_t granule_bytes = initial_.size() << shift_;
    if (granule_count > (~size_t{0} >> 1) / granule_bytes) return false;
    const size_t bytes = granule_count * granule_bytes;
    Block extent = is_needed ? Block(memory_, bytes) : Block::spare(memory_, bytes);
    if (!extent) return false;
    if (!initial_is_zero_) fill(extent.data(), granule_count << shift_);
    if (!granules_.empty()) is_flat_ &= granules_.back() + granule_bytes == extent.data();
    for (size_t i = 0; i < granule_count; ++i)
        granules_.push_back(extent.data() + i * granule_bytes);
    extents_.push_back(std::move(extent));
    return true;
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
