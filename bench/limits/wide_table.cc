// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/wide_table.h"

#include <cmath>
#include <cstring>

#include "lib/base/kernel.h"

namespace weir::limits {
namespace {

constexpr size_t kTogether = 32;  // rows prefetched while the 32 before them are worked on

WEIR_KERNEL void adagrad_row(float* row, const float* gradients, size_t width, float rate,
                             float epsilon) noexcept {
    float* __restrict value = row;
    float* __restrict state = row + width;
    const float* __restrict g = gradients;
    for (size_t i = 0; i < width; ++i) {
        state[i] += g[i] * g[i];
        value[i] -= rate * g[i] / (std::sqrt(state[i]) + epsilon);
    }
}

/// use_places() with the portable comparison of keys.
template <class Use>
__attribute__((always_inline)) inline void places_of(std::span<WideTable::Bucket> buckets,
                                                     std::span<const uint64_t> keys, Use use) {
    use_places(MatchPortable(), buckets, keys, use);
}

#if defined(__x86_64__)
template <class Use>
__attribute__((target("avx2"))) void places_avx2(std::span<WideTable::Bucket> buckets,
                                                 std::span<const uint64_t> keys, Use use) {
    use_places(MatchAvx2(), buckets, keys, use);
}

template <class Use>
__attribute__((target("avx512f"))) void places_avx512(std::span<WideTable::Bucket> buckets,
                                                      std::span<const uint64_t> keys, Use use) {
    use_places(MatchAvx512(), buckets, keys, use);
}
#endif

}  // namespace

/// Sets rows[i] to the row of keys[i]; a new key gets the next row.
void WideTable::find(std::span<const uint64_t> keys, float** rows) noexcept {
    const size_t row_floats = 2 * width_;
    const auto use = [&](size_t i, Bucket& bucket, uint32_t place) {
        if (bucket.used == place) bucket.values[place] = row_count_++;
        rows[i] = rows_ + bucket.values[place] * row_floats;
    };
#if defined(__x86_64__)
    if (compare_ == Compare::kAvx512) return places_avx512(buckets_, keys, use);
    if (compare_ == Compare::kAvx2) return places_avx2(buckets_, keys, use);
#endif
    places_of(buckets_, keys, use);
}

/// Calls use(i, row) for each key, after a prefetch of the first `row_floats` floats of the row.
template <class Use>
void WideTable::for_rows(std::span<const uint64_t> keys, size_t row_floats, Use use) noexcept {
    constexpr size_t kFloatsPerLine = 16;
    float* rows[2][kTogether];
    const auto ask = [&](size_t begin, float** some) {
        const size_t count = std::min(kTogether, keys.size() - begin);
        find(keys.subspan(begin, count), some);
        for (size_t i = 0; i < count; ++i) {
            for (size_t at = 0; at < row_floats; at += kFloatsPerLine)
                __builtin_prefetch(some[i] + at, 1);
        }
    };
    if (keys.empty()) return;
    ask(0, rows[0]);
    for (size_t begin = 0; begin < keys.size(); begin += kTogether) {
        float** const now = rows[begin / kTogether % 2];
        if (begin + kTogether < keys.size())
            ask(begin + kTogether, rows[(begin / kTogether + 1) % 2]);
        const size_t count = std::min(kTogether, keys.size() - begin);
        for (size_t i = 0; i < count; ++i)
            use(begin + i, now[i]);
    }
}

void WideTable::insert(std::span<const uint64_t> keys) noexcept {
    for_rows(keys, 0, [](size_t, float*) {});
}

void WideTable::pull(std::span<const uint64_t> keys, float* out) noexcept {
    for_rows(keys, width_, [&](size_t i, const float* row) {
        std::memcpy(out + i * width_, row, width_ * sizeof(float));
    });
}

void WideTable::adagrad(std::span<const uint64_t> keys, const float* gradients, float rate,
                        float epsilon) noexcept {
    for_rows(keys, 2 * width_, [&](size_t i, float* row) {
        adagrad_row(row, gradients + i * width_, width_, rate, epsilon);
    });
}

}  // namespace weir::limits
