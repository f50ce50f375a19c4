// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/kept.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/filter/pack.h"

namespace weir {
namespace {

constexpr size_t kWordRows = 64;

uint64_t word_of(std::span<const std::byte> bitmap, size_t first_row) noexcept {
    const auto rest = bitmap.subspan(first_row / 8);
    uint64_t word = 0;
    std::memcpy(&word, rest.data(), rest.size() < sizeof word ? rest.size() : sizeof word);
    return word;
}

/// Rows of a size that the compiler knows: each is a few vectors.
template <size_t kRowBytes>
void pack_rows_of(std::span<const std::byte> rows, std::span<const std::byte> bitmap,
                  std::byte* packed) noexcept {
    for (size_t first = 0; first < 8 * bitmap.size(); first += kWordRows) {
        const std::byte* const from = rows.data() + first * kRowBytes;
        for (uint64_t word = word_of(bitmap, first); word != 0; word &= word - 1) {
            std::memcpy(packed, from + static_cast<size_t>(std::countr_zero(word)) * kRowBytes,
                        kRowBytes);
            packed += kRowBytes;
        }
    }
}

/// Rows of any size: those that lie side by side are copied at once.
void pack_runs(std::span<const std::byte> rows, size_t row_bytes, std::span<const std::byte> bitmap,
               std::byte* packed) noexcept {
    for (size_t first = 0; first < 8 * bitmap.size(); first += kWordRows) {
        const std::byte* const from = rows.data() + first * row_bytes;
        uint64_t word = word_of(bitmap, first);
        while (word != 0) {
            const auto begin = static_cast<size_t>(std::countr_zero(word));
            const auto run = static_cast<size_t>(std::countr_one(word >> begin));
            std::memcpy(packed, from + begin * row_bytes, run * row_bytes);
            packed += run * row_bytes;
            word = begin + run == kWordRows ? 0 : word >> (begin + run) << (begin + run);
        }
    }
}

}  // namespace

size_t kept_bytes(std::span<const std::byte> bitmap, size_t row_bytes) noexcept {
    return bitmap.size() + count_bits(bitmap) * row_bytes;
}

void pack_rows(std::span<const std::byte> rows, size_t row_bytes, std::span<const std::byte> bitmap,
               std::span<std::byte> packed) noexcept {
    WEIR_CHECK(row_bytes != 0 && rows.size() % row_bytes == 0);
    WEIR_CHECK(bitmap.size() == bitmap_bytes(rows.size() / row_bytes));
    WEIR_CHECK(unused_bits_are_zero(bitmap, rows.size() / row_bytes));
    WEIR_CHECK(packed.size() == count_bits(bitmap) * row_bytes);
    switch (row_bytes) {
        case 1:
        case 2:
        case 4:
        case 8: pack_chosen(rows, row_bytes, bitmap.data(), packed); break;
        case 16: pack_rows_of<16>(rows, bitmap, packed.data()); break;
        case 32: pack_rows_of<32>(rows, bitmap, packed.data()); break;
        case 64: pack_rows_of<64>(rows, bitmap, packed.data()); break;
        default: pack_runs(rows, row_bytes, bitmap, packed.data()); break;
    }
}

void encode_kept(std::span<const std::byte> rows, size_t row_bytes,
                 std::span<const std::byte> bitmap, std::span<std::byte> body) noexcept {
    WEIR_CHECK(body.size() >= bitmap.size());
    if (bitmap.empty()) return;
    std::memcpy(body.data(), bitmap.data(), bitmap.size());
    pack_rows(rows, row_bytes, bitmap, body.subspan(bitmap.size()));
}

Result<KeptRows> decode_kept(std::span<const std::byte> body, size_t count, size_t row_bytes) {
    WEIR_CHECK(row_bytes != 0);
    const size_t bitmap_size = bitmap_bytes(count);
    if (body.size() < bitmap_size) {
        return Error(
            Errc::kProtocol,
            fmt::format("kept: a body of {} bytes has no bitmap of {} rows", body.size(), count));
    }
    KeptRows kept{body.first(bitmap_size), body.subspan(bitmap_size), 0};
    if (!unused_bits_are_zero(kept.bitmap, count))
        return Error(Errc::kProtocol, fmt::format("kept: a bit behind those of {} rows", count));
    kept.row_count = count_bits(kept.bitmap);
    // A product could overflow: there is no limit on the size of a row here.
    if (kept.rows.size() % row_bytes != 0 || kept.rows.size() / row_bytes != kept.row_count) {
        return Error(Errc::kProtocol,
                     fmt::format("kept: {} bytes where the bitmap has {} rows of {} bytes",
                                 kept.rows.size(), kept.row_count, row_bytes));
    }
    return kept;
}

}  // namespace weir
