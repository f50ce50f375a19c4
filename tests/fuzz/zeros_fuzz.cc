// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes as a body of the codec zeros are refused, or decoded, to the same values with
/// any instructions; what was decoded is the same after it is encoded and decoded again. And any bytes
/// as values come back. Input: the size of a value (1 byte, 0 to 3: its logarithm), the number of
/// values (2 bytes), and the bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/pack/pack.h"
#include "lib/filter/zeros.h"

namespace {

using namespace weir;
using Bytes = std::vector<std::byte>;

Bytes encoded(const Bytes& values, size_t value_bytes) {
    Bytes body(zeros_bytes_max(values.size() / value_bytes, value_bytes));
    body.resize(encode_zeros(values, value_bytes, body));
    body.shrink_to_fit();  // so that the sanitizer sees reads behind it
    return body;
}

void check_body(const Bytes& body, size_t value_bytes, size_t count) {
    Bytes values(count * value_bytes);
    if (!decode_zeros(body, value_bytes, values)) return;
    const auto packed = std::span(body).subspan(bitmap_bytes(count));
    for (const Simd simd : {Simd::kPortable, Simd::kAvx2}) {
        if (!is_supported(simd)) continue;
        Bytes same(values.size(), std::byte{1});
        expand_values(body.data(), packed, value_bytes, same, simd);
        WEIR_CHECK(same == values);
    }
    // A body may have zeros among its values: the one that is encoded again has none.
    const Bytes again = encoded(values, value_bytes);
    WEIR_CHECK(again.size() <= body.size());
    Bytes back(values.size());
    WEIR_CHECK(decode_zeros(again, value_bytes, back) && back == values);
}

void check_values(Bytes values, size_t value_bytes) {
    values.resize(values.size() / value_bytes * value_bytes);
    values.shrink_to_fit();
    const size_t count = values.size() / value_bytes;
    const Bytes body = encoded(values, value_bytes);
    for (const Simd simd : {Simd::kPortable, Simd::kAvx2}) {
        if (!is_supported(simd)) continue;
        Bytes bitmap(bitmap_bytes(count));
        Bytes packed(values.size());
        packed.resize(pack_nonzeros(values, value_bytes, bitmap.data(), packed, simd));
        WEIR_CHECK(std::ranges::equal(bitmap, std::span(body).first(bitmap.size())));
        WEIR_CHECK(std::ranges::equal(packed, std::span(body).subspan(bitmap.size())));
    }
    Bytes back(values.size());
    WEIR_CHECK(decode_zeros(body, value_bytes, back) && back == values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 3) return 0;
    const size_t value_bytes = size_t{1} << (data[0] & 3);
    uint16_t count = 0;
    std::memcpy(&count, data + 1, sizeof count);
    count %= 4096;  // else most of the time goes into clearing memory
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(3);
    const Bytes copy(bytes.begin(), bytes.end());
    check_body(copy, value_bytes, count);
    check_values(copy, value_bytes);
    return 0;
}
