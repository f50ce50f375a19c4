// SPDX-License-Identifier: Apache-2.0
// Vectors and sparse matrices beside Eigen, which does the same work on the same arrays; where Eigen has no such
// thing, beside a plain loop.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <Eigen/Core>
#include <Eigen/SparseCore>

#include "bench/micro/beside.h"
#include "lib/base/random.h"
#include "lib/eigen.h"

namespace weir::bench {
namespace {

using linalg::Vector;

struct Floats {
    explicit Floats(size_t count) : x(count), y(count), keys(count), other_keys(count) {
        Random random(1);
        for (size_t i = 0; i < count; ++i) {
            x[i] = static_cast<float>(random.uniform() - 0.5);
            y[i] = static_cast<float>(random.uniform() - 0.5);
            keys[i] = i == 0 ? 0 : keys[i - 1] + 1 + random.below(4);
            other_keys[i] = i == 0 ? 0 : other_keys[i - 1] + 1 + random.below(4);
        }
    }

    [[nodiscard]] Vector<const float> left() const { return {keys, std::span<const float>(x)}; }

    [[nodiscard]] Vector<const float> right() const { return {keys, std::span<const float>(y)}; }

    [[nodiscard]] Vector<const float> other() const {
        return {other_keys, std::span<const float>(y)};
    }

    std::vector<float> x;
    std::vector<float> y;
    std::vector<uint64_t> keys;
    std::vector<uint64_t> other_keys;
};

/// Small ones are repeated, so that the clock can measure them.
template <class Ours, class Limit>
void beside(benchmark::State& state, size_t count, Ours&& ours, Limit&& limit) {
    const size_t repeats = std::max<size_t>(1, (size_t{1} << 20) / count);
    run_beside(
        state, static_cast<double>(count * repeats),
        [&] {
            for (size_t i = 0; i < repeats; ++i) {
                ours();
                benchmark::ClobberMemory();
            }
        },
        [&] {
            for (size_t i = 0; i < repeats; ++i) {
                limit();
                benchmark::ClobberMemory();
            }
        });
}

void dot_of_floats(benchmark::State& state) {
    const auto count = static_cast<size_t>(state.range(0));
    auto& on = prepared<Floats>(count);
    beside(
        state, count, [&] { benchmark::DoNotOptimize(linalg::dot(on.left(), on.right())); },
        [&] { benchmark::DoNotOptimize(as_eigen(on.left()).dot(as_eigen(on.right()))); });
}

void axpy_of_floats(benchmark::State& state) {
    const auto count = static_cast<size_t>(state.range(0));
    auto& on = prepared<Floats>(count);
    const Vector<float> y(on.keys, std::span(on.y));
    beside(
        state, count, [&] { (void)linalg::axpy(1e-3, on.left(), y); },
        [&] { as_eigen(y) += 1e-3F * as_eigen(on.left()); });
}

void norm1_of_floats(benchmark::State& state) {
    const auto count = static_cast<size_t>(state.range(0));
    auto& on = prepared<Floats>(count);
    beside(
        state, count, [&] { benchmark::DoNotOptimize(linalg::norm1(on.left())); },
        [&] { benchmark::DoNotOptimize(as_eigen(on.left()).lpNorm<1>()); });
}

/// (w + u) . g, where no sum is made.
void dot_of_sum(benchmark::State& state) {
    const auto count = static_cast<size_t>(state.range(0));
    auto& on = prepared<Floats>(count);
    beside(
        state, count,
        [&] { benchmark::DoNotOptimize(linalg::dot(on.left() + 0.5 * on.right(), on.left())); },
        [&] {
            benchmark::DoNotOptimize(
                (as_eigen(on.left()) + 0.5F * as_eigen(on.right())).dot(as_eigen(on.left())));
        });
}

/// Of vectors of different keys: Eigen's sparse vectors have no more than 2^31 places, the keys here fit.
void dot_of_lists(benchmark::State& state) {
    const auto count = static_cast<size_t>(state.range(0));
    auto& on = prepared<Floats>(count);
    const auto plain = [&] {
        double sum = 0;
        size_t i = 0;
        size_t k = 0;
        while (i < count && k < count) {
            if (on.keys[i] < on.other_keys[k]) {
                ++i;
            } else if (on.other_keys[k] < on.keys[i]) {
                ++k;
            } else {
                sum += static_cast<double>(on.x[i++]) * static_cast<double>(on.y[k++]);
            }
        }
        return sum;
    };
    beside(
        state, count, [&] { benchmark::DoNotOptimize(linalg::dot(on.left(), on.other())); },
        [&] { benchmark::DoNotOptimize(plain()); });
}

/// So many rows, as many columns, 32 non-zeros to a row.
struct Examples {
    explicit Examples(size_t rows) : w(rows), g(rows), out(rows) {
        Random random(2);
        x.place_count = rows;
        for (size_t i = 0; i < rows; ++i) {
            std::vector<int32_t> columns(32);
            for (int32_t& column : columns)
                column = static_cast<int32_t>(random.below(rows));
            std::ranges::sort(columns);
            columns.erase(std::ranges::unique(columns).begin(), columns.end());
            x.places.insert(x.places.end(), columns.begin(), columns.end());
            for (size_t k = 0; k < columns.size(); ++k)
                x.values.push_back(static_cast<float>(random.uniform() - 0.5));
            x.offsets.push_back(static_cast<int32_t>(x.places.size()));
            w[i] = static_cast<float>(random.uniform() - 0.5);
            g[i] = static_cast<float>(random.uniform() - 0.5);
        }
        turned = linalg::by_columns(x.view());
    }

