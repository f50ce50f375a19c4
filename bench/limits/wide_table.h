// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WideTable: a table of wide rows for one core. It is the limit for pulls and adagrad pushes of
/// lists that the server has not seen before.

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/limits/line_buckets.h"

namespace weir::limits {

/// Buckets of one cache line give the row of a key. A row has the key's values and after them
/// their adagrad state. While some rows are worked on, the next ones are looked up and
/// prefetched.
///
/// Thread: one. insert() a key before other calls use it.
class WideTable {
public:
    using Bucket = LineBucket<uint32_t>;

    /// For n keys, `buckets` has line_buckets_for(n) buckets and `rows` n * 2 * width floats.
    /// Both are zeroed.
    WideTable(std::span<Bucket> buckets, float* rows, size_t width,
              Compare compare = best_compare()) noexcept
        : buckets_(buckets), rows_(rows), width_(width), compare_(compare) {}

    void insert(std::span<const uint64_t> keys) noexcept;

    /// Copies the values of each key to `out`.
    void pull(std::span<const uint64_t> keys, float* out) noexcept;

    /// For each key and each of its gradients g: state += g^2, then
    /// value -= rate * g / (sqrt(state) + epsilon).
    void adagrad(std::span<const uint64_t> keys, const float* gradients, float rate,
                 float epsilon) noexcept;

private:
    void find(std::span<const uint64_t> keys, float** rows) noexcept;
    template <class Use>
    void for_rows(std::span<const uint64_t> keys, size_t row_floats, Use use) noexcept;

    std::span<Bucket> buckets_;
    float* rows_;
    size_t width_;
    Compare compare_;
    uint32_t row_count_ = 0;
};

}  // namespace weir::limits
