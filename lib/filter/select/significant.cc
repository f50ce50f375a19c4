// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/significant.h"

#include <algorithm>

#include "lib/filter/select/magnitudes.h"

namespace weir {

/// What is looked at for so many keys is still in the caches when it is changed. A multiple of 8.
static constexpr size_t kBlockKeys = 2048;

Status Significant::check(const RowKind& rows) const {
    if (!(options_.delta >= 0))
        return Error(Errc::kInvalidArgument, "significant: delta must be 0 or more");
    return HeldBack::check(rows);
}

double Significant::last_sent(uint64_t key) const noexcept {
    const uint32_t slot = sent_slots_.find(key);
    return slot == KeySlots::kNone ? 0 : sent_[slot];
}

void Significant::remember_sent(const CallKeys& keys, std::span<const std::byte> kept) {
    for_each_bit(kept, [&](size_t i) {
        uint32_t slot = sent_slots_.find(keys[i]);
        if (slot == KeySlots::kNone) {
            if (sent_.size() >= options_.remembered_keys_max) return;
            slot = static_cast<uint32_t>(sent_.size());
            sent_.push_back(0);
            sent_slots_.insert(keys[i], slot);
        }
        sent_[slot] = greatest_[i];
    });
}

void Significant::select_block(const RowKind& rows, const PushedRows& block, HeldBack& held,
                               std::span<std::byte> kept) {
    const size_t count = block.keys.size();
    held.merge(block.keys, block.values, merged_);
    greatest_.resize(count);
    magnitudes(rows, merged_.values.data(), greatest_);
    for (size_t i = 0; i < count; ++i) {
        const double limit =
            options_.is_relative ? options_.delta * last_sent(block.keys[i]) : options_.delta;
        kept[i / 8] |= static_cast<std::byte>(unsigned{greatest_[i] > limit} << i % 8);
    }
    held.settle(block.keys, merged_.slots, merged_.values, kept);
    if (options_.is_relative) remember_sent(block.keys, kept);
}

Status Significant::select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                           Selection& selection) {
    const size_t row_bytes = rows.row_bytes();
    selection.begin(push.keys.size());
    for (size_t begin = 0; begin < push.keys.size(); begin += kBlockKeys) {
        const size_t count = std::min(kBlockKeys, push.keys.size() - begin);
        const auto kept = std::span(selection.kept).subspan(begin / 8, bitmap_bytes(count));
        const PushedRows block{push.keys.part(begin, count),
                               push.values.subspan(begin * row_bytes, count * row_bytes)};
        select_block(rows, block, held, kept);
        selection.add_kept(kept, merged_.values, row_bytes);
    }
    return {};
}

}  // namespace weir
