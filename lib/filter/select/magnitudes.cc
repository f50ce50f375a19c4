// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/magnitudes.h"

#include <bit>
#include <type_traits>

#include "lib/base/kernel.h"

namespace weir {
namespace {

/// A number that grows with the size of a value. Those of floats are their bits without the sign:
/// with integers, the greatest of a row is found with vectors.
template <class T>
auto size_number(T value) noexcept {
    if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(value) & 0x7fff'ffffU;
    if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<uint64_t>(value) & 0x7fff'ffff'ffff'ffffU;
    if constexpr (std::is_integral_v<T>) {
        using Unsigned = std::make_unsigned_t<T>;
        const auto bits = static_cast<Unsigned>(value);
        return static_cast<Unsigned>(value < 0 ? Unsigned{0} - bits : bits);
    }
}

template <class T, class Number>
double size_of_number(Number number) noexcept {
    if constexpr (std::is_floating_point_v<T>) return static_cast<double>(std::bit_cast<T>(number));
    if constexpr (!std::is_floating_point_v<T>) return static_cast<double>(number);
}

template <class T>
WEIR_KERNEL void sizes_of_singles(const T* __restrict values, double* __restrict greatest,
                                  size_t count) noexcept {
    for (size_t i = 0; i < count; ++i)
        greatest[i] = size_of_number<T>(size_number(values[i]));
}

template <class T>
WEIR_KERNEL void sizes_of_rows(const T* __restrict values, size_t width,
                               double* __restrict greatest, size_t count) noexcept {
    for (size_t row = 0; row < count; ++row, values += width) {
        decltype(size_number(T{})) most = 0;
        for (size_t i = 0; i < width; ++i) {
            const auto number = size_number(values[i]);
            most = number > most ? number : most;
        }
        greatest[row] = size_of_number<T>(most);
    }
}

}  // namespace

void magnitudes(const RowKind& rows, const std::byte* values, std::span<double> greatest) noexcept {
    const size_t width = rows.width;
    with_value_type(rows.type, [=]<class T>() {
        const T* const typed = reinterpret_cast<const T*>(values);
        if (width == 1) {
            sizes_of_singles(typed, greatest.data(), greatest.size());
        } else {
            sizes_of_rows(typed, width, greatest.data(), greatest.size());
        }
    });
}

}  // namespace weir
