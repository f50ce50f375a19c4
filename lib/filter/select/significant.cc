// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/significant.h"

#include "lib/filter/select/magnitudes.h"

namespace weir::filter {

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
    for_each_kept(kept, [&](size_t i) {
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

Status Significant::select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                           Selection& selection) {
    const size_t count = push.keys.size();
    held.merge(push.keys, push.values, merged_);
    greatest_.resize(count);
    magnitudes(rows, merged_.values.data(), greatest_);
    reset_kept(selection.kept, count);
    for (size_t i = 0; i < count; ++i) {
        const double limit =
            options_.is_relative ? options_.delta * last_sent(push.keys[i]) : options_.delta;
        selection.kept[i / 8] |= static_cast<std::byte>(unsigned{greatest_[i] > limit} << i % 8);
    }
    held.settle(push.keys, merged_.slots, merged_.values, selection.kept);
    if (options_.is_relative) remember_sent(push.keys, selection.kept);
    selection.keep_of(merged_.values, rows.row_bytes());
    return {};
}

}  // namespace weir::filter
