// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RandomSparse: a sparse matrix of small whole numbers, whose sums are exact.

#include <cstddef>

#include "lib/base/random.h"
#include "lib/linalg/sparse.h"

namespace weir::linalg {

template <class Index>
struct RandomSparse {
    RandomSparse(Random& random, size_t rows_wanted, size_t columns_wanted, double share, bool ones)
        : row_count(rows_wanted), column_count(columns_wanted) {
        rows.place_count = column_count;
        for (size_t i = 0; i < row_count; ++i) {
            for (size_t j = 0; j < column_count; ++j) {
                if (random.uniform() >= share) continue;
                rows.places.push_back(static_cast<Index>(j));
                if (!ones) rows.values.push_back(static_cast<float>(random.below(15)) - 7);
            }
            rows.offsets.push_back(static_cast<Index>(rows.places.size()));
        }
    }

    [[nodiscard]] double at(size_t row, size_t column) const {
        for (auto k = static_cast<size_t>(rows.offsets[row]);
             k < static_cast<size_t>(rows.offsets[row + 1]); ++k) {
            if (static_cast<size_t>(rows.places[k]) == column)
                return rows.values.empty() ? 1 : static_cast<double>(rows.values[k]);
        }
        return 0;
    }

    size_t row_count;
    size_t column_count;
    SparseRows<float, Index> rows;
};

}  // namespace weir::linalg
