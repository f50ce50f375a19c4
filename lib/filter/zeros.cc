// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/zeros.h"

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/filter/pack/pack.h"

namespace weir {

size_t encode_zeros(std::span<const std::byte> values, size_t value_bytes,
                    std::span<std::byte> body) noexcept {
    WEIR_CHECK(value_bytes != 0 && values.size() % value_bytes == 0);
    const size_t bitmap = bitmap_bytes(values.size() / value_bytes);
    WEIR_CHECK(body.size() >= bitmap + values.size());
    return bitmap + pack_nonzeros(values, value_bytes, body.data(), body.subspan(bitmap));
}

Status decode_zeros(std::span<const std::byte> body, size_t value_bytes,
                    std::span<std::byte> values) {
    WEIR_CHECK(value_bytes != 0 && values.size() % value_bytes == 0);
    const size_t count = values.size() / value_bytes;
    const size_t bitmap_size = bitmap_bytes(count);
    if (body.size() < bitmap_size) {
        return Error(Errc::kProtocol,
                     fmt::format("zeros: a body of {} bytes has no bitmap of {} values",
                                 body.size(), count));
    }
    const auto bitmap = body.first(bitmap_size);
    const auto packed = body.subspan(bitmap_size);
    if (!unused_bits_are_zero(bitmap, count))
        return Error(Errc::kProtocol, fmt::format("zeros: a bit behind those of {} values", count));
    // No more bits than values, so the product is no more than the size of `values`.
    const size_t expected = count_bits(bitmap) * value_bytes;
    if (packed.size() != expected) {
        return Error(Errc::kProtocol,
                     fmt::format("zeros: {} bytes of values where the bitmap has {}", packed.size(),
                                 expected));
    }
    expand_values(bitmap.data(), packed, value_bytes, values);
    return {};
}

}  // namespace weir
