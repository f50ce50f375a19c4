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

    WEIR_INLINE bool encode(const Bits* values, Head<Bits>& head, Bits* offsets) const noexcept {
        int scale = 0;
        if (!find_scale(values, scale)) return false;
        const F factor = power(-scale);
        F scaled[kIntegerBlock];
        Bits greatest = 0;
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            scaled[i] = std::bit_cast<F>(values[i]) * factor;  // an infinity at worst
            greatest = std::max<Bits>(greatest, std::bit_cast<Bits>(scaled[i]) & ~kSign);
        }
        if (greatest >= std::bit_cast<Bits>(static_cast<F>(kEnd))) return false;
        Integer integers[kIntegerBlock];
        Integer low = kEnd;
        Integer high = -kEnd;
        for (size_t i = 0; i < kIntegerBlock; ++i) {
            integers[i] = static_cast<Integer>(scaled[i]);
            low = std::min(low, integers[i]);
            high = std::max(high, integers[i]);
        }
        for (size_t i = 0; i < kIntegerBlock; ++i)
            offsets[i] = static_cast<Bits>(integers[i] - low);
        head.scale = static_cast<int16_t>(scale);
        head.reference = static_cast<Bits>(low);
        head.bits = static_cast<uint8_t>(std::bit_width(static_cast<Bits>(high - low)));
        return true;
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
