// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bitmap (bitmap.h) of kept entries: a bit for each key of a call.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/filter/bitmap.h"

namespace weir::filter {

[[nodiscard]] inline bool is_kept(std::span<const std::byte> kept, size_t i) noexcept {
    return (std::to_integer<unsigned>(kept[i / 8]) >> i % 8 & 1U) != 0;
}

inline void set_kept(std::span<std::byte> kept, size_t i) noexcept {
    kept[i / 8] |= static_cast<std::byte>(1U << i % 8);
}

/// Makes `kept` the bitmap of so many keys, none of them kept, or all of them.
inline void reset_kept(std::vector<std::byte>& kept, size_t key_count, bool all = false) {
    kept.assign(bitmap_bytes(key_count), all ? std::byte{0xff} : std::byte{0});
    if (all && key_count % 8 != 0) kept.back() = static_cast<std::byte>((1U << key_count % 8) - 1);
}

/// Bits 64 * word to 64 * word + 63, zeros behind the end.
[[nodiscard]] inline uint64_t kept_word(std::span<const std::byte> kept, size_t word) noexcept {
    uint64_t bits = 0;
    const size_t begin = 8 * word;
    std::memcpy(&bits, kept.data() + begin, std::min<size_t>(8, kept.size() - begin));
    return bits;
}

[[nodiscard]] inline size_t kept_words(std::span<const std::byte> kept) noexcept {
    return (kept.size() + 7) / 8;
}

/// Calls `function(i)` for each kept key, in ascending order.
template <class Function>
void for_each_kept(std::span<const std::byte> kept, Function&& function) {
    for (size_t word = 0; word < kept_words(kept); ++word) {
        for (uint64_t bits = kept_word(kept, word); bits != 0; bits &= bits - 1)
            function(64 * word + static_cast<size_t>(std::countr_zero(bits)));
    }
}

}  // namespace weir::filter
