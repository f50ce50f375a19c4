// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyRange: the keys from `begin` to just before `end`.

#include <cstdint>

namespace weir {

struct KeyRange {
    uint64_t begin = 0;
    uint64_t end = 0;

    /// False if the range ends before it begins, as one that a peer sent may.
    [[nodiscard]] constexpr bool well_formed() const noexcept { return begin <= end; }

    [[nodiscard]] constexpr bool empty() const noexcept { return begin >= end; }

    [[nodiscard]] constexpr uint64_t key_count() const noexcept {
        return empty() ? 0 : end - begin;
    }

    [[nodiscard]] constexpr bool contains(uint64_t key) const noexcept {
        return key >= begin && key < end;
    }

    [[nodiscard]] constexpr bool contains(KeyRange other) const noexcept {
        return other.empty() || (other.begin >= begin && other.end <= end);
    }

    friend constexpr bool operator==(KeyRange, KeyRange) noexcept = default;
};

/// The keys in both ranges. If there are none: an empty range at the larger `begin`.
[[nodiscard]] constexpr KeyRange intersect(KeyRange a, KeyRange b) noexcept {
    const uint64_t begin = a.begin > b.begin ? a.begin : b.begin;
    const uint64_t end = a.end < b.end ? a.end : b.end;
    return {begin, end > begin ? end : begin};
}

}  // namespace weir
