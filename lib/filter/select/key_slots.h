// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeySlots: finds the numbers (slots) that a worker has given to keys that it remembers something
/// of.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/random.h"
#include "lib/key/key_range.h"

namespace weir {

/// A hash table with linear probing, at most three quarters full. For keys of a dense table: an
/// array.
///
/// Thread: one; allocates only when it grows
class KeySlots {
public:
    static constexpr uint32_t kNone = ~uint32_t{0};
    /// Most that it takes for a key when it is not an array: 16 bytes a place, and after it has
    /// grown, 3 of 8 are used.
    static constexpr size_t kBytesPerKey = 48;

    KeySlots() = default;

    /// All keys will be in `range`: an array of 4 bytes for each of its keys.
    explicit KeySlots(KeyRange range)
        : range_(range), array_(static_cast<size_t>(range.key_count()), kNone) {}

    [[nodiscard]] size_t size() const noexcept { return size_; }

    [[nodiscard]] bool is_array() const noexcept { return !array_.empty(); }

    /// Fetches what find() will look at.
    void prefetch(uint64_t key) const noexcept {
        if (is_array()) {
            if (range_.contains(key)) __builtin_prefetch(&array_[key - range_.begin]);
        } else if (!places_.empty()) {
            __builtin_prefetch(&places_[place_of(key)]);
        }
    }

    /// kNone if it has none.
    [[nodiscard]] uint32_t find(uint64_t key) const noexcept;

    /// The key has none yet. slot != kNone
    void insert(uint64_t key, uint32_t slot);

    /// The key has one.
    void erase(uint64_t key) noexcept;

    /// Forgets all keys, and frees the memory of a hash table.
    void clear() noexcept;

    /// Calls `function(key, slot)` for each key, in no order.
    template <class Function>
    void for_each(Function&& function) const {
        for (size_t i = 0; i < array_.size(); ++i) {
            if (array_[i] != kNone) function(range_.begin + i, array_[i]);
        }
        for (const Place& place : places_) {
            if (place.slot != kNone) function(place.key, place.slot);
        }
    }

private:
    struct Place {
        uint64_t key = 0;
        uint32_t slot = kNone;
    };

    static constexpr size_t kPlacesMin = 64;

    [[nodiscard]] size_t place_of(uint64_t key) const noexcept {
        return static_cast<size_t>(mix64(key + 0x9e3779b97f4a7c15ULL)) & (places_.size() - 1);
    }

    void grow();
    void put(uint64_t key, uint32_t slot) noexcept;

    KeyRange range_;               ///< of an array
    std::vector<uint32_t> array_;  ///< by key, from the first of the range on
    std::vector<Place> places_;    ///< a power of two, or none
    size_t size_ = 0;
};

}  // namespace weir
