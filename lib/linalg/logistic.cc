// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/logistic.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/kernel.h"
#include "lib/linalg/vector_math.h"

namespace weir::linalg {

namespace {

/// The number of rows per batch. The loops over a batch are simple enough to become vector code.
constexpr uint64_t kBatchRows = 512;
using Batch = std::array<double, kBatchRows>;

[[gnu::always_inline]] inline double loss_of(double signed_margin) noexcept {
    return std::max(0.0, -signed_margin) + log1p_unit(exp_negative(-std::abs(signed_margin)));
}

[[gnu::always_inline]] inline double alpha_of(double signed_margin) noexcept {
    const double e = exp_negative(-std::abs(signed_margin));
    return (signed_margin >= 0 ? e : 1.0) / (1 + e);
}

/// p (1 - p) at the margin nearest to 0 within +-reach: the greatest second derivative there.
[[gnu::always_inline]] inline double steepest_bend(double margin, double reach) noexcept {
    const double e = exp_negative(-std::max(0.0, std::abs(margin) - reach));
    return e / ((1 + e) * (1 + e));
}

/// Adds up the values in four independent sums, so that an addition need not wait for the one
/// before.
double sum_of(const double* values, uint64_t count) noexcept {
    std::array<double, 4> sums = {};
    uint64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (uint64_t lane = 0; lane < 4; ++lane)
            sums[lane] += values[i + lane];
    }
    for (; i < count; ++i)
        sums[0] += values[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

WEIR_KERNEL void losses(const int8_t* labels, const double* margins, uint64_t count, double* out) {
    for (uint64_t i = 0; i < count; ++i)
        out[i] = loss_of(labels[i] * margins[i]);
}

WEIR_KERNEL void losses_along(const int8_t* labels, const double* margins, const double* directions,
                              double step, uint64_t count, double* out) {
    for (uint64_t i = 0; i < count; ++i) {
        out[i] = loss_of(labels[i] * (margins[i] + step * directions[i]));
    }
}

WEIR_KERNEL void slopes_of(const int8_t* labels, const double* margins, uint64_t count,
                           double* out) {
    for (uint64_t i = 0; i < count; ++i)
        out[i] = -labels[i] * alpha_of(labels[i] * margins[i]);
}

/// In: reaches; out: reaches times the bound on the second derivative.
WEIR_KERNEL void bends_within(const double* margins, uint64_t count, double* reaches) {
    for (uint64_t i = 0; i < count; ++i) {
        const double reach = reaches[i] * 1.0001;  // covers the rounding of the sum
        reaches[i] = steepest_bend(margins[i], reach) * reach;
    }
}

}  // namespace

double logistic_loss(double signed_margin) noexcept {
    return loss_of(signed_margin);
}

double logistic_alpha(double signed_margin) noexcept {
    return alpha_of(signed_margin);
}

double logistic_loss_sum(std::span<const int8_t> labels, std::span<const double> margins) {
    Batch batch;
    double sum = 0;
    for (uint64_t i = 0; i < labels.size(); i += kBatchRows) {
        const uint64_t count = std::min(kBatchRows, labels.size() - i);
        losses(&labels[i], &margins[i], count, batch.data());
        sum += sum_of(batch.data(), count);
    }
    return sum;
}

double logistic_loss_sum(std::span<const int8_t> labels, std::span<const double> margins,
                         std::span<const double> directions, double step) {
    Batch batch;
    double sum = 0;
    for (uint64_t i = 0; i < labels.size(); i += kBatchRows) {
        const uint64_t count = std::min(kBatchRows, labels.size() - i);
        losses_along(&labels[i], &margins[i], &directions[i], step, count, batch.data());
        sum += sum_of(batch.data(), count);
    }
    return sum;
}

void logistic_slopes(std::span<const int8_t> labels, std::span<const double> margins,
                     std::span<double> slopes) {
    if (!labels.empty()) slopes_of(labels.data(), margins.data(), labels.size(), slopes.data());
}

void logistic_terms(std::span<const int8_t> labels, std::span<const double> margins,
                    std::span<RowTerm> terms) {
    Batch slopes;
    Batch bends;
    for (uint64_t i = 0; i < labels.size(); i += kBatchRows) {
        const uint64_t count = std::min(kBatchRows, labels.size() - i);
        RowTerm* batch = &terms[i];
        for (uint64_t k = 0; k < count; ++k)
            bends[k] = batch[k].reach_or_bend;
        slopes_of(&labels[i], &margins[i], count, slopes.data());
        bends_within(&margins[i], count, bends.data());
        for (uint64_t k = 0; k < count; ++k) {
            batch[k].slope = slopes[k];
            batch[k].reach_or_bend = bends[k];
        }
    }
}

double logistic_dual(std::span<const int8_t> labels, std::span<const double> margins,
                     double scale) {
    const auto entropy = [](double p) { return p > 0 ? -p * std::log(p) : 0.0; };
    double sum = 0;
    for (uint64_t i = 0; i < labels.size(); ++i) {
        const double alpha = scale * logistic_alpha(labels[i] * margins[i]);
        const double rest = (1 - scale) + scale * logistic_alpha(-labels[i] * margins[i]);
        sum += entropy(alpha) + entropy(rest);
    }
    return sum;
}

}  // namespace weir::linalg
