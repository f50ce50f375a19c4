// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/wide_table.h"

#include <cstring>

namespace weir::limits {
namespace {

constexpr size_t kTogether = 32;  // rows prefetched while the 32 before them are worked on

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

WideTable::WideTable(std::span<Bucket> buckets, float* rows, size_t width, const WideStep& step,
                     Compare compare)
    : buckets_(buckets),
      rows_(rows),
      width_(width),
      steps_(step, width),
      row_floats_(step.row_floats(width)),
      pushed_floats_(step.pushed_floats(width)),
      compare_(compare) {}

/// Sets rows[i] to the row of keys[i]; a new key gets the next row.
void WideTable::find(std::span<const uint64_t> keys, float** rows) noexcept {
    const auto use = [&](size_t i, Bucket& bucket, uint32_t place) {
        if (bucket.used == place) {
            bucket.values[place] = row_count_++;
            steps_.begin(rows_ + bucket.values[place] * row_floats_);
        }
        rows[i] = rows_ + bucket.values[place] * row_floats_;
    };
#if defined(__x86_64__)
    if (compare_ == Compare::kAvx512) return places_avx512(buckets_, keys, use);
    if (compare_ == Compare::kAvx2) return places_avx2(buckets_, keys, use);
#endif
    places_of(buckets_, keys, use);
}

/// Calls use(i, rows, count) for the keys from i on, after a prefetch of the first `row_floats` floats of
/// each row.
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
        use(begin, now, std::min(kTogether, keys.size() - begin));
    }
}

void WideTable::insert(std::span<const uint64_t> keys) noexcept {
    for_rows(keys, 0, [](size_t, float* const*, size_t) {});
}

void WideTable::pull(std::span<const uint64_t> keys, float* out) noexcept {
    for_rows(keys, width_, [&](size_t first, float* const* rows, size_t count) {
        for (size_t i = 0; i < count; ++i)
            std::memcpy(out + (first + i) * width_, rows[i], width_ * sizeof(float));
    });
}

void WideTable::push(std::span<const uint64_t> keys, const float* pushed) noexcept {
    for_rows(keys, row_floats_, [&](size_t first, float* const* rows, size_t count) {
        steps_.take(rows, pushed + first * pushed_floats_, count);
    });
}

}  // namespace weir::limits
