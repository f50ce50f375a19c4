// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SegmentSplit: spreads the keys of one segment of a KeyIndex over two.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/store/index/key_bucket.h"

namespace weir {

/// Thread: one
class SegmentSplit {
public:
    SegmentSplit(KeyHash hash, KeyCompare compare) noexcept : hash_(hash), compare_(compare) {}

    /// Moves the upper half of the keys in the segment `low` to `high`, and spreads the lower half
    /// over all of `low`. What `high` held before does not matter. Both segments have
    /// `bucket_count` buckets, a power of two. Afterwards the last bits of hash >> shift are a
    /// bucket's number, and the bit before them says which segment it is in.
    void run(KeyBucket* low, KeyBucket* high, size_t bucket_count, uint32_t shift);

private:
    template <class SplitBucket>
    void run_with(SplitBucket split_bucket, KeyBucket* low, KeyBucket* high, size_t bucket_count);
    void run_avx512(KeyBucket* low, KeyBucket* high, size_t bucket_count, uint32_t shift);

    KeyHash hash_;
    KeyCompare compare_;
    std::vector<std::pair<uint64_t, uint32_t>> overflowed_;  // key, row + 1; kept for its memory
};

}  // namespace weir
