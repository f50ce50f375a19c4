// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One block of the codec integers: offsets in a few bits each, and finding the scale and the
/// reference of integers. float_block.h does the latter for floats.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/filter/integers.h"
#include "lib/filter/simd.h"

namespace weir::integers {

/// Wider offsets save nothing worth while, and up to this many bits an offset lies within 8 bytes
/// wherever it begins.
inline constexpr uint32_t kBitsMax = 56;

/// What stands before the offsets of a block.
template <class U>
struct Head {
    static constexpr size_t kBytes = 1 + sizeof(int16_t) + sizeof(U);

    uint8_t bits = 0;
    int16_t scale = 0;
    U reference = 0;

    WEIR_INLINE void write(std::byte* to) const noexcept {
        std::memcpy(to, &bits, sizeof bits);
        std::memcpy(to + 1, &scale, sizeof scale);
        std::memcpy(to + 1 + sizeof scale, &reference, sizeof reference);
    }

    WEIR_INLINE void read(const std::byte* from) noexcept {
        std::memcpy(&bits, from, sizeof bits);
        std::memcpy(&scale, from + 1, sizeof scale);
        std::memcpy(&reference, from + 1 + sizeof scale, sizeof reference);
    }
};

WEIR_INLINE size_t offsets_bytes(uint32_t bits, size_t count) noexcept {
    return (bits * count + 7) / 8;
}

/// Room for the offsets of a block, and the rest of the last word.
inline constexpr size_t kOffsetsRoom = kBitsMax * kIntegerBlock / 8 + 8;

/// Two words of so many bits become one.
template <size_t kPairs>
WEIR_INLINE void join_pairs(const uint64_t* __restrict from, uint32_t bits,
                            uint64_t* __restrict to) noexcept {
    for (size_t i = 0; i < kPairs; ++i)
        to[i] = from[2 * i] | from[2 * i + 1] << bits;
}

/// The reverse.
template <size_t kPairs>
WEIR_INLINE void split_pairs(const uint64_t* __restrict from, uint32_t bits,
                             uint64_t* __restrict to) noexcept {
    const uint64_t mask = (uint64_t{1} << bits) - 1;
    for (size_t i = 0; i < kPairs; ++i) {
        to[2 * i] = from[i] & mask;
        to[2 * i + 1] = from[i] >> bits;
    }
}

/// How often two words of so many bits can be joined: up to three times.
WEIR_INLINE uint32_t joins_of(uint32_t bits) noexcept {
    uint32_t joins = 0;
    for (; joins < 3 && bits << (joins + 1) <= kBitsMax; ++joins) {
    }
    return joins;
}

/// Words of so many bits, at least 8, side by side, and up to 8 bytes behind them. None waits for the
/// one before: what both have in a byte is written twice.
WEIR_INLINE void put_words(const uint64_t* words, size_t count, uint32_t bits,
                           std::byte* to) noexcept {
    uint64_t before = 0;
    for (size_t i = 0; i < count; ++i) {
        const size_t at = i * bits;
        const auto shift = static_cast<uint32_t>(at % 8);
        const uint64_t word = words[i] << shift | before >> (bits - shift);
        std::memcpy(to + at / 8, &word, sizeof word);
        before = words[i];
    }
    const uint64_t end = before >> (bits - count * bits % 8);
    std::memcpy(to + count * bits / 8, &end, sizeof end);
}

/// Writes 64 offsets, and up to 8 bytes behind them. They are joined first, many at once, as long as
/// a word has room.
template <class U>
WEIR_INLINE void pack_offsets(const U* offsets, uint32_t bits, std::byte* to) noexcept {
    if (bits == 0) return;
    if (bits == 8) {
        for (size_t i = 0; i < kIntegerBlock; ++i)
            to[i] = static_cast<std::byte>(offsets[i]);
        return;
    }
    uint64_t even[kIntegerBlock];
    uint64_t odd[kIntegerBlock / 2];
    for (size_t i = 0; i < kIntegerBlock; ++i)
        even[i] = offsets[i];
    const uint32_t joins = joins_of(bits);
    if (joins > 0) join_pairs<kIntegerBlock / 2>(even, bits, odd);
    if (joins > 1) join_pairs<kIntegerBlock / 4>(odd, 2 * bits, even);
    if (joins > 2) join_pairs<kIntegerBlock / 8>(even, 4 * bits, odd);
    put_words(joins % 2 == 0 ? even : odd, kIntegerBlock >> joins, bits << joins, to);
}

/// Reads 64 offsets, and up to 8 bytes behind them: words of several offsets, which are split then,
/// many at once.
template <class U>
WEIR_INLINE void unpack_offsets(const std::byte* from, uint32_t bits, U* offsets) noexcept {
    uint64_t even[kIntegerBlock];
    uint64_t odd[kIntegerBlock / 2];
    const uint32_t joins = joins_of(bits);
    uint64_t* const words = joins % 2 == 0 ? even : odd;
    const uint32_t joined_bits = bits << joins;
    const uint64_t mask = (uint64_t{1} << joined_bits) - 1;
    for (uint32_t i = 0; i < kIntegerBlock >> joins; ++i) {
        uint64_t word = 0;
        std::memcpy(&word, from + i * joined_bits / 8, sizeof word);
        words[i] = word >> (i * joined_bits % 8) & mask;
    }
    if (joins > 2) split_pairs<kIntegerBlock / 8>(odd, 4 * bits, even);
    if (joins > 1) split_pairs<kIntegerBlock / 4>(even, 2 * bits, odd);
    if (joins > 0) split_pairs<kIntegerBlock / 2>(odd, bits, even);
    for (size_t i = 0; i < kIntegerBlock; ++i)
        offsets[i] = static_cast<U>(even[i]);
}

/// Integers: U is the unsigned type of their size. They are compared as signed ones if `sign` is the
/// top bit, as unsigned ones if it is 0.
template <class U>
struct IntegerBlock {
    using Bits = U;

    U sign;

    /// Always possible.
    WEIR_INLINE bool encode(const U* values, Head<U>& head, U* offsets) const noexcept {
        U least = values[0] ^ sign;
        for (size_t i = 0; i < kIntegerBlock; ++i)
            least = std::min<U>(least, values[i] ^ sign);
        head.reference = least ^ sign;
        U any = 0;
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            offsets[i] = values[i] - head.reference;
            any |= offsets[i];
        }
        const int scale = any == 0 ? 0 : std::countr_zero(any);
        for (size_t i = 0; i < kIntegerBlock; ++i)
            offsets[i] >>= scale;
        head.scale = static_cast<int16_t>(scale);
        head.bits = static_cast<uint8_t>(std::bit_width(any) - scale);
        return true;
    }

    [[nodiscard]] WEIR_INLINE bool accepts(const Head<U>& head) const noexcept {
        constexpr int kAll = 8 * sizeof(U);
        return head.scale >= 0 && head.scale < kAll && head.scale + head.bits <= kAll;
    }

    /// Any offsets are those of some values.
    WEIR_INLINE bool decode(const Head<U>& head, const U* offsets, U* values) const noexcept {
        for (size_t i = 0; i < kIntegerBlock; ++i)
            values[i] = head.reference + (offsets[i] << head.scale);
        return true;
    }
};

}  // namespace weir::integers
