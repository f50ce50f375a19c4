// SPDX-License-Identifier: Apache-2.0
#include "lib/store/combine.h"

#include <algorithm>
#include <cstring>

#include "lib/base/kernel.h"
#include "lib/store/rules/builtin_rules.h"
#include "lib/store/rules/rule_kernels.h"

namespace weir {
namespace {

template <Combine C, class T>
inline T combined(T a, T b) {
    if constexpr (C == Combine::kSum) return rules::add(a, b);
    if constexpr (C == Combine::kMax) return b > a ? b : a;
    if constexpr (C == Combine::kMin) return b < a ? b : a;
    return b;
}

/// A mask of `count` bits, from `bit` on.
inline uint64_t bits_of(uint32_t bit, size_t count) noexcept {
    return (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1) << bit;
}

template <Combine C, class T>
WEIR_KERNEL void combine_run(const CombineTarget& target, uint32_t first_row, size_t row_count,
                             const std::byte* pushed) {
    const size_t per_row = target.values_per_row;
    const T* __restrict p = reinterpret_cast<const T*>(pushed);
    while (row_count > 0) {
        // Up to 64 rows that share a word of bits and lie side by side.
        const uint32_t bit = first_row % 64;
        size_t count = std::min<size_t>({row_count, 64 - bit, target.accumulators.run(first_row)});
        uint64_t& word = target.touched[first_row / 64];
        uint64_t mask = bits_of(bit, count);
        const uint64_t set = word & mask;
        if (set != 0 && set != mask) {  // mixed: row by row
            count = 1;
            mask = uint64_t{1} << bit;
        }
        T* __restrict a = reinterpret_cast<T*>(target.accumulators.at(first_row));
        if ((word & mask) == 0) {
            std::memcpy(a, p, count * per_row * sizeof(T));
            word |= mask;
        } else {
            for (size_t i = 0; i < count * per_row; ++i)
                a[i] = combined<C>(a[i], p[i]);
        }
        p += count * per_row;
        first_row += static_cast<uint32_t>(count);
        row_count -= count;
    }
}

template <Combine C, class T>
WEIR_KERNEL void combine_rows(const CombineTarget& target, std::span<const uint32_t> rows,
                              const std::byte* pushed) {
    const RowView accumulators = target.accumulators;
    const size_t per_row = target.values_per_row;
    const T* p = reinterpret_cast<const T*>(pushed);
    for (size_t r = 0; r < rows.size(); ++r, p += per_row) {
        if (r + kernels::kRowsAhead < rows.size()) {
            const uint32_t ahead = rows[r + kernels::kRowsAhead];
            kernels::prefetch_row(accumulators.at(ahead), per_row * sizeof(T));
            __builtin_prefetch(&target.touched[ahead / 64], 1);
        }
        T* a = reinterpret_cast<T*>(accumulators.at(rows[r]));
        uint64_t& word = target.touched[rows[r] / 64];
        const uint64_t mask = uint64_t{1} << (rows[r] % 64);
        const bool first = (word & mask) == 0;
        word |= mask;
        for (size_t i = 0; i < per_row; ++i) {
            const T b = p[i];
            a[i] = first ? b : combined<C>(a[i], b);
        }
    }
}

template <class T>
CombineKernels kernels_of(Combine combine) noexcept {
    switch (combine) {
        case Combine::kSum:
        case Combine::kMean:  // the sum; Aggregate counts
            return {&combine_run<Combine::kSum, T>, &combine_rows<Combine::kSum, T>};
        case Combine::kMax:
            return {&combine_run<Combine::kMax, T>, &combine_rows<Combine::kMax, T>};
        case Combine::kMin:
            return {&combine_run<Combine::kMin, T>, &combine_rows<Combine::kMin, T>};
        case Combine::kLast: break;
    }
    return {&combine_run<Combine::kLast, T>, &combine_rows<Combine::kLast, T>};
}

}  // namespace

CombineKernels combine_kernels(Combine combine, ValueType type) noexcept {
    return with_value_type(type, [&]<class T>() { return kernels_of<T>(combine); });
}

}  // namespace weir
