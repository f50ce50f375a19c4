// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The codec *zeros*: a bitmap of the values that are not zero, and these side by side. Only a value
/// without any bit is zero: -0 and every NaN are kept as they are.

#include <cstddef>
#include <span>

#include "lib/base/result.h"
#include "lib/filter/bitmap.h"

namespace weir {

// value_bytes: 1, 2, 4 or 8. Nothing needs to be aligned.
// Thread: any; do not block or allocate, but for the text of an error

/// Room for the body of any such values.
[[nodiscard]] constexpr size_t zeros_bytes_max(size_t value_count, size_t value_bytes) noexcept {
    return bitmap_bytes(value_count) + value_count * value_bytes;
}

/// Encodes `values`. Whether that is worth while is for the caller to see.
///
/// Shape:   body.size() >= zeros_bytes_max(values)
/// Returns: the bytes of `body` that were used
[[nodiscard]] size_t encode_zeros(std::span<const std::byte> values, size_t value_bytes,
                                  std::span<std::byte> body) noexcept;

/// Fills `values`, whose number is known, from a body that somebody sent.
///
/// Errors:  kProtocol if it is no body of so many values; they are unchanged then
Status decode_zeros(std::span<const std::byte> body, size_t value_bytes,
                    std::span<std::byte> values);

}  // namespace weir
