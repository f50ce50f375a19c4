// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/bitmap.h"

#include <bit>
#include <cstring>

#include "lib/base/check.h"
#include "lib/base/kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weir {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);

/// The first 8 bytes, or what there is of them.
uint64_t word_at(std::span<const std::byte> bytes) noexcept {
    uint64_t word = 0;
    if (bytes.size() >= kWordBytes)
        std::memcpy(&word, bytes.data(), kWordBytes);
    else if (!bytes.empty())
        std::memcpy(&word, bytes.data(), bytes.size());
    return word;
}

WEIR_KERNEL size_t count_words(const std::byte* words, size_t count) noexcept {
    size_t bits = 0;
    for (size_t i = 0; i < count; ++i) {
        uint64_t word = 0;
        std::memcpy(&word, words + kWordBytes * i, kWordBytes);
        bits += static_cast<size_t>(std::popcount(word));
    }
    return bits;
}

/// Lists the bits of the bitmap from byte `from` on.
uint32_t* list_portable(std::span<const std::byte> bitmap, size_t from, uint32_t* to) noexcept {
    for (; from < bitmap.size(); from += kWordBytes) {
        for (uint64_t word = word_at(bitmap.subspan(from)); word != 0; word &= word - 1)
            *to++ = static_cast<uint32_t>(8 * from + static_cast<size_t>(std::countr_zero(word)));
    }
    return to;
}

#if defined(__x86_64__)
/// Sixteen bits at once, as long as there is room to store sixteen indices.
__attribute__((target(WEIR_TARGET_AVX512))) uint32_t* list_avx512(
    std::span<const std::byte> bitmap, std::span<uint32_t> indices) noexcept {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint32_t* to = indices.data();
    size_t from = 0;
    for (; bitmap.size() - from >= kWordBytes; from += kWordBytes) {
        if (static_cast<size_t>(indices.data() + indices.size() - to) < 8 * kWordBytes) break;
        uint64_t word = 0;
        std::memcpy(&word, bitmap.data() + from, kWordBytes);
        if (word == 0) continue;
        auto first = static_cast<int>(8 * from);
        for (size_t i = 0; i < 4; ++i, word >>= 16, first += 16) {
            const auto bits = static_cast<__mmask16>(word);
            const __m512i found = _mm512_add_epi32(lanes, _mm512_set1_epi32(first));
            _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(bits, found));
            to += std::popcount(static_cast<uint16_t>(word));
        }
    }
    return list_portable(bitmap, from, to);
}
#endif

}  // namespace

size_t count_bits(std::span<const std::byte> bitmap) noexcept {
    const size_t words = bitmap.size() / kWordBytes;
    return count_words(bitmap.data(), words) +
           static_cast<size_t>(std::popcount(word_at(bitmap.subspan(words * kWordBytes))));
}

void list_bits(std::span<const std::byte> bitmap, std::span<uint32_t> indices, Simd simd) noexcept {
    WEIR_CHECK(indices.size() == count_bits(bitmap));
#if defined(__x86_64__)
    if (simd == Simd::kAvx512) {
        list_avx512(bitmap, indices);
        return;
    }
#endif
    (void)simd;
    list_portable(bitmap, 0, indices.data());
}

}  // namespace weir
