// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/key_slots.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"

namespace weir {

uint32_t KeySlots::find(uint64_t key) const noexcept {
    if (is_array()) return range_.contains(key) ? array_[key - range_.begin] : kNone;
    if (places_.empty()) return kNone;
    const size_t mask = places_.size() - 1;
    for (size_t at = place_of(key);; at = (at + 1) & mask) {
        const Place& place = places_[at];
        if (place.slot == kNone || place.key == key) return place.slot;
    }
}

void KeySlots::insert(uint64_t key, uint32_t slot) {
    WEIR_CHECK(slot != kNone);
    if (is_array()) {
        WEIR_CHECK(range_.contains(key) && array_[key - range_.begin] == kNone);
        array_[key - range_.begin] = slot;
    } else {
        if (4 * (size_ + 1) > 3 * places_.size()) grow();
        put(key, slot);
    }
    ++size_;
}

void KeySlots::put(uint64_t key, uint32_t slot) noexcept {
    const size_t mask = places_.size() - 1;
    size_t at = place_of(key);
    while (places_[at].slot != kNone)
        at = (at + 1) & mask;
    places_[at] = {key, slot};
}

void KeySlots::grow() {
    std::vector<Place> old(std::max(kPlacesMin, 2 * places_.size()));
    std::swap(old, places_);
    for (const Place& place : old) {
        if (place.slot != kNone) put(place.key, place.slot);
    }
}

void KeySlots::erase(uint64_t key) noexcept {
    --size_;
    if (is_array()) {
        WEIR_CHECK(range_.contains(key) && array_[key - range_.begin] != kNone);
        array_[key - range_.begin] = kNone;
        return;
    }
    WEIR_CHECK(!places_.empty());
    const size_t mask = places_.size() - 1;
    size_t gap = place_of(key);
    while (places_[gap].key != key || places_[gap].slot == kNone) {
        WEIR_CHECK(places_[gap].slot != kNone);
        gap = (gap + 1) & mask;
    }
    // Keys behind move into the gap if it is on their way, so that no marks of erased keys are
    // needed.
    for (size_t at = (gap + 1) & mask; places_[at].slot != kNone; at = (at + 1) & mask) {
        const size_t from = place_of(places_[at].key);
        if (((at - from) & mask) < ((at - gap) & mask)) continue;
        places_[gap] = places_[at];
        gap = at;
    }
    places_[gap].slot = kNone;
}

void KeySlots::clear() noexcept {
    std::ranges::fill(array_, kNone);
    places_ = {};
    size_ = 0;
}

}  // namespace weir
