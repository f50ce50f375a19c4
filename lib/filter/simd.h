// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Simd: the instructions that codecs pack and expand with. All write the same bytes.

#include <cstdint>

/// Stands before a function that becomes part of those that call it, each with its instruction set.
#define WEIR_INLINE inline __attribute__((always_inline))

namespace weir {

enum class Simd : uint8_t { kPortable, kAvx2, kAvx512 };

/// Ice Lake and Zen 4 have these; what came before has kAvx2.
#define WEIR_TARGET_AVX512 "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx2,bmi,bmi2,lzcnt,popcnt"
#define WEIR_TARGET_AVX2 "avx2,bmi,bmi2,lzcnt,popcnt"

/// Whether this processor has all that functions of this kind use.
[[nodiscard]] inline bool is_supported(Simd simd) noexcept {
#if defined(__x86_64__)
    if (simd == Simd::kPortable) return true;
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("popcnt");
    if (simd == Simd::kAvx2) return avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
#else
    return simd == Simd::kPortable;
#endif
}

/// The fastest one that this processor supports.
[[nodiscard]] inline Simd best_simd() noexcept {
    if (is_supported(Simd::kAvx512)) return Simd::kAvx512;
    return is_supported(Simd::kAvx2) ? Simd::kAvx2 : Simd::kPortable;
}

}  // namespace weir
