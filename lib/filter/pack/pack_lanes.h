// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What packs and expands a few values at once, portably. A step takes kLanes values:
///
///   nonzeros(values)             a bit for each value of which any bit is set
///   pack(values, mask, packed)   the values whose bits are set, side by side. Writes kLanes values;
///                                those behind the packed ones mean nothing
///   expand(packed, mask, values) the reverse, with zeros between. Reads kLanes values

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace weir::lanes {

/// The unsigned integer of so many bytes.
template <size_t kBytes>
using Bits = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

template <size_t kBytes>
struct Portable {
    static constexpr size_t kLanes = 8;
    using Value = Bits<kBytes>;

    static uint64_t nonzeros(const std::byte* values) noexcept {
        Value lane[kLanes];
        std::memcpy(lane, values, sizeof lane);
        uint64_t mask = 0;
        for (size_t i = 0; i < kLanes; ++i)
            mask |= static_cast<uint64_t>(lane[i] != 0) << i;
        return mask;
    }

    /// Without branches, which would be mispredicted.
    static void pack(const std::byte* values, uint64_t mask, std::byte* packed) noexcept {
        Value from[kLanes];
        Value to[kLanes + 1] = {};
        std::memcpy(from, values, sizeof from);
        size_t used = 0;
        for (size_t i = 0; i < kLanes; ++i) {
            to[used] = from[i];
            used += mask >> i & 1;
        }
        std::memcpy(packed, to, sizeof from);
    }

    static void expand(const std::byte* packed, uint64_t mask, std::byte* values) noexcept {
        Value from[kLanes];
        Value to[kLanes];
        std::memcpy(from, packed, sizeof from);
        size_t used = 0;
        for (size_t i = 0; i < kLanes; ++i) {
            const uint64_t bit = mask >> i & 1;
            to[i] = bit != 0 ? from[used] : Value{0};
            used = (used + bit) % kLanes;  // the last one may be used up
        }
        std::memcpy(values, to, sizeof to);
    }
};

}  // namespace weir::lanes
