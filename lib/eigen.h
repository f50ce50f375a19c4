// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What was pulled, and sparse matrices, as Eigen sees them where they lie. For programs that have Eigen 3.4 or
/// newer: Weir itself needs none.
///
/// ```cpp
/// weir::as_eigen(w) += weir::as_eigen(x).transpose() * weir::as_eigen(slopes);
/// ```
/// A map is valid as long as what it was made of.

#include <concepts>
#include <type_traits>

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include "lib/base/check.h"
#include "lib/linalg.h"

namespace weir {

/// T or const T, as Eigen writes it.
template <class T, class Plain>
using EigenConst = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;

template <class T>
[[nodiscard]] auto as_eigen(std::span<T> values) {
    using Plain = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>;
    return Eigen::Map<EigenConst<T, Plain>>(values.data(),
                                            static_cast<Eigen::Index>(values.size()));
}

/// Of its values, by the order of its keys.
template <class T>
[[nodiscard]] auto as_eigen(const linalg::Vector<T>& vector) {
    return as_eigen(vector.values());
}

/// A row for each key.
template <class T>
[[nodiscard]] auto as_eigen(const linalg::Matrix<T>& matrix) {
    using Plain =
        Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    return Eigen::Map<EigenConst<T, Plain>>(matrix.values().data(),
                                            static_cast<Eigen::Index>(matrix.row_count()),
                                            static_cast<Eigen::Index>(matrix.width()));
}

// Eigen wants offsets and places of one signed type, values that are there, and all lines: no block that begins
// behind the first one.

template <class T, std::signed_integral Index>
[[nodiscard]] auto as_eigen(const linalg::RowsView<T, Index, Index>& rows) {
    const auto& lines = rows.lines;
    WEIR_CHECK(!lines.values.empty() || lines.nonzero_count() == 0);
    WEIR_CHECK(!lines.offsets.empty() && lines.offsets.front() == 0);
    return Eigen::Map<const Eigen::SparseMatrix<T, Eigen::RowMajor, Index>>(
        static_cast<Eigen::Index>(rows.row_count()), static_cast<Eigen::Index>(rows.column_count()),
        static_cast<Eigen::Index>(lines.nonzero_count()), lines.offsets.data(), lines.places.data(),
        lines.values.data());
}

template <class T, std::signed_integral Index>
[[nodiscard]] auto as_eigen(const linalg::ColumnsView<T, Index, Index>& columns) {
    const auto& lines = columns.lines;
    WEIR_CHECK(!lines.values.empty() || lines.nonzero_count() == 0);
    WEIR_CHECK(!lines.offsets.empty() && lines.offsets.front() == 0);
    return Eigen::Map<const Eigen::SparseMatrix<T, Eigen::ColMajor, Index>>(
        static_cast<Eigen::Index>(columns.row_count()),
        static_cast<Eigen::Index>(columns.column_count()),
        static_cast<Eigen::Index>(lines.nonzero_count()), lines.offsets.data(), lines.places.data(),
        lines.values.data());
}

}  // namespace weir
