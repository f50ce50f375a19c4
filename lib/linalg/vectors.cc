// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/vectors.h"

#include <algorithm>
#include <cmath>

#include "lib/base/kernel.h"

namespace weir::linalg::kernels {
namespace {

template <class T>
[[gnu::always_inline]] inline double dot_in(const T* __restrict x, const T* __restrict y,
                                            size_t count) noexcept {
    return sum_of_terms<T>(0, count, [x, y](size_t i) { return x[i] * y[i]; });
}

template <class T>
[[gnu::always_inline]] inline double norm1_in(const T* x, size_t count) noexcept {
    return sum_of_terms<T>(0, count, [x](size_t i) { return std::abs(x[i]); });
}

WEIR_KERNEL double dot_floats(const float* x, const float* y, size_t count) noexcept {
    return dot_in(x, y, count);
}

WEIR_KERNEL double dot_doubles(const double* x, const double* y, size_t count) noexcept {
    return dot_in(x, y, count);
}

WEIR_KERNEL double norm1_floats(const float* x, size_t count) noexcept {
    return norm1_in(x, count);
}

WEIR_KERNEL double norm1_doubles(const double* x, size_t count) noexcept {
    return norm1_in(x, count);
}

WEIR_KERNEL void axpy_floats(float factor, const float* __restrict x, float* __restrict y,
                             size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        y[i] += factor * x[i];
}

WEIR_KERNEL void axpy_doubles(double factor, const double* __restrict x, double* __restrict y,
                              size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        y[i] += factor * x[i];
}

}  // namespace

double dot(std::span<const float> x, std::span<const float> y) noexcept {
    return dot_floats(x.data(), y.data(), x.size());
}

double dot(std::span<const double> x, std::span<const double> y) noexcept {
    return dot_doubles(x.data(), y.data(), x.size());
}

double norm1(std::span<const float> x) noexcept {
    return norm1_floats(x.data(), x.size());
}

double norm1(std::span<const double> x) noexcept {
    return norm1_doubles(x.data(), x.size());
}

void axpy(double factor, std::span<const float> x, std::span<float> y) noexcept {
    axpy_floats(static_cast<float>(factor), x.data(), y.data(), x.size());
}

void axpy(double factor, std::span<const double> x, std::span<double> y) noexcept {
    axpy_doubles(factor, x.data(), y.data(), x.size());
}

}  // namespace weir::linalg::kernels
