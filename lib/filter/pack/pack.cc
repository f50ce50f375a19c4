// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/pack/pack.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/base/check.h"
#include "lib/filter/pack/pack_lanes.h"
#include "lib/filter/pack/pack_lanes_avx2.h"
#include "lib/filter/pack/pack_lanes_avx512.h"

namespace weir {
namespace {

// Whole steps of L::kLanes values first, then what is left as a step in memory of its own.

struct Packing {
    const std::byte* values;
    size_t count;
    std::byte* bitmap;
    std::byte* packed;
    std::byte* end;  ///< of the room for packed values
};

struct Expanding {
    const std::byte* bitmap;
    const std::byte* packed;
    const std::byte* end;  ///< of the packed values
    std::byte* values;
    size_t count;
};

/// Packs a step's values if there may be no room for a whole step.
template <class L, size_t kBytes>
WEIR_INLINE std::byte* pack_into_little(const std::byte* values, uint64_t mask, std::byte* packed) {
    if (mask == 0) return packed;
    std::byte step[L::kLanes * kBytes];
    L::pack(values, mask, step);
    const size_t bytes = static_cast<size_t>(std::popcount(mask)) * kBytes;
    std::memcpy(packed, step, bytes);
    return packed + bytes;
}

/// `kChoose`: the bitmap is written, not read. Returns the end of the packed values.
template <bool kChoose, class L, size_t kBytes>
WEIR_INLINE std::byte* pack_steps(const Packing& p) {
    constexpr size_t kStepBytes = L::kLanes * kBytes;
    const std::byte* values = p.values;
    std::byte* bitmap = p.bitmap;
    std::byte* packed = p.packed;
    size_t left = p.count;
    for (; left >= L::kLanes; left -= L::kLanes) {
        uint64_t mask = 0;
        if constexpr (kChoose) {
            mask = L::nonzeros(values);
            std::memcpy(bitmap, &mask, L::kLanes / 8);
        } else {
            std::memcpy(&mask, bitmap, L::kLanes / 8);
        }
        if (static_cast<size_t>(p.end - packed) >= kStepBytes) [[likely]] {
            L::pack(values, mask, packed);
            packed += static_cast<size_t>(std::popcount(mask)) * kBytes;
        } else {
            packed = pack_into_little<L, kBytes>(values, mask, packed);
        }
        values += kStepBytes;
        bitmap += L::kLanes / 8;
    }
    if (left == 0) return packed;
    std::byte step[kStepBytes] = {};
    std::memcpy(step, values, left * kBytes);
    uint64_t mask = 0;
    if constexpr (kChoose) {
        mask = L::nonzeros(step);
        std::memcpy(bitmap, &mask, (left + 7) / 8);
    } else {
        std::memcpy(&mask, bitmap, (left + 7) / 8);
    }
    return pack_into_little<L, kBytes>(step, mask, packed);
}

template <class L, size_t kBytes>
WEIR_INLINE std::byte* pack_nonzeros_with(const Packing& p) {
    return pack_steps<true, L, kBytes>(p);
}

template <class L, size_t kBytes>
WEIR_INLINE std::byte* pack_chosen_with(const Packing& p) {
    return pack_steps<false, L, kBytes>(p);
}

template <class L, size_t kBytes>
WEIR_INLINE void expand_with(const Expanding& e) {
    constexpr size_t kStepBytes = L::kLanes * kBytes;
    // When less than a step is left of the packed values, it is read from here: a step reads kLanes
    // values, however few it uses.
    std::byte rest[2 * kStepBytes] = {};
    const std::byte* bitmap = e.bitmap;
    const std::byte* packed = e.packed;
    const std::byte* end = e.end;
    std::byte* values = e.values;
    size_t left = e.count;
    for (;;) {
        const auto packed_left = static_cast<size_t>(end - packed);
        if (packed_left < kStepBytes) [[unlikely]] {
            if (packed_left != 0) std::memcpy(rest, packed, packed_left);
            packed = rest;
            end = rest + sizeof rest;  // so once is enough
        }
        if (left < L::kLanes) break;
        uint64_t mask = 0;
        std::memcpy(&mask, bitmap, L::kLanes / 8);
        L::expand(packed, mask, values);
        packed += static_cast<size_t>(std::popcount(mask)) * kBytes;
        values += kStepBytes;
        bitmap += L::kLanes / 8;
        left -= L::kLanes;
    }
    if (left == 0) return;
    uint64_t mask = 0;
    std::memcpy(&mask, bitmap, (left + 7) / 8);
    std::byte step[kStepBytes];
    L::expand(packed, mask, step);
    std::memcpy(values, step, left * kBytes);
}

// A function for each instruction set, kind of work and size of values.

template <size_t kBytes>
struct InPortable {
    using Lanes = lanes::Portable<kBytes>;

