// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lbfgs/examples.h"

#include <algorithm>
#include <numeric>

#include "lib/linalg/sparse.h"

namespace weir::apps {
namespace {

using View = linalg::ColumnsView<float, uint32_t, uint64_t>;

View view_of(const data::FeatureMatrix& matrix) {
    return {matrix.offsets, matrix.rows, matrix.values, matrix.row_count()};
}

/// Calls visit(column, row, value) for each non-zero.
template <class Visit>
void for_each_nonzero(const data::FeatureMatrix& matrix, Visit visit) {
    for (uint64_t column = 0; column < matrix.column_count(); ++column) {
        for (uint64_t i = matrix.offsets[column]; i < matrix.offsets[column + 1]; ++i)
            visit(column, matrix.rows[i],
                  matrix.values.empty() ? 1.0 : static_cast<double>(matrix.values[i]));
    }
}

}  // namespace

LinearExamples::LinearExamples(data::FeatureMatrix matrix, LossFunction function)
    : matrix_(std::move(matrix)), function_(function) {
    if (function.loss() == apps::Loss::kLogistic) {
        targets_.assign(matrix_.labels.begin(), matrix_.labels.end());
    } else {
        targets_ = std::move(matrix_.targets);
    }
    scores_.assign(matrix_.row_count() * function_.width(), 0);
    moved_ = slopes_ = scores_;
}

uint64_t LinearExamples::data_bytes() const noexcept {
    return matrix_.data_bytes() + targets_.size() * sizeof(float) +
           3 * scores_.size() * sizeof(double);
}

void LinearExamples::multiply(std::span<const double> weights, std::span<double> scores) const {
    const size_t width = function_.width();
    if (width == 1) return linalg::multiply(view_of(matrix_), weights, scores);
    std::ranges::fill(scores, 0);
    for_each_nonzero(matrix_, [&](uint64_t column, uint32_t row, double value) {
        for (size_t k = 0; k < width; ++k)
            scores[row * width + k] += value * weights[column * width + k];
    });
}

void LinearExamples::gradient(std::span<double> out) const {
    const size_t width = function_.width();
    if (width == 1) return linalg::multiply_transposed(view_of(matrix_), slopes_, out);
    std::ranges::fill(out, 0);
    for_each_nonzero(matrix_, [&](uint64_t column, uint32_t row, double value) {
        for (size_t k = 0; k < width; ++k)
            out[column * width + k] += value * slopes_[row * width + k];
    });
}

void LinearExamples::set_weights(std::span<const double> weights) {
    multiply(weights, scores_);
    std::ranges::fill(moved_, 0);
}

void LinearExamples::set_step(std::span<const double> steps) {
    multiply(steps, moved_);
}

LinearExamples::Loss LinearExamples::loss_at(double length) {
    for (size_t i = 0; i < scores_.size(); ++i)
        slopes_[i] = scores_[i] + length * moved_[i];
    sums_ = {};
    function_.take(targets_, slopes_, sums_);
    return {function_.loss() == apps::Loss::kSquared ? sums_.loss / 2 : sums_.loss,
            std::inner_product(slopes_.begin(), slopes_.end(), moved_.begin(), 0.0)};
}

void LinearExamples::move(double length) {
    for (size_t i = 0; i < scores_.size(); ++i)
        scores_[i] += length * moved_[i];
}

}  // namespace weir::apps
