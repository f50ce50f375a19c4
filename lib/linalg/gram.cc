// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/gram.h"

#include <algorithm>
#include <vector>

#include "lib/base/kernel.h"

namespace weir::linalg {

namespace {

/// The number of rows that are transposed at a time: few enough for the caches.
constexpr uint64_t kTurnedRows = 1024;

WEIR_KERNEL void add_scaled(double factor, const double* from, uint64_t count, double* to) {
    for (uint64_t i = 0; i < count; ++i)
        to[i] += factor * from[i];
}

/// A batch of rows, stored by row, with the chosen columns only. A "place" is an index into the
/// list of chosen columns.
class Rows {
public:
    Rows(const Columns& matrix, std::span<const uint32_t> columns)
        : matrix_(matrix), columns_(columns) {
        for (const uint32_t column : columns)
            next_.push_back(column == kNoColumn ? 0 : matrix.offsets[column]);
    }

    /// Takes the rows [begin, end). They must follow those of the call before.
    void take(uint64_t begin, uint64_t end) {
        begin_.assign(end - begin + 1, 0);
        for_each(end,
                 [&](uint64_t /*place*/, uint64_t i) { ++begin_[matrix_.places[i] - begin + 1]; });
        for (uint64_t row = 1; row < begin_.size(); ++row)
            begin_[row] += begin_[row - 1];
        places_.resize(begin_.back());
        values_.resize(begin_.back());
        fill_.assign(begin_.begin(), begin_.end() - 1);
        for_each(end, [&](uint64_t place, uint64_t i) {
            const uint64_t at = fill_[matrix_.places[i] - begin]++;
            places_[at] = static_cast<uint32_t>(place);
            values_[at] = matrix_.values.empty() ? 1.0 : static_cast<double>(matrix_.values[i]);
            next_[place] = i + 1;
        });
    }

    [[nodiscard]] std::span<const uint32_t> places(uint64_t row) const {
        return std::span(places_).subspan(begin_[row], begin_[row + 1] - begin_[row]);
    }

    [[nodiscard]] std::span<const double> values(uint64_t row) const {
        return std::span(values_).subspan(begin_[row], begin_[row + 1] - begin_[row]);
    }

private:
    template <class Visit>
    void for_each(uint64_t end, Visit visit) {
        for (uint64_t place = 0; place < columns_.size(); ++place) {
            if (columns_[place] == kNoColumn) continue;
            const uint64_t last = matrix_.offsets[columns_[place] + 1];
            for (uint64_t i = next_[place]; i < last && matrix_.places[i] < end; ++i)
                visit(place, i);
        }
    }

    const Columns& matrix_;
    std::span<const uint32_t> columns_;
    std::vector<uint64_t> next_;   // per column: the first non-zero not taken yet
    std::vector<uint64_t> begin_;  // per row
    std::vector<uint64_t> fill_;
    std::vector<uint32_t> places_;  // rising within a row
    std::vector<double> values_;
};

}  // namespace

void add_weighted_gram(const Columns& matrix, std::span<const uint32_t> columns,
                       std::span<const double> row_weights, std::span<double> triangle) {
    Rows rows(matrix, columns);
    for (uint64_t begin = 0; begin < row_weights.size(); begin += kTurnedRows) {
        const uint64_t end = std::min(begin + kTurnedRows, row_weights.size());
        rows.take(begin, end);
        for (uint64_t row = 0; row < end - begin; ++row) {
            const std::span<const uint32_t> places = rows.places(row);
            const std::span<const double> values = rows.values(row);
            const bool full = places.size() == columns.size();
            for (uint64_t a = 0; a < places.size(); ++a) {
                const double factor = row_weights[begin + row] * values[a];
                double* const out = &triangle[triangle_row(places[a], columns.size())];
                if (full) {
                    add_scaled(factor, &values[a], values.size() - a, out);
                    continue;
                }
                for (uint64_t b = a; b < places.size(); ++b)
                    out[places[b] - places[a]] += factor * values[b];
            }
        }
    }
}

}  // namespace weir::linalg
