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

WEIR_KERNEL void momentum_row(float* row, const float* gradients, size_t width,
                              const WideStep& step) noexcept {
    float* __restrict value = row;
    float* __restrict velocity = row + width;
    const float* __restrict g = gradients;
    const float rate = step.rate;
    const float momentum = step.momentum;
    for (size_t i = 0; i < width; ++i) {
        velocity[i] = momentum * velocity[i] + g[i];
        value[i] -= rate * velocity[i];
    }
}

WEIR_KERNEL void adam_row(float* row, const float* gradients, size_t width, const WideStep& step,
                          float scale, float root) noexcept {
    float* __restrict value = row;
    float* __restrict first = row + width;
    float* __restrict second = row + 2 * width;
    const float* __restrict g = gradients;
    const float b1 = step.momentum;
    const float b2 = step.squares;
    const float epsilon = step.epsilon;
    for (size_t i = 0; i < width; ++i) {
        first[i] = b1 * first[i] + (1 - b1) * g[i];
        second[i] = b2 * second[i] + (1 - b2) * g[i] * g[i];
        value[i] -= scale * first[i] / (std::sqrt(second[i]) * root + epsilon);
    }
}

WEIR_KERNEL void ftrl_row(float* row, const float* gradients, size_t width,
                          const WideStep& step) noexcept {
    float* __restrict value = row;
    float* __restrict z = row + width;
    float* __restrict n = row + 2 * width;
    const float* __restrict g = gradients;
    const float per_rate = 1 / step.rate;
    const float l1 = step.l1;
    for (size_t i = 0; i < width; ++i) {
        const float sum = n[i] + g[i] * g[i];
        const float root = std::sqrt(sum);
        const float next = z[i] + g[i] - (root - std::sqrt(n[i])) * per_rate * value[i];
        const float beyond = std::abs(next) - l1;
        z[i] = next;
        n[i] = sum;
        value[i] = beyond > 0 ? -std::copysign(beyond, next) / ((1 + root) * per_rate) : 0.0F;
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

WideTable::WideTable(std::span<Bucket> buckets, float* rows, size_t width, const WideStep& step,
                     Compare compare)
    : buckets_(buckets),
      rows_(rows),
      width_(width),
      step_(step),
      row_floats_(step.row_floats(width)),
      compare_(compare) {
    constexpr int kSteps = 1 << 16;  // behind them, nothing is left to be corrected
    for (int t = 0; step.kind == WideStep::Kind::kAdam && t < kSteps; ++t) {
        scales_.push_back(static_cast<float>(step.rate / (1 - std::pow(step.momentum, t))));
        roots_.push_back(static_cast<float>(1 / std::sqrt(1 - std::pow(step.squares, t))));
    }
}

/// Sets rows[i] to the row of keys[i]; a new key gets the next row.
void WideTable::find(std::span<const uint64_t> keys, float** rows) noexcept {
    const auto use = [&](size_t i, Bucket& bucket, uint32_t place) {
        if (bucket.used == place) bucket.values[place] = row_count_++;
        rows[i] = rows_ + bucket.values[place] * row_floats_;
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

void WideTable::push(std::span<const uint64_t> keys, const float* gradients) noexcept {
    const auto each = [&](auto update) {
        for_rows(keys, row_floats_,
                 [&](size_t i, float* row) { update(row, gradients + i * width_); });
    };
    switch (step_.kind) {
        case WideStep::Kind::kAdagrad:
            return each([&](float* row, const float* g) {
                adagrad_row(row, g, width_, step_.rate, step_.epsilon);
            });
        case WideStep::Kind::kMomentum:
            return each([&](float* row, const float* g) { momentum_row(row, g, width_, step_); });
        case WideStep::Kind::kFtrl:
            return each([&](float* row, const float* g) { ftrl_row(row, g, width_, step_); });
        case WideStep::Kind::kAdam: break;
    }
    each([&](float* row, const float* g) {
        uint32_t t = 0;
        std::memcpy(&t, row + 3 * width_, sizeof(t));
        t += static_cast<uint32_t>(t + 1 < scales_.size());
        std::memcpy(row + 3 * width_, &t, sizeof(t));
        adam_row(row, g, width_, step_, scales_[t], roots_[t]);
    });
}

}  // namespace weir::limits
