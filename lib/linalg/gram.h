// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The weighted Gram matrix of a few columns: the Hessian of the loss over them.

#include <cstdint>
#include <limits>
#include <span>

#include "lib/linalg/columns.h"

namespace weir::linalg {

/// Stands for a column that this matrix does not have; it counts as all zeros.
inline constexpr uint32_t kNoColumn = std::numeric_limits<uint32_t>::max();

/// The number of entries in the upper triangle of a symmetric matrix.
[[nodiscard]] constexpr uint64_t triangle_size(uint64_t count) noexcept {
    return count * (count + 1) / 2;
}

/// The index of entry (a, a) in the triangle, which is stored row by row. Entry (a, b) with b > a
/// is b - a places further.
[[nodiscard]] constexpr uint64_t triangle_row(uint64_t a, uint64_t count) noexcept {
    return a * count - a * (a - 1) / 2;
}

/// triangle(a, b) += sum over rows i of row_weights[i] * x_ia * x_ib, where a and b are indices
/// into `columns`.
///
/// Shape: row_weights has one value per row; triangle.size() == triangle_size(columns.size())
void add_weighted_gram(const Columns& matrix, std::span<const uint32_t> columns,
                       std::span<const double> row_weights, std::span<double> triangle);

}  // namespace weir::linalg
