// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The codec of key lists: the first key, then for each other key how many lie between it and the
/// one before; each number in groups of seven bits, the lowest first, the last one without the top
/// bit (LEB128). A list has one body: numbers have no groups of zeros at their end.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"

namespace weir {

// Thread: any; do not block or allocate, but for the text of an error

inline constexpr size_t kKeyDifferenceBytesMax = 10;

/// Room for the body of so many keys.
[[nodiscard]] constexpr size_t key_differences_bytes_max(size_t key_count) noexcept {
    return key_count * kKeyDifferenceBytesMax;
}

/// Encodes `keys`, which ascend strictly.
///
/// Shape:   body.size() >= key_differences_bytes_max(keys.size())
/// Returns: the bytes of `body` that were used
[[nodiscard]] size_t encode_key_differences(std::span<const uint64_t> keys,
                                            std::span<std::byte> body) noexcept;

/// Fills `keys`, whose number is known, from a body that somebody sent. They ascend strictly.
///
/// Errors:  kProtocol if it is no body of so many keys; `keys` are any then. Before there is room for
///          them, may_be_key_differences() tells whether there can be so many
Status decode_key_differences(std::span<const std::byte> body, std::span<uint64_t> keys);

/// Whether a body of this size may have so many keys.
[[nodiscard]] constexpr bool may_be_key_differences(size_t body_bytes,
                                                    uint64_t key_count) noexcept {
    return key_count <= body_bytes &&
           (body_bytes + kKeyDifferenceBytesMax - 1) / kKeyDifferenceBytesMax <= key_count;
}

}  // namespace weir
