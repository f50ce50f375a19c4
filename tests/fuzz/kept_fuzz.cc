// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes as a body of the codec kept are refused, or decoded, and the same body is
/// made of the rows that they have. Input: the size of a row (1 byte, and 1), the number of rows
/// (2 bytes), and the body.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/kept.h"

namespace {

using namespace weir;
using Bytes = std::vector<std::byte>;

void check(const Bytes& body, size_t row_bytes, size_t count) {
    const Result<KeptRows> kept = decode_kept(body, count, row_bytes);
    if (!kept) {
        WEIR_CHECK(kept.code() == Errc::kProtocol);
        return;
    }
    WEIR_CHECK(kept->row_count <= count);
    std::vector<uint32_t> indices(kept->row_count);
    kept->list(indices);
    std::vector<uint32_t> portable(kept->row_count);
    list_bits(kept->bitmap, portable, Simd::kPortable);
    WEIR_CHECK(indices == portable);
    WEIR_CHECK(std::ranges::adjacent_find(indices, std::ranges::greater_equal{}) == indices.end());
    WEIR_CHECK(indices.empty() || indices.back() < count);
    // All rows, of which the others have bytes that must not show.
    Bytes rows(count * row_bytes, std::byte{0xee});
    for (size_t i = 0; i < indices.size(); ++i)
        std::memcpy(&rows[indices[i] * row_bytes], &kept->rows[i * row_bytes], row_bytes);
    Bytes again(kept_bytes(kept->bitmap, row_bytes));
    encode_kept(rows, row_bytes, kept->bitmap, again);
    WEIR_CHECK(again == body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 3) return 0;
    const size_t row_bytes = size_t{data[0]} + 1;
    uint16_t count = 0;
    std::memcpy(&count, data + 1, sizeof count);
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(3);
    // A copy of its own, so that the sanitizer sees reads beyond the body.
    check(Bytes(bytes.begin(), bytes.end()), row_bytes, count);
    return 0;
}
