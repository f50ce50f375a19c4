// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/logistic.h"

#include <algorithm>
#include <cmath>

namespace weir::linalg {

namespace {

/// p (1 - p) at the margin nearest to 0 within +-reach: the greatest second derivative there.
double steepest_bend(double margin, double reach) noexcept {
    const double e = std::exp(-std::max(0.0, std::abs(margin) - reach));
    return e / ((1 + e) * (1 + e));
}

}  // namespace

double logistic_loss(double signed_margin) noexcept {
    return std::max(0.0, -signed_margin) + std::log1p(std::exp(-std::abs(signed_margin)));
}

double logistic_alpha(double signed_margin) noexcept {
    const double e = std::exp(-std::abs(signed_margin));
    return (signed_margin >= 0 ? e : 1.0) / (1 + e);
}

double logistic_loss_sum(std::span<const int8_t> labels, std::span<const double> margins) {
    double sum = 0;
    for (uint64_t i = 0; i < labels.size(); ++i)
        sum += logistic_loss(labels[i] * margins[i]);
    return sum;
}

double logistic_loss_sum(std::span<const int8_t> labels, std::span<const double> margins,
                         std::span<const double> directions, double step) {
    double sum = 0;
    for (uint64_t i = 0; i < labels.size(); ++i) {
        sum += logistic_loss(labels[i] * (margins[i] + step * directions[i]));
    }
    return sum;
}

void logistic_slopes(std::span<const int8_t> labels, std::span<const double> margins,
                     std::span<double> slopes) {
    for (uint64_t i = 0; i < labels.size(); ++i) {
        slopes[i] = -labels[i] * logistic_alpha(labels[i] * margins[i]);
    }
}

void logistic_terms(std::span<const int8_t> labels, std::span<const double> margins,
                    std::span<RowTerm> terms) {
    for (uint64_t i = 0; i < labels.size(); ++i) {
        RowTerm& term = terms[i];
        if (!(term.reach > 0)) continue;
        const auto reach = static_cast<double>(term.reach);
        term.slope = -labels[i] * logistic_alpha(labels[i] * margins[i]);
        // Rounded up a little: float sums of reach may fall short of the true ones.
        term.curvature =
            static_cast<float>(steepest_bend(margins[i], reach * 1.0001) * reach * 1.0001);
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

uint64_t correct_count(std::span<const int8_t> labels, std::span<const double> margins) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < labels.size(); ++i)
        count += (margins[i] > 0) == (labels[i] > 0);
    return count;
}

}  // namespace weir::linalg
