// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/line_table.h"

namespace weir::limits {

template <class Match>
inline __attribute__((always_inline)) void LineTable::add_with(Match match,
                                                               std::span<const uint64_t> keys,
                                                               const float* deltas) noexcept {
    size_t fresh = 0;
    // A free place has the value 0, because the buckets were zeroed.
    use_places(
        match, buckets_,
        keys, [&](size_t i, Bucket & bucket, uint32_t place) __attribute__((always_inline)) {
            fresh += bucket.used == place ? 1 : 0;
            bucket.values[place] += deltas[i];
        });
    size_ += fresh;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void LineTable::add_avx2(std::span<const uint64_t> keys,
                                                         const float* deltas) noexcept {
    add_with(MatchAvx2(), keys, deltas);
}

__attribute__((target("avx512f"))) void LineTable::add_avx512(std::span<const uint64_t> keys,
                                                              const float* deltas) noexcept {
    add_with(MatchAvx512(), keys, deltas);
}
#endif

void LineTable::add(std::span<const uint64_t> keys, const float* deltas) noexcept {
#if defined(__x86_64__)
    if (compare_ == Compare::kAvx512) return add_avx512(keys, deltas);
    if (compare_ == Compare::kAvx2) return add_avx2(keys, deltas);
#endif
    add_with(MatchPortable(), keys, deltas);
}

}  // namespace weir::limits
