// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// sum_of_terms: a sum of many terms, as quickly as their memory is read.

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace weir {

/// The sum of term(i), each a T, over begin .. end - 1: of floats, many in several sums at once, so that no addition
/// waits for the one before. What floats lose in a few additions is nothing beside what their products have lost.
template <class T, class Term>
[[gnu::always_inline]] inline double sum_of_terms(size_t begin, size_t end, const Term& term) {
    constexpr size_t kLanes = 32;
    constexpr size_t kInBlock = 16;  // terms that are added up as T, before they go on as a double
    double sums[kLanes] = {};
    size_t i = begin;
    while (i + kLanes <= end) {
        T block[kLanes] = {};
        const size_t last = i + std::min((end - i) / kLanes, kInBlock) * kLanes;
        for (; i < last; i += kLanes) {
            for (size_t k = 0; k < kLanes; ++k)
                block[k] += term(i + k);
        }
        for (size_t k = 0; k < kLanes; ++k)
            sums[k] += static_cast<double>(block[k]);
    }
    for (size_t k = 0; i < end; ++i, ++k)
        sums[k] += static_cast<double>(term(i));
    const auto fold = [&](auto half) {
        for (size_t k = 0; k < half(); ++k)
            sums[k] += sums[k + half()];
    };
    fold(std::integral_constant<size_t, 16>());
    fold(std::integral_constant<size_t, 8>());
    fold(std::integral_constant<size_t, 4>());
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace weir
