// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The logistic loss log(1 + exp(-y m)) of a margin m and a label y of -1 or +1: its sums, slopes
/// and bounds.

#include <cstdint>
#include <span>

#include "lib/linalg/columns.h"

namespace weir::linalg {

/// log(1 + exp(-signed_margin)), without overflow.
[[nodiscard]] double logistic_loss(double signed_margin) noexcept;

/// 1 / (1 + exp(signed_margin)), without overflow: minus the derivative of the loss.
[[nodiscard]] double logistic_alpha(double signed_margin) noexcept;

/// The loss over all rows.
[[nodiscard]] double logistic_loss_sum(std::span<const int8_t> labels,
                                       std::span<const double> margins);

/// The loss over all rows at margins + step * directions.
[[nodiscard]] double logistic_loss_sum(std::span<const int8_t> labels,
                                       std::span<const double> margins,
                                       std::span<const double> directions, double step);

/// slopes[i] = d loss / d margin.
void logistic_slopes(std::span<const int8_t> labels, std::span<const double> margins,
                     std::span<double> slopes);

/// Sets each row's slope, and replaces its reach by its bend: reach times the greatest second
/// derivative of the loss within +-reach of the margin.
void logistic_terms(std::span<const int8_t> labels, std::span<const double> margins,
                    std::span<RowTerm> terms);

/// The dual objective of  sum loss + l1 |w|_1  at alpha_i = scale * logistic_alpha(y_i m_i): a
/// lower bound on the optimum if scale * |X' (y alpha)|_inf <= l1.
[[nodiscard]] double logistic_dual(std::span<const int8_t> labels, std::span<const double> margins,
                                   double scale);

}  // namespace weir::linalg
