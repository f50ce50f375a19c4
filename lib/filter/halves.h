// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The codec *halves*: floats all of which are bfloat16, or float16, to the bit, in 2 bytes each.

#include <cstddef>
#include <span>

#include "lib/key/value_type.h"

namespace weir {

// `type`: kBFloat16 or kFloat16. Nothing needs to be aligned.
// Thread: any; do not block or allocate

/// False: some value is another one.
/// Shape: values.size() is that of floats, body.size() half of it
[[nodiscard]] bool encode_halves(ValueType type, std::span<const std::byte> values,
                                 std::span<std::byte> body) noexcept;

/// Any body is one of floats. Shape: as encode_halves()
void decode_halves(ValueType type, std::span<const std::byte> body,
                   std::span<std::byte> values) noexcept;

}  // namespace weir
