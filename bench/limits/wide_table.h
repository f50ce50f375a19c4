// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WideTable: a table of wide rows for one core. It is the limit for pulls and pushes, with some
/// update rules, of lists that the server has not seen before.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/limits/line_buckets.h"

namespace weir::limits {

/// How a push changes a row, in the simplest code that a compiler turns into vectors.
struct WideStep {
    enum class Kind { kAdagrad, kMomentum, kAdam, kFtrl };

    Kind kind = Kind::kAdagrad;
    float rate = 0.1F;
    float epsilon = 1e-8F;   ///< adagrad, adam
    float momentum = 0.9F;   ///< momentum; adam: beta1
    float squares = 0.999F;  ///< adam: beta2
    float l1 = 0.01F;        ///< ftrl; beta is 1, l2 0

    /// Floats of a row: values, then the state; last the step count of adam.
    [[nodiscard]] size_t row_floats(size_t width) const noexcept {
        if (kind == Kind::kAdam) return 3 * width + 1;
        return (kind == Kind::kFtrl ? 3 : 2) * width;
    }
};

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

    /// Takes a step for each key, with its gradients.
    void push(std::span<const uint64_t> keys, const float* gradients) noexcept;

private:
    void find(std::span<const uint64_t> keys, float** rows) noexcept;
    template <class Use>
    void for_rows(std::span<const uint64_t> keys, size_t row_floats, Use use) noexcept;

    std::span<Bucket> buckets_;
    float* rows_;
    size_t width_;
    WideStep step_;
    size_t row_floats_;
    Compare compare_;
    std::vector<float> scales_;  ///< of adam by the number of the step: rate / (1 - beta1^t)
    std::vector<float> roots_;   ///< 1 / sqrt(1 - beta2^t)
    uint32_t row_count_ = 0;
};

}  // namespace weir::limits