    static std::byte* nonzeros(const Packing& p) { return pack_nonzeros_with<Lanes, kBytes>(p); }

    static std::byte* chosen(const Packing& p) { return pack_chosen_with<Lanes, kBytes>(p); }

    static void expand(const Expanding& e) { expand_with<Lanes, kBytes>(e); }
};

#if defined(__x86_64__)
#define WEIR_AVX2 __attribute__((target(WEIR_TARGET_AVX2)))

template <size_t kBytes>
struct InAvx2 {
    using Lanes = lanes::Avx2<kBytes>;

    WEIR_AVX2 static std::byte* nonzeros(const Packing& p) {
        return pack_nonzeros_with<Lanes, kBytes>(p);
    }

    WEIR_AVX2 static std::byte* chosen(const Packing& p) {
        return pack_chosen_with<Lanes, kBytes>(p);
    }

    WEIR_AVX2 static void expand(const Expanding& e) { expand_with<Lanes, kBytes>(e); }
};

#undef WEIR_AVX2

#define WEIR_AVX512 __attribute__((target(WEIR_TARGET_AVX512)))

template <size_t kBytes>
struct InAvx512 {
    using Lanes = lanes::Avx512<kBytes>;

    WEIR_AVX512 static std::byte* nonzeros(const Packing& p) {
        return pack_nonzeros_with<Lanes, kBytes>(p);
    }

    WEIR_AVX512 static std::byte* chosen(const Packing& p) {
        return pack_chosen_with<Lanes, kBytes>(p);
    }

    WEIR_AVX512 static void expand(const Expanding& e) { expand_with<Lanes, kBytes>(e); }
};

#undef WEIR_AVX512
#endif

/// Calls `work.template operator()<Functions>()` with what is fastest of what the caller allows.
template <size_t kBytes, class Work>
auto with_simd(Simd simd, const Work& work) {
#if defined(__x86_64__)
    if (simd == Simd::kAvx512) return work.template operator()<InAvx512<kBytes>>();
    if (simd == Simd::kAvx2) return work.template operator()<InAvx2<kBytes>>();
#endif
    (void)simd;
    return work.template operator()<InPortable<kBytes>>();
}

template <class Work>
auto with_functions(size_t value_bytes, Simd simd, const Work& work) {
    WEIR_CHECK(value_bytes == 1 || value_bytes == 2 || value_bytes == 4 || value_bytes == 8);
    if (value_bytes == 1) return with_simd<1>(simd, work);
    if (value_bytes == 2) return with_simd<2>(simd, work);
    if (value_bytes == 4) return with_simd<4>(simd, work);
    return with_simd<8>(simd, work);
}

}  // namespace

size_t pack_nonzeros(std::span<const std::byte> values, size_t value_bytes, std::byte* bitmap,
                     std::span<std::byte> packed, Simd simd) noexcept {
    WEIR_CHECK(packed.size() >= values.size());
    const Packing p{values.data(), values.size() / value_bytes, bitmap, packed.data(),
                    packed.data() + packed.size()};
    std::byte* const end = with_functions(
        value_bytes, simd, [&]<class Functions>() { return Functions::nonzeros(p); });
    return static_cast<size_t>(end - packed.data());
}

size_t pack_chosen(std::span<const std::byte> values, size_t value_bytes, const std::byte* bitmap,
                   std::span<std::byte> packed, Simd simd) noexcept {
    // The bitmap is only read.
    const Packing p{values.data(), values.size() / value_bytes, const_cast<std::byte*>(bitmap),
                    packed.data(), packed.data() + packed.size()};
    std::byte* const end =
        with_functions(value_bytes, simd, [&]<class Functions>() { return Functions::chosen(p); });
    return static_cast<size_t>(end - packed.data());
}

void expand_values(const std::byte* bitmap, std::span<const std::byte> packed, size_t value_bytes,
                   std::span<std::byte> values, Simd simd) noexcept {
    const Expanding e{bitmap, packed.data(), packed.data() + packed.size(), values.data(),
                      values.size() / value_bytes};
    with_functions(value_bytes, simd, [&]<class Functions>() { Functions::expand(e); });
}

}  // namespace weir
