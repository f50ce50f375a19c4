// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes as a compressed body are refused, or expanded to no more than the bound; and
/// any bytes come back, or are given up. Input: the bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/compress.h"

namespace {

using namespace weir;
using Bytes = std::vector<std::byte>;

constexpr size_t kRawBytesMax = size_t{1} << 16;

/// The compressed bytes, or none if they were given up.
Bytes compressed(const Bytes& raw) {
    Bytes body(compress_bytes_max(raw.size()));
    body.resize(compress(raw, body).value_or(0));
    body.shrink_to_fit();  // so that the sanitizer sees reads behind it
    return body;
}

void check_raw(const Bytes& raw) {
    const Bytes body = compressed(raw);
    if (body.empty()) return;
    WEIR_CHECK(body.size() < raw.size());
    WEIR_CHECK(decompressed_bytes(body, raw.size()).value() == raw.size());
    Bytes back(raw.size());
    WEIR_CHECK(decompress(body, back) && back == raw);
}

void check_body(const Bytes& body) {
    const Result<size_t> size = decompressed_bytes(body, kRawBytesMax);
    if (!size) {
        WEIR_CHECK(size.code() == Errc::kProtocol);
        return;
    }
    WEIR_CHECK(*size <= kRawBytesMax);
    Bytes raw(*size);
    if (decompress(body, raw)) check_raw(raw);
    Bytes more(*size + 1);
    WEIR_CHECK(!decompress(body, more));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    // A copy of its own, so that the sanitizer sees reads beyond the body.
    const Bytes copy(bytes.begin(), bytes.end());
    check_body(copy);
    check_raw(copy);
    return 0;
}
