// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LineTable: the best hash table that we know for adding to one value by key. The limit for
/// pushes of lists not seen before and of new keys.

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/limits/line_buckets.h"

namespace weir::limits {

/// The values stand beside their keys in buckets of one cache line, so that a key costs one line of
/// memory. The keys of a bucket are compared at once, and the buckets of the keys that follow are
/// prefetched. Its size is given once: it does not grow. No checks, no messages, no rows apart from
/// the keys.
///
/// Any key; no deletion. Thread: one.
class LineTable {
public:
    using Bucket = LineBucket<float>;

    [[nodiscard]] static size_t buckets_for(size_t key_count) noexcept {
        return line_buckets_for(key_count);
    }

    /// `buckets` is zeroed. Its size is a power of two, at least 2.
    explicit LineTable(std::span<Bucket> buckets, Compare compare = best_compare()) noexcept
        : buckets_(buckets), compare_(compare) {}

    /// Adds deltas[i] to the value of keys[i], which begins at 0 if the key is new. There must be
    /// room for the new keys.
    void add(std::span<const uint64_t> keys, const float* deltas) noexcept;

    [[nodiscard]] size_t size() const noexcept { return size_; }

private:
    template <class Match>
    void add_with(Match match, std::span<const uint64_t> keys, const float* deltas) noexcept;
    void add_avx2(std::span<const uint64_t> keys, const float* deltas) noexcept;
    void add_avx512(std::span<const uint64_t> keys, const float* deltas) noexcept;

    std::span<Bucket> buckets_;
    Compare compare_;
    size_t size_ = 0;
};

}  // namespace weir::limits
