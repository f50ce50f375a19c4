// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One block of the codec integers whose values are floats: they become integers of fewer bits than
/// a mantissa has, times a power of two. Nothing rounds, and no operand or result is subnormal, so
/// neither the rounding mode nor flushing to zero matters.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lib/filter/integer_block.h"
#include "lib/filter/simd.h"

namespace weir::integers {

template <class F>
struct FloatBlock {
    using Bits = std::conditional_t<sizeof(F) == 4, uint32_t, uint64_t>;
    using Integer = std::make_signed_t<Bits>;

    static constexpr int kMantissaBits = std::numeric_limits<F>::digits - 1;  ///< those stored
    static constexpr int kBias = std::numeric_limits<F>::max_exponent - 1;
    static constexpr Integer kEnd = Integer{1} << (kMantissaBits + 1);  ///< integers are below it
    static constexpr int kScaleMin = 1 - kBias;
    static constexpr int kScaleMax = kBias - kMantissaBits - 1;  ///< kEnd times it is no infinity
    static constexpr Bits kSign = Bits{1} << (8 * sizeof(F) - 1);
    static constexpr Bits kInfinity = Bits{2 * kBias + 1} << kMantissaBits;
    static constexpr Bits kImplied = Bits{1} << kMantissaBits;  ///< the top bit of a mantissa

    /// Blocks are often alike: the scale of the last one, less some bits to spare, is tried before one
    /// is looked for. What is made of a block is the same, whatever this is.
    int from = 0;

    /// 2^exponent, which is no subnormal number.
    static F power(int exponent) noexcept {
        return std::bit_cast<F>(static_cast<Bits>(exponent + kBias) << kMantissaBits);
    }

    /// The exponent of the lowest bit of a normal number, plus kBias + kMantissaBits.
    static WEIR_INLINE Integer lowest(Bits bits) noexcept {
        const Bits mantissa = (bits & (kImplied - 1)) | kImplied;
        const auto low = static_cast<Integer>(mantissa & (~mantissa + 1));
        // The exponent of a power of two tells which bit it is; that can be done with vectors.
        const auto zeros = std::bit_cast<Bits>(static_cast<F>(low)) >> kMantissaBits;
        return static_cast<Integer>((bits & ~kSign) >> kMantissaBits) +
               static_cast<Integer>(zeros) - kBias;
    }

    /// The greatest scale for these values; false if there is none. Without branches, for vectors.
    static WEIR_INLINE bool find_scale(const Bits* values, int& scale) noexcept {
        constexpr Integer kNone = 4 * kBias;  // more than any that a value has
        Bits bad = 0;
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            const Bits magnitude = values[i] & ~kSign;
            // Not normal: infinite, NaN, or subnormal but for a zero with no bit.
            bad |= static_cast<Bits>(magnitude >= kInfinity);
            bad |= static_cast<Bits>(magnitude < kImplied) & static_cast<Bits>(values[i] != 0);
        }
        Integer least = kNone;
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            const auto is_zero = static_cast<Integer>(values[i] == 0);
            least = std::min(least, lowest(values[i]) + is_zero * kNone);
        }
        scale = least == kNone ? 0 : static_cast<int>(least) - kBias - kMantissaBits;
        return bad == 0 && scale >= kScaleMin && scale <= kScaleMax;
    }

    /// As integers times 2^from; false: they are none, or too great.
    WEIR_INLINE bool encode_from(const Bits* values, Head<Bits>& head, Bits* offsets) noexcept {
        const F unit = power(from);
        const F factor = power(-from);
        // What is greater, or NaN, is said to be the limit, which is too great.
        constexpr Bits kLimit = std::bit_cast<Bits>(static_cast<F>(kEnd));
        F scaled[kIntegerBlock];
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            const auto bits = std::bit_cast<Bits>(std::bit_cast<F>(values[i]) * factor);
            const Bits size = std::min<Bits>(bits & ~kSign, kLimit);
            scaled[i] = std::bit_cast<F>((bits & kSign) | size);
        }
        Integer integers[kIntegerBlock];
        Integer low = kEnd;
        Integer high = -kEnd;
        Integer any = 0;
        Bits wrong = 0;
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            integers[i] = static_cast<Integer>(scaled[i]);
            // Also -0 differs, and what was subnormal, or has become so.
            const F back = static_cast<F>(integers[i]) * unit;
            wrong |= std::bit_cast<Bits>(back) ^ values[i];
            low = std::min(low, integers[i]);
            high = std::max(high, integers[i]);
            any |= integers[i];
        }
        if (wrong != 0 || !set_head(low, high, any, head)) return false;
        const int zeros = any == 0 ? 0 : std::countr_zero(static_cast<Bits>(any));
        for (size_t i = 0; i < kIntegerBlock; ++i)
            offsets[i] = static_cast<Bits>(integers[i] - low) >> zeros;
        return true;
    }

    /// Of integers times 2^from: the least, the greatest, and the bits that any has. False: they are
    /// too great.
    WEIR_INLINE bool set_head(Integer low, Integer high, Bits any, Head<Bits>& head) noexcept {
        if (low <= -kEnd || high >= kEnd) return false;
        const int zeros = any == 0 ? 0 : std::countr_zero(any);
        const int scale = any == 0 ? 0 : from + zeros;
        if (scale > kScaleMax) return false;
        head.scale = static_cast<int16_t>(scale);
        head.reference = static_cast<Bits>(low >> zeros);
        head.bits = static_cast<uint8_t>(std::bit_width(static_cast<Bits>(high - low) >> zeros));
        // Half of the bits that are left to spare.
        from = std::clamp(scale - (kMantissaBits + 1 - head.bits) / 2, kScaleMin, kScaleMax);
        return true;
    }

    WEIR_INLINE bool encode(const Bits* values, Head<Bits>& head, Bits* offsets) noexcept {
        const int tried = from;
        if (encode_from(values, head, offsets)) return true;
        if (find_scale(values, from) && encode_from(values, head, offsets)) return true;
        from = tried;
        return false;
    }

    [[nodiscard]] WEIR_INLINE bool accepts(const Head<Bits>& head) const noexcept {
        const auto reference = static_cast<Integer>(head.reference);
        return head.scale >= kScaleMin && head.scale <= kScaleMax && reference > -kEnd &&
               reference < kEnd && head.bits <= kMantissaBits + 2;
    }

    /// False if an integer is too great.
    WEIR_INLINE bool decode(const Head<Bits>& head, const Bits* offsets,
                            Bits* values) const noexcept {
        const auto reference = static_cast<Integer>(head.reference);
        const F factor = power(head.scale);
        Integer greatest = -kEnd;
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            const Integer integer = reference + static_cast<Integer>(offsets[i]);
            greatest = std::max(greatest, integer);
            values[i] = std::bit_cast<Bits>(static_cast<F>(integer) * factor);
        }
        return greatest < kEnd;
    }
};

}  // namespace weir::integers
