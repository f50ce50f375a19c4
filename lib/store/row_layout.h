// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RowLayout: what a row of a table takes. All arithmetic on sizes of rows is here.

#include <cstddef>
#include <cstdint>

#include "lib/key/value_type.h"

namespace weir {

/// A row is its values, then the state that the table's rule keeps beside them.
struct RowLayout {
    ValueType value_type = ValueType::kFloat32;
    uint32_t width = 1;        ///< values, as a pull brings them
    uint32_t state_bytes = 0;  ///< a multiple of the size of a value
    ValueType pushed_type = ValueType::kFloat32;
    uint32_t pushed_values = 1;  ///< that a push brings
    uint32_t stamp_bytes = 0;    ///< of the state, at its end: RowStamps; 0: the table keeps none

    [[nodiscard]] constexpr size_t value_bytes() const noexcept {
        return width * size_of(value_type);
    }

    [[nodiscard]] constexpr size_t pushed_bytes() const noexcept {
        return pushed_values * size_of(pushed_type);
    }

    [[nodiscard]] constexpr bool has_stamps() const noexcept { return stamp_bytes != 0; }

    /// As the rule sees its rows.
    [[nodiscard]] constexpr RowLayout without_stamps() const noexcept {
        RowLayout of_rule = *this;
        of_rule.state_bytes -= stamp_bytes;
        of_rule.stamp_bytes = 0;
        return of_rule;
    }

    /// Values and state.
    [[nodiscard]] constexpr size_t row_bytes() const noexcept {
        return value_bytes() + state_bytes;
    }

    /// Whether rows of the other layout hold the same.
    [[nodiscard]] constexpr bool holds_the_same(const RowLayout& other) const noexcept {
        return value_type == other.value_type && width == other.width &&
               state_bytes == other.state_bytes;
    }

    friend bool operator==(const RowLayout&, const RowLayout&) = default;
};

}  // namespace weir
