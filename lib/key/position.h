// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PositionMap: maps keys to positions on the ring of 2^64 positions.

#include <cstdint>

#include "lib/base/check.h"
#include "lib/base/random.h"

namespace weir {

/// The inverse of mix64(): the key that mix64() maps to `position`.
[[nodiscard]] constexpr uint64_t unmix64(uint64_t position) noexcept {
    uint64_t x = position;
    x ^= (x >> 31) ^ (x >> 62);
    x *= 0x319642b2d24d8ec3ULL;  // inverse of mix64's second factor modulo 2^64
    x ^= (x >> 27) ^ (x >> 54);
    x *= 0x96de1b173f119089ULL;  // and of its first
    x ^= (x >> 30) ^ (x >> 60);
    return x;
}

static_assert(unmix64(mix64(0x0123456789abcdefULL)) == 0x0123456789abcdefULL);

/// Positions from `first` to `last`, both included: the whole ring is {0, 2^64 - 1}.
struct PositionRange {
    uint64_t first = 0;
    uint64_t last = ~uint64_t{0};

    [[nodiscard]] constexpr bool contains(uint64_t position) const noexcept {
        return position >= first && position <= last;
    }

    friend constexpr bool operator==(PositionRange, PositionRange) noexcept = default;
};

/// A bijection between the keys of a table and (some of) the ring's positions.
///
/// Dense tables spread the keys 0..n-1 evenly over the ring, key k at floor(k 2^64 / n). The
/// order is kept, so a slice of the ring is a range of keys. Sparse tables use mix64(), which
/// spreads any set of keys evenly.
class PositionMap {
public:
    [[nodiscard]] static constexpr PositionMap sparse() noexcept { return PositionMap(0); }

    /// For the keys 0..key_count-1; key_count > 0.
    [[nodiscard]] static constexpr PositionMap dense(uint64_t key_count) noexcept {
        WEIR_CHECK(key_count > 0);
        return PositionMap(key_count);
    }

    [[nodiscard]] constexpr bool is_dense() const noexcept { return key_count_ != 0; }

    /// Of a dense map; 0 for a sparse one.
    [[nodiscard]] constexpr uint64_t key_count() const noexcept { return key_count_; }

    /// A dense map's key must be below key_count().
    [[nodiscard]] constexpr uint64_t position(uint64_t key) const noexcept {
        if (!is_dense()) return mix64(key);
        return static_cast<uint64_t>((static_cast<uint128>(key) << 64) / key_count_);
    }

    /// The key at `position`; of a dense map the last key at or before it.
    [[nodiscard]] constexpr uint64_t key(uint64_t position) const noexcept {
        if (!is_dense()) return unmix64(position);
        const uint64_t next = first_key_at(position);
        return next < key_count_ && this->position(next) == position ? next : next - 1;
    }

    /// The smallest key of a dense map at or after `position`; key_count() if there is none.
    [[nodiscard]] constexpr uint64_t first_key_at(uint64_t position) const noexcept {
        const uint128 product = static_cast<uint128>(position) * key_count_;
        return static_cast<uint64_t>((product + ~uint64_t{0}) >> 64);
    }

    /// One past the last key of a dense map at or before `position`.
    [[nodiscard]] constexpr uint64_t end_key_at(uint64_t position) const noexcept {
        return position == ~uint64_t{0} ? key_count_ : first_key_at(position + 1);
    }

private:
    constexpr explicit PositionMap(uint64_t key_count) noexcept : key_count_(key_count) {}

    uint64_t key_count_;
};

}  // namespace weir