    linalg::SparseRows<float> x;
    linalg::SparseColumns<float> turned;
    std::vector<float> w;
    std::vector<float> g;
    std::vector<float> out;
};

template <bool kByRows, bool kTransposed>
void product(benchmark::State& state) {
    auto& on = prepared<Examples>(static_cast<size_t>(state.range(0)));
    const auto rows = on.x.view();
    const auto columns = on.turned.view();
    const std::span<const float> from = kTransposed ? on.g : on.w;
    const std::span<float> to(on.out);
    const auto ours = [&](const auto& matrix) {
        if constexpr (kTransposed) {
            linalg::multiply_transposed(matrix, from, to);
        } else {
            linalg::multiply(matrix, from, to);
        }
    };
    const auto theirs = [&](const auto& matrix) {
        if constexpr (kTransposed) {
            as_eigen(to).noalias() = matrix.transpose() * as_eigen(from);
        } else {
            as_eigen(to).noalias() = matrix * as_eigen(from);
        }
    };
    run_beside(
        state, static_cast<double>(on.x.places.size()),
        [&] {
            if constexpr (kByRows) {
                ours(rows);
            } else {
                ours(columns);
            }
            benchmark::ClobberMemory();
        },
        [&] {
            if constexpr (kByRows) {
                theirs(as_eigen(rows));
            } else {
                theirs(as_eigen(columns));
            }
            benchmark::ClobberMemory();
        });
}

void lengths(benchmark::internal::Benchmark* bench) {
    bench->ArgName("values")->Arg(512)->Arg(1 << 16)->Arg(10'000'000)->UseManualTime();
}

void sizes(benchmark::internal::Benchmark* bench) {
    bench->ArgName("rows")->Arg(512)->Arg(1 << 16)->Arg(1'000'000)->UseManualTime();
}

BENCHMARK(dot_of_floats)->Apply(lengths);
BENCHMARK(axpy_of_floats)->Apply(lengths);
BENCHMARK(norm1_of_floats)->Apply(lengths);
BENCHMARK(dot_of_sum)->Apply(lengths);
BENCHMARK(dot_of_lists)->Apply(lengths);
BENCHMARK(product<true, false>)->Name("rows_times_vector")->Apply(sizes);
BENCHMARK(product<true, true>)->Name("rows_transposed_times_vector")->Apply(sizes);
BENCHMARK(product<false, false>)->Name("columns_times_vector")->Apply(sizes);
BENCHMARK(product<false, true>)->Name("columns_transposed_times_vector")->Apply(sizes);

}  // namespace
}  // namespace weir::bench
