// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/columns.h"

#include <cmath>

namespace weir::linalg {

namespace {

constexpr uint64_t kAhead = 24;  // prefetch distance in non-zeros

/// Calls visit(k, row, value) for every non-zero of column range.begin + k, and done(k) after
/// each column. Prefetches `rows_data` of the next rows.
template <class Row, class Visit, class Done>
void for_each(const Columns& matrix, ColumnRange range, Row* rows_data, Visit visit, Done done) {
    const uint64_t last = matrix.offsets[range.end];
    const bool ones = matrix.values.empty();
    for (uint64_t column = range.begin; column < range.end; ++column) {
        const uint64_t end = matrix.offsets[column + 1];
        for (uint64_t i = matrix.offsets[column]; i < end; ++i) {
            if (i + kAhead < last) __builtin_prefetch(rows_data + matrix.places[i + kAhead], 1);
            visit(column - range.begin, matrix.places[i], ones ? 1.0F : matrix.values[i]);
        }
        done(column - range.begin);
    }
}

}  // namespace

void add_reach(const Columns& matrix, ColumnRange range, std::span<const float> trust,
               std::span<RowTerm> terms) {
    for_each(
        matrix, range, terms.data(),
        [&](uint64_t k, uint32_t row, float value) {
            terms[row].reach_or_bend +=
                static_cast<double>(std::abs(value)) * static_cast<double>(trust[k]);
        },
        [](uint64_t) {});
}

void add_reach(const Columns& matrix, ColumnRange range, std::span<const float> trust,
               double factor, std::span<double> reach) {
    for_each(
        matrix, range, reach.data(),
        [&](uint64_t k, uint32_t row, float value) {
            reach[row] +=
                factor * static_cast<double>(std::abs(value)) * static_cast<double>(trust[k]);
        },
        [](uint64_t) {});
}

void gradient_and_curvature(const Columns& matrix, ColumnRange range, std::span<const float> trust,
                            std::span<const RowTerm> terms, std::span<double> pairs) {
    double slope = 0;
    double curvature = 0;
    for_each(
        matrix, range, terms.data(),
        [&](uint64_t, uint32_t row, float value) {
            slope += terms[row].slope * static_cast<double>(value);
            curvature += terms[row].reach_or_bend * static_cast<double>(std::abs(value));
        },
        [&](uint64_t k) {
            pairs[2 * k] = slope;
            pairs[2 * k + 1] = curvature / static_cast<double>(trust[k]);
            slope = 0;
            curvature = 0;
        });
}

void gradient(const Columns& matrix, ColumnRange range, std::span<const double> slopes,
              std::span<double> gradient) {
    double sum = 0;
    for_each(
        matrix, range, slopes.data(),
        [&](uint64_t, uint32_t row, float value) {
            sum += slopes[row] * static_cast<double>(value);
        },
        [&](uint64_t k) {
            gradient[k] = sum;
            sum = 0;
        });
}

void add_to_margins(const Columns& matrix, ColumnRange range, std::span<const double> deltas,
                    std::span<double> margins) {
    for (uint64_t column = range.begin; column < range.end; ++column) {
        const double delta = deltas[column - range.begin];
        if (delta == 0) continue;
        const uint64_t end = matrix.offsets[column + 1];
        for (uint64_t i = matrix.offsets[column]; i < end; ++i) {
            const double value =
                matrix.values.empty() ? 1.0 : static_cast<double>(matrix.values[i]);
            margins[matrix.places[i]] += value * delta;
        }
    }
}

}  // namespace weir::linalg
