// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WideTable: a table of wide rows for one core. It is the limit for pulls and pushes, with some
/// update rules, of lists that the server has not seen before.

#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/limits/line_buckets.h"
#include "bench/limits/wide_steps.h"

namespace weir::limits {

/// Buckets of one cache line give the row of a key. A row has the key's values and after them
/// their state. While some rows are worked on, the next ones are looked up and
/// prefetched.
///
/// Thread: one. insert() a key before other calls use it.
class WideTable {
public:
    using Bucket = LineBucket<uint32_t>;

    /// For n keys, `buckets` has line_buckets_for(n) buckets and `rows` n * step.row_floats(width)
    /// floats. Both are zeroed.
    WideTable(std::span<Bucket> buckets, float* rows, size_t width, const WideStep& step,
              Compare compare = best_compare());

    void insert(std::span<const uint64_t> keys) noexcept;

    /// Copies the values of each key to `out`.
    void pull(std::span<const uint64_t> keys, float* out) noexcept;

    /// Takes a step for each key, with what is pushed to it.
    void push(std::span<const uint64_t> keys, const float* pushed) noexcept;

private:
    void find(std::span<const uint64_t> keys, float** rows) noexcept;
    template <class Use>
    void for_rows(std::span<const uint64_t> keys, size_t row_floats, Use use) noexcept;

    std::span<Bucket> buckets_;
    float* rows_;
    size_t width_;
    WideSteps steps_;
    size_t row_floats_;
    size_t pushed_floats_;
    Compare compare_;
    uint32_t row_count_ = 0;
};

}  // namespace weir::limits
