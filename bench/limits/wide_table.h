// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WideTable: wide rows by key, in one core. The limit for pulls and adagrad pushes of lists not
/// seen before.

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/limits/line_buckets.h"

namespace weir::limits {

/// Buckets of one cache line give the row of a key; a row is its values and behind them their
/// adagrad state. While some rows are worked on, the next ones are looked up and prefetched whole.
///
/// Thread: one. Keys are put in by insert() before anything else is done with them.
class WideTable {
public:
    using Bucket = LineBucket<uint32_t>;

    /// `buckets` and `rows` are zeroed: line_buckets_for(keys), and keys * 2 * width floats.
    WideTable(std::span<Bucket> buckets, float* rows, size_t width,
              Compare compare = best_compare()) noexcept
        : buckets_(buckets), rows_(rows), width_(width), compare_(compare) {}

    void insert(std::span<const uint64_t> keys) noexcept;

    /// Copies the values of each key to `out`.
    void pull(std::span<const uint64_t> keys, float* out) noexcept;

    /// state += g^2; value -= rate * g / (sqrt(state) + epsilon), for each key and each of its
    /// gradients g.
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
