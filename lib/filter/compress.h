// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The codec *compress*: Snappy over the body that the other codecs made.

#include <cstddef>
#include <optional>
#include <span>

#include "lib/base/result.h"

namespace weir {

// Thread: any; do not block. Snappy allocates a working memory of up to 200 KiB in compress().

/// Room that compress() needs for a body of this size, however well it compresses.
[[nodiscard]] size_t compress_bytes_max(size_t raw_bytes) noexcept;

/// Compresses `raw` into `compressed`.
///
/// Shape:   compressed.size() >= compress_bytes_max(raw.size()); raw has less than 2^32 bytes
/// Returns: the bytes used, or nothing if they are no fewer than those of `raw`: send these
[[nodiscard]] std::optional<size_t> compress(std::span<const std::byte> raw,
                                             std::span<std::byte> compressed) noexcept;

/// The size to which bytes that somebody sent will be expanded. Call it before there is room.
///
/// Errors:  kProtocol if it is above `raw_bytes_max`, if the bytes do not begin with a size, or if no
///          so few bytes expand to it
[[nodiscard]] Result<size_t> decompressed_bytes(std::span<const std::byte> compressed,
                                                size_t raw_bytes_max);

/// Expands bytes that somebody sent.
///
/// Shape:   raw.size() is what decompressed_bytes() returned
/// Errors:  kProtocol if the bytes are not what Snappy makes of so many, or if some are left; `raw`
///          has any bytes then
Status decompress(std::span<const std::byte> compressed, std::span<std::byte> raw);

}  // namespace weir
