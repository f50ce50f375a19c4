// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LineTable: the fastest hash table that we know for adding to one value per key. It is the
/// limit for pushes of new keys and of lists that the server has not seen before.

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/limits/line_buckets.h"

namespace weir::limits {

/// The values stand beside their keys in buckets of one cache line, so that an access to a key
/// reads one line of memory. All keys of a bucket are compared at once, and the buckets of later
/// keys are prefetched. The table does not grow, makes no checks and deletes no keys. Any key is
/// allowed.
///
/// Thread: one.
class LineTable {
public:
    using Bucket = LineBucket<float>;

    /// `buckets` is zeroed. Its size is a power of two, at least 2.
    explicit LineTable(std::span<Bucket> buckets, Compare compare = best_compare()) noexcept
        : buckets_(buckets), compare_(compare) {}

    /// Adds deltas[i] to the value of keys[i]; the value of a new key starts at 0. The table must
    /// have room for the new keys.
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
