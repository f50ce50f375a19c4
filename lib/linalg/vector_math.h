// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// exp and log1p on the ranges that the logistic loss needs, without branches, so that loops over
/// them become vector code. The relative error of each is below 4e-16.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace weir::linalg {

/// exp(x) for x <= 0; exp(-700) for x below -700.
[[nodiscard, gnu::always_inline]] inline double exp_negative(double x) noexcept {
    constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, in the low bits
    constexpr double kLog2High = 0x1.62e42fee00000p-1;
    constexpr double kLog2Low = 0x1.a39ef35793c76p-33;
    x = std::max(x, -700.0);
    const double shifted = x * 0x1.71547652b82fep+0 + kRound;
    const double k = shifted - kRound;
    const double r = (x - k * kLog2High) - k * kLog2Low;  // |r| <= log(2) / 2
    double sum = 1.0 / 6227020800;                        // 1 / 13!, then downwards
    sum = sum * r + 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = (sum * r) * r + r + 1.0;
    const uint64_t power = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;  // 2^k
    return sum * std::bit_cast<double>(power);
}

/// log(1 + e) for 0 <= e <= 1.
[[nodiscard, gnu::always_inline]] inline double log1p_unit(double e) noexcept {
    const double s = e / (2 + e);  // log(1 + e) = 2 artanh(s), and s <= 1/3
    const double z = s * s;
    double sum = 1.0 / 33;
    sum = sum * z + 1.0 / 31;
    sum = sum * z + 1.0 / 29;
    sum = sum * z + 1.0 / 27;
    sum = sum * z + 1.0 / 25;
    sum = sum * z + 1.0 / 23;
    sum = sum * z + 1.0 / 21;
    sum = sum * z + 1.0 / 19;
    sum = sum * z + 1.0 / 17;
    sum = sum * z + 1.0 / 15;
    sum = sum * z + 1.0 / 13;
    sum = sum * z + 1.0 / 11;
    sum = sum * z + 1.0 / 9;
    sum = sum * z + 1.0 / 7;
    sum = sum * z + 1.0 / 5;
    sum = sum * z + 1.0 / 3;
    return 2 * s + 2 * s * z * sum;
}

}  // namespace weir::linalg
