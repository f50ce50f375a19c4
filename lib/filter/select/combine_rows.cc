// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/combine_rows.h"

#include <type_traits>

#include "lib/base/check.h"

namespace weir {
namespace {

/// Integers wrap, as they do at servers; a float that grows beyond all others is infinite, as
/// there.
template <class T>
T sum(T a, T b) noexcept {
    if constexpr (std::is_integral_v<T>) {
        using Unsigned = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
        return a + b;
    }
}

template <Combine C, class T>
void combine_row(const std::byte* earlier, std::byte* later, size_t width) {
    const T* __restrict a = reinterpret_cast<const T*>(earlier);
    T* __restrict b = reinterpret_cast<T*>(later);
    for (size_t i = 0; i < width; ++i) {
        if constexpr (C == Combine::kSum) b[i] = sum(a[i], b[i]);
        if constexpr (C == Combine::kMax) b[i] = b[i] > a[i] ? b[i] : a[i];
        if constexpr (C == Combine::kMin) b[i] = b[i] < a[i] ? b[i] : a[i];
    }
}

template <class T>
CombineRow of(Combine combine) noexcept {
    switch (combine) {
        case Combine::kSum: return &combine_row<Combine::kSum, T>;
        case Combine::kMax: return &combine_row<Combine::kMax, T>;
        case Combine::kMin: return &combine_row<Combine::kMin, T>;
        default: break;
    }
    return &combine_row<Combine::kLast, T>;  // `later` is both already
}

}  // namespace

CombineRow combine_row_of(const RowKind& rows) noexcept {
    const Combine combine = rows.combine;
    WEIR_CHECK(combine != Combine::kMean);
    return with_value_type(rows.type, [combine]<class T>() { return of<T>(combine); });
}

}  // namespace weir
