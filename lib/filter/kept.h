// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The codec *kept*: a bitmap says which rows of a list or range are kept; these follow, packed. The
/// other rows are not there at all, which is something else than a row of zeros.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/filter/bitmap.h"

namespace weir {

// row_bytes > 0. Nothing needs to be aligned.
// Thread: any; do not block or allocate, but for the text of an error

/// The size of the body that has these rows.
[[nodiscard]] size_t kept_bytes(std::span<const std::byte> bitmap, size_t row_bytes) noexcept;

/// Encodes those of the rows whose bits are set.
///
/// Shape:   rows.size() == count * row_bytes; bitmap.size() == bitmap_bytes(count), unused bits 0;
///          body.size() == kept_bytes(bitmap, row_bytes)
void encode_kept(std::span<const std::byte> rows, size_t row_bytes,
                 std::span<const std::byte> bitmap, std::span<std::byte> body) noexcept;

/// Copies those of the rows whose bits are set side by side.
///
/// Shape:   as encode_kept(); packed.size() == count_bits(bitmap) * row_bytes
void pack_rows(std::span<const std::byte> rows, size_t row_bytes, std::span<const std::byte> bitmap,
               std::span<std::byte> packed) noexcept;

/// A body, taken apart. Borrows it.
struct KeptRows {
    std::span<const std::byte> bitmap;
    std::span<const std::byte> rows;
    size_t row_count = 0;  ///< kept ones

    /// Writes the index of each row that is kept, ascending. Shape: indices.size() == row_count
    void list(std::span<uint32_t> indices) const noexcept { list_bits(bitmap, indices); }
};

/// Takes apart a body that somebody sent, of some of `count` rows. Nothing is copied.
///
/// Errors:  kProtocol if it is no body of so many rows
[[nodiscard]] Result<KeptRows> decode_kept(std::span<const std::byte> body, size_t count,
                                           size_t row_bytes);

}  // namespace weir
