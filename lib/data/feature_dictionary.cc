// SPDX-License-Identifier: Apache-2.0
#include "lib/data/feature_dictionary.h"

#include <algorithm>
#include <array>

#include "lib/base/random.h"

namespace weir::data {

namespace {

constexpr uint64_t kFirstSlotCount = 1024;
constexpr uint64_t kBatchCount = 64;  // look-ups with overlapping cache misses

}  // namespace

FeatureDictionary::FeatureDictionary()
    : slots_(kFirstSlotCount, kNotFound), slot_mask_(kFirstSlotCount - 1) {}

uint64_t FeatureDictionary::slot_of(uint64_t key) const noexcept {
    return mix64(key) & slot_mask_;
}

uint32_t FeatureDictionary::find(uint64_t key) const noexcept {
    for (uint64_t slot = slot_of(key);; slot = (slot + 1) & slot_mask_) {
        const uint32_t index = slots_[slot];
        if (index == kNotFound || keys_[index] == key) return index;
    }
}

/// Returns the index of `key`, looking for it from `slot` on. A new key gets the next index.
uint32_t FeatureDictionary::insert_at(uint64_t slot, uint64_t key) {
    for (;; slot = (slot + 1) & slot_mask_) {
        const uint32_t index = slots_[slot];
        if (index == kNotFound) {
            slots_[slot] = static_cast<uint32_t>(keys_.size());
            keys_.push_back(key);
            return slots_[slot];
        }
        if (keys_[index] == key) return index;
    }
}

Status FeatureDictionary::insert(std::span<const uint64_t> keys, std::span<uint32_t> out) {
    WEIR_CHECK(keys.size() == out.size());
    std::array<uint64_t, kBatchCount> slots;
    for (uint64_t begin = 0; begin < keys.size(); begin += kBatchCount) {
        const uint64_t end = std::min<uint64_t>(begin + kBatchCount, keys.size());
        if (keys_.size() + kBatchCount >= kNotFound) {
            return Error(Errc::kOutOfRange,
                         "more than 2^32 - 66 different features for one worker; use more workers");
        }
        if ((keys_.size() + kBatchCount) * 10 > slots_.size() * 7) grow();
        for (uint64_t i = begin; i < end; ++i) {
            slots[i - begin] = slot_of(keys[i]);
            __builtin_prefetch(&slots_[slots[i - begin]]);
        }
        for (uint64_t i = begin; i < end; ++i) {
            const uint32_t index = slots_[slots[i - begin]];
            if (index != kNotFound) __builtin_prefetch(&keys_[index]);
        }
        for (uint64_t i = begin; i < end; ++i)
            out[i] = insert_at(slots[i - begin], keys[i]);
    }
    return {};
}

void FeatureDictionary::grow() {
    const uint64_t slot_count = slots_.size() * 2;
    slots_ = {};  // frees the old table first: keys_ is enough to fill the new one
    slots_.resize(slot_count, kNotFound);
    slot_mask_ = slot_count - 1;
    constexpr uint64_t kAhead = 16;
    for (uint64_t index = 0; index < keys_.size(); ++index) {
        if (index + kAhead < keys_.size()) {
            __builtin_prefetch(&slots_[slot_of(keys_[index + kAhead])], 1);
        }
        uint64_t slot = slot_of(keys_[index]);
        while (slots_[slot] != kNotFound)
            slot = (slot + 1) & slot_mask_;
        slots_[slot] = static_cast<uint32_t>(index);
    }
}

std::vector<uint64_t> FeatureDictionary::take_keys() {
    slots_ = std::vector<uint32_t>(kFirstSlotCount, kNotFound);
    slot_mask_ = kFirstSlotCount - 1;
    return std::exchange(keys_, {});
}

}  // namespace weir::data
