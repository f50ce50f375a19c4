// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes as a body of the codec integers are refused, or decoded, and what was decoded
/// is the same after it is encoded and decoded again. And any bytes as values come back. Input: the
/// type (1 byte), the number of values (2 bytes), and the bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/integers.h"

namespace {

using namespace weir;
using Bytes = std::vector<std::byte>;

void check_values(ValueType type, Bytes values) {
    values.resize(values.size() / size_of(type) * size_of(type));
    values.shrink_to_fit();
    const size_t bytes_max = integers_bytes_max(type, values.size() / size_of(type));
    Bytes body(bytes_max);
    body.resize(encode_integers(type, values, body));
    WEIR_CHECK(body.size() <= bytes_max);
    Bytes same(bytes_max);
    same.resize(encode_integers(type, values, same, Simd::kPortable));
    WEIR_CHECK(same == body);
    body.shrink_to_fit();
    Bytes back(values.size());
    WEIR_CHECK(decode_integers(type, body, back) && back == values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 3) return 0;
    const auto type = static_cast<ValueType>(data[0] % kComputedTypeCount);
    uint16_t count = 0;
    std::memcpy(&count, data + 1, sizeof count);
    count %= 4096;  // else most of the time goes into clearing memory
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(3);
    // A copy of its own, so that the sanitizer sees reads beyond the body.
    const Bytes copy(bytes.begin(), bytes.end());
    Bytes values(count * size_of(type));
    const bool is_body = decode_integers(type, copy, values).has_value();
    Bytes same(values.size());
    WEIR_CHECK(decode_integers(type, copy, same, Simd::kPortable).has_value() == is_body);
    if (is_body) {
        WEIR_CHECK(same == values);
        check_values(type, values);
    }
    check_values(type, copy);
    return 0;
}
