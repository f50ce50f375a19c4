// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/held_back.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "lib/base/check.h"
#include "lib/key/finite.h"

namespace weir {
namespace {

constexpr size_t kKeysAhead = 16;  // so early are places of a hash table fetched

KeySlots slots_for(std::optional<KeyRange> dense, size_t bytes_max) {
    if (!dense || dense->key_count() > bytes_max / 4 / sizeof(uint32_t)) return {};
    return KeySlots(*dense);
}

}  // namespace

HeldBack::HeldBack(const RowKind& rows, size_t bytes_max, std::optional<KeyRange> dense)
    : rows_(rows),
      combine_(check(rows) ? combine_row_of(rows) : nullptr),
      row_bytes_(rows.row_bytes()),
      slots_(slots_for(dense, bytes_max)),
      bytes_of_row_(row_bytes_ + (slots_.is_array() ? 0 : KeySlots::kBytesPerKey)),
      index_bytes_(slots_.is_array() ? static_cast<size_t>(dense->key_count()) * sizeof(uint32_t)
                                     : 0) {
    WEIR_CHECK(row_bytes_ != 0);
    row_count_max_ =
        std::min<size_t>((bytes_max - index_bytes_) / bytes_of_row_, KeySlots::kNone - 1);
    chunk_shift_ =
        static_cast<unsigned>(std::bit_width(std::max<size_t>(1, kChunkBytes / row_bytes_)) - 1);
}

Status HeldBack::check(const RowKind& rows) {
    if (rows.combine != Combine::kMean) return {};
    return Error(
        Errc::kInvalidArgument,
        "the table's rule takes the mean of what workers push; a worker cannot hold pushes back "
        "for it, because their sum would count once: use a selector that does not");
}

const std::byte* HeldBack::find(uint64_t key) const noexcept {
    const uint32_t slot = slots_.find(key);
    return slot == KeySlots::kNone ? nullptr : row_at(slot);
}

void HeldBack::merge(const CallKeys& keys, std::span<const std::byte> values, MergedRows& merged) {
    WEIR_CHECK(values.size() == keys.size() * row_bytes_);
    merged.values.assign(values.begin(), values.end());
    merged.slots.assign(keys.size(), KeySlots::kNone);
    merged.held_count = 0;
    if (empty()) return;
    const size_t count = keys.size();
    for (size_t i = 0; i < count; ++i) {
        if (i + kKeysAhead < count) slots_.prefetch(keys[i + kKeysAhead]);
        const uint32_t slot = slots_.find(keys[i]);
        merged.slots[i] = slot;
        merged.held_count += static_cast<size_t>(slot != KeySlots::kNone);
    }
    if (merged.held_count == 0) return;
    for (size_t i = 0; i < count; ++i) {
        if (i + kKeysAhead < count) prefetch_row(merged.slots[i + kKeysAhead]);
        if (merged.slots[i] == KeySlots::kNone) continue;
        std::byte* const row = merged.values.data() + i * row_bytes_;
        combine_(row_at(merged.slots[i]), row, rows_.width);
        if (!all_finite(rows_.type, row, rows_.width)) [[unlikely]]
            overflowed_ = keys[i];
    }
}

/// What settle() will change for one of the next keys.
void HeldBack::prefetch_change(uint64_t key, uint32_t slot, bool has_bit) const noexcept {
    if (has_bit == (slot != KeySlots::kNone)) {
        slots_.prefetch(key);
    } else if (!has_bit) {
        prefetch_row(slot);
    }
}

bool HeldBack::is_nothing(const std::byte* row) const noexcept {
    if (rows_.combine != Combine::kSum) return false;
    uint32_t all = 0;
    size_t i = 0;
    for (; i + sizeof all <= row_bytes_; i += sizeof all) {
        uint32_t some = 0;
        std::memcpy(&some, row + i, sizeof some);
        all |= some;
    }
    for (; i < row_bytes_; ++i)
        all |= std::to_integer<uint32_t>(row[i]);
    return all == 0;
}

void HeldBack::copy_row(std::byte* to, const std::byte* from) const noexcept {
    if (row_bytes_ == sizeof(float)) {
        std::memcpy(to, from, sizeof(float));
    } else {
        std::memcpy(to, from, row_bytes_);
    }
}

/// Makes room before room is needed.
void HeldBack::free_rows(const CallKeys& keys, std::span<const uint32_t> slots,
                         std::span<const std::byte> rows, std::span<const std::byte> kept) {
    if (empty()) return;
    const size_t count = keys.size();
    for (size_t i = 0; i < count; ++i) {
        if (const size_t next = i + kKeysAhead; next < count && slots[next] != KeySlots::kNone)
            prefetch_change(keys[next], slots[next], has_bit(kept, next));
        if (slots[i] == KeySlots::kNone) continue;
        if (!has_bit(kept, i) && !is_nothing(rows.data() + i * row_bytes_)) continue;
        note_change(keys[i], slots[i]);
        slots_.erase(keys[i]);
        free_.push_back(slots[i]);
    }
}

/// The row of `slot`, or none, is what undo() brings back.
void HeldBack::note_change(uint64_t key, uint32_t slot) {
    if (!log_.is_on) return;
    log_.keys.push_back(key);
    log_.were_held.push_back(slot != KeySlots::kNone);
    if (slot == KeySlots::kNone) return;
    const std::byte* const row = row_at(slot);
    log_.rows.insert(log_.rows.end(), row, row + row_bytes_);
}

void HeldBack::clear_log() {
    constexpr size_t kKeptBytes = size_t{1} << 20;
    if (log_.rows.capacity() > kKeptBytes) log_ = {};
    log_.keys.clear();
    log_.were_held.clear();
    log_.rows.clear();
    log_.is_on = false;
}

void HeldBack::begin_call() {
    clear_log();
    log_.is_on = true;
    overflowed_.reset();
}

void HeldBack::end_call() {
    clear_log();
}

/// The other way round, so that there is room at each step, as there was.
void HeldBack::undo() {
    log_.is_on = false;
    size_t end = log_.rows.size();
    for (size_t i = log_.keys.size(); i-- > 0;) {
        const uint64_t key = log_.keys[i];
        const uint32_t slot = slots_.find(key);
        if (!log_.were_held[i]) {
            slots_.erase(key);
            free_.push_back(slot);
            continue;
        }
        end -= row_bytes_;
        const std::byte* const row = log_.rows.data() + end;
        if (slot != KeySlots::kNone) {
            copy_row(row_at(slot), row);
        } else {
            WEIR_CHECK(hold(key, row));
        }
    }
    clear_log();
}

bool HeldBack::hold(uint64_t key, const std::byte* row) {
    if (row_count() == row_count_max_) return false;
    uint32_t slot = slot_count_;
    if (free_.empty()) {
        ++slot_count_;
        if (slot >> chunk_shift_ == chunks_.size())
            chunks_.push_back(std::make_unique<std::byte[]>(row_bytes_ << chunk_shift_));
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    slots_.insert(key, slot);
    copy_row(row_at(slot), row);
    return true;
}

void HeldBack::settle(const CallKeys& keys, std::span<const uint32_t> slots,
                      std::span<const std::byte> rows, std::span<std::byte> kept) {
    WEIR_CHECK(slots.size() == keys.size() && rows.size() == keys.size() * row_bytes_ &&
               kept.size() == bitmap_bytes(keys.size()));
    free_rows(keys, slots, rows, kept);
    const size_t count = keys.size();
    for (size_t i = 0; i < count; ++i) {
        if (const size_t next = i + kKeysAhead; next < count && !has_bit(kept, next))
            prefetch_change(keys[next], slots[next], false);
        if (has_bit(kept, i)) continue;
        const std::byte* const row = rows.data() + i * row_bytes_;
        if (is_nothing(row)) continue;
        if (slots[i] != KeySlots::kNone) {
            note_change(keys[i], slots[i]);
            copy_row(row_at(slots[i]), row);
        } else if (hold(keys[i], row)) {
            note_change(keys[i], KeySlots::kNone);
        } else {
            set_bit(kept, i);
        }
    }
}

void HeldBack::take_all(std::vector<uint64_t>& keys, std::vector<std::byte>& rows) {
    sorted_.clear();
    slots_.for_each([&](uint64_t key, uint32_t slot) { sorted_.emplace_back(key, slot); });
    std::ranges::sort(sorted_);
    keys.resize(sorted_.size());
    rows.resize(sorted_.size() * row_bytes_);
    for (size_t i = 0; i < sorted_.size(); ++i) {
        keys[i] = sorted_[i].first;
        note_change(keys[i], sorted_[i].second);
        copy_row(rows.data() + i * row_bytes_, row_at(sorted_[i].second));
    }
    slots_.clear();
    free_.clear();
    slot_count_ = 0;
}

}  // namespace weir
