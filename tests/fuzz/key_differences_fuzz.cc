// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes as a list of key differences are refused, or decoded to keys that ascend, and
/// these make the same bytes again. And any numbers, sorted, come back. Input: the number of keys
/// (2 bytes), and the bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/key_differences.h"
#include "lib/key/key_list.h"

namespace {

using namespace weir;
using Bytes = std::vector<std::byte>;
using Keys = std::vector<uint64_t>;

Bytes encoded(const Keys& keys) {
    Bytes body(key_differences_bytes_max(keys.size()));
    body.resize(encode_key_differences(keys, body));
    body.shrink_to_fit();  // so that the sanitizer sees reads behind it
    return body;
}

void check_body(const Bytes& body, size_t count) {
    Keys keys(count);
    const bool is_body = decode_key_differences(body, keys).has_value();
    WEIR_CHECK(!is_body || may_be_key_differences(body.size(), count));
    if (is_body) WEIR_CHECK(is_sorted_unique(keys) && encoded(keys) == body);
}

void check_keys(const Bytes& bytes) {
    Keys keys(bytes.size() / sizeof(uint64_t));
    if (!keys.empty()) std::memcpy(keys.data(), bytes.data(), keys.size() * sizeof(uint64_t));
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    const Bytes body = encoded(keys);
    WEIR_CHECK(may_be_key_differences(body.size(), keys.size()));
    Keys back(keys.size());
    WEIR_CHECK(decode_key_differences(body, back) && back == keys);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    uint16_t count = 0;
    std::memcpy(&count, data, sizeof count);
    count %= 4096;  // else most of the time goes into clearing memory
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
    // A copy of its own, so that the sanitizer sees reads beyond the body.
    const Bytes copy(bytes.begin(), bytes.end());
    check_body(copy, count);
    check_keys(copy);
    return 0;
}
