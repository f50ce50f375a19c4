// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/sparse.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/linalg/random_sparse.h"
#include "tests/seed.h"

namespace weir::linalg {
namespace {

std::vector<double> some(Random& random, size_t count) {
    std::vector<double> values(count);
    for (double& value : values)
        value = static_cast<double>(random.below(21)) - 10;
    return values;
}

/// Both products, by both views, in any number of threads.
template <class Index>
void check(Random& random, const RandomSparse<Index>& sample, Threads* threads) {
    const RowsView<float, Index> rows = sample.rows.view();
    const auto turned = by_columns(rows);
    const auto columns = turned.view();
    const auto back = by_rows(columns);
    CHECK(back.offsets == sample.rows.offsets);
    CHECK(back.places == sample.rows.places);
    CHECK(back.values == sample.rows.values);
    const std::vector<double> w = some(random, sample.column_count);
    const std::vector<double> g = some(random, sample.row_count);
    std::vector<double> margins(sample.row_count);
    std::vector<double> gradient(sample.column_count);
    for (size_t i = 0; i < sample.row_count; ++i) {
        for (size_t j = 0; j < sample.column_count; ++j) {
            margins[i] += sample.at(i, j) * w[j];
            gradient[j] += sample.at(i, j) * g[i];
        }
    }
    std::vector<double> out(sample.row_count, 77);
    multiply(rows, w, out, threads);
    CHECK(out == margins);
    out.assign(out.size(), 77);
    multiply(columns, w, out, threads);
    CHECK(out == margins);
    std::vector<double> turned_out(sample.column_count, 77);
    multiply_transposed(rows, g, turned_out, threads);
    CHECK(turned_out == gradient);
    turned_out.assign(turned_out.size(), 77);
    multiply_transposed(columns, g, turned_out, threads);
    CHECK(turned_out == gradient);
    // A block of rows, and columns that are scaled.
    const size_t begin = sample.row_count / 3;
    const size_t end = sample.row_count - sample.row_count / 4;
    const std::vector<double> factors = some(random, sample.column_count);
    std::vector<double> scaled_w(w.size());
    for (size_t j = 0; j < w.size(); ++j)
        scaled_w[j] = w[j] * factors[j];
    std::vector<double> expected(sample.row_count);
    multiply(rows, scaled_w, expected);
    std::vector<double> block(end - begin);
    const auto scaled_rows = scaled(rows.block(begin, end), factors);
    multiply(scaled_rows, w, block, threads);
    CHECK(block == std::vector<double>(expected.begin() + static_cast<ptrdiff_t>(begin),
                                       expected.begin() + static_cast<ptrdiff_t>(end)));
    multiply_transposed(scaled_rows, std::span(g).subspan(begin, end - begin), turned_out, threads);
    for (size_t j = 0; j < turned_out.size(); ++j) {
        double sum = 0;
        for (size_t i = begin; i < end; ++i)
            sum += sample.at(i, j) * g[i];
        CHECK(turned_out[j] == sum * factors[j]);
    }
    // A matrix of vectors, of which the first is w.
    constexpr size_t kWidth = 3;
    std::vector<double> vectors(sample.column_count * kWidth);
    for (size_t j = 0; j < w.size(); ++j)
        vectors[j * kWidth] = w[j];
    std::vector<double> products(sample.row_count * kWidth, 77);
    multiply(rows, Matrix<double>(KeyRange{0, sample.column_count}, vectors, kWidth),
             Matrix<double>(KeyRange{0, sample.row_count}, products, kWidth), threads);
    for (size_t i = 0; i < sample.row_count; ++i) {
        CHECK(products[i * kWidth] == margins[i]);
        CHECK(products[i * kWidth + 1] == 0);
    }
}

}  // namespace

TEST_SUITE("sparse") {
    TEST_CASE("products are those of the dense matrix") {
        WEIR_TEST_SEED(seed, 83);
        Random random(seed);
        Threads threads(3);
        for (int round = 0; round < 40; ++round) {
            const RandomSparse<int32_t> sample(random, random.below(60), random.below(50),
                                               random.uniform(), round % 3 == 0);
            check(random, sample, round % 2 == 0 ? nullptr : &threads);
        }
        // Of so many non-zeros that several threads work.
        for (const bool ones : {false, true}) {
            const RandomSparse<int64_t> sample(random, 900, 300, 0.3, ones);
            check(random, sample, &threads);
        }
    }
}

}  // namespace weir::linalg
