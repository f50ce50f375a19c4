// SPDX-License-Identifier: Apache-2.0
#include "lib/store/dense_store.h"

#include <algorithm>

#include <fmt/core.h>

#include "lib/store/row_copy.h"

namespace weir {

Result<DenseStore> DenseStore::make(Memory& memory, std::span<const KeyRange> owned,
                                    std::span<const std::byte> initial_values,
                                    std::span<const std::byte> initial_state) {
    uint64_t keys = 0;
    for (const KeyRange range : owned) {
        keys += std::min<uint64_t>(range.key_count(), kNoRow);
        if (keys >= kNoRow) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("dense table: a shard cannot own {} keys or more; use more "
                                     "shards, or a larger width and fewer keys",
                                     kNoRow));
        }
    }
    DenseStore store(memory, owned, initial_values, initial_state);
    // One reserve() makes one allocation, so the rows lie side by side.
    WEIR_TRY(store.values_.reserve(store.row_count_));
    if (store.state_) WEIR_TRY(store.state_->reserve(store.row_count_));
    return store;
}

DenseStore::DenseStore(Memory& memory, std::span<const KeyRange> owned,
                       std::span<const std::byte> initial_values,
                       std::span<const std::byte> initial_state)
    : owned_(owned.begin(), owned.end()), values_(memory, initial_values) {
    if (!initial_state.empty()) state_.emplace(memory, initial_state);
    for (const KeyRange range : owned_) {
        first_rows_.push_back(static_cast<uint32_t>(row_count_));
        row_count_ += range.key_count();
    }
}

std::optional<uint32_t> DenseStore::first_row(KeyRange keys) const noexcept {
    const auto next = std::ranges::upper_bound(owned_, keys.begin, {}, &KeyRange::begin);
    if (next == owned_.begin() || keys.empty()) return std::nullopt;
    const auto i = static_cast<size_t>(next - owned_.begin()) - 1;
    if (!owned_[i].contains(keys)) return std::nullopt;
    return first_rows_[i] + static_cast<uint32_t>(keys.begin - owned_[i].begin);
}

Status DenseStore::find_rows(std::span<const uint64_t> keys, std::span<uint32_t> rows) const {
    WEIR_CHECK(rows.size() == keys.size());
    KeyRange range;  // the owned range of the key before; sorted keys mostly stay in it
    uint32_t first_row_of_range = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
        const uint64_t key = keys[i];
        if (!range.contains(key)) {
            const auto next = std::ranges::upper_bound(owned_, key, {}, &KeyRange::begin);
            if (next == owned_.begin() || !std::prev(next)->contains(key)) {
                return Error(Errc::kOutOfRange,
                             fmt::format("dense table: key {} at index {} of the list is not this "
                                         "shard's, or beyond the table; ask for the view again",
                                         key, i));
            }
            range = *std::prev(next);
            first_row_of_range = first_rows_[static_cast<size_t>(next - owned_.begin()) - 1];
        }
        rows[i] = first_row_of_range + static_cast<uint32_t>(key - range.begin);
    }
    return {};
}

void DenseStore::pull(std::span<const uint32_t> rows, std::byte* out) const noexcept {
    copy_rows(values_.view(), rows, values_.initial().size(), values_.initial().data(), out);
}

}  // namespace weir
