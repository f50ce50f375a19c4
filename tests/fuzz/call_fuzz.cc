// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes in the messages of functions and scans are refused or decoded, and what was decoded is the
/// same after it is encoded and decoded again. Input: which message (1 byte), and its body.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/store/functions/function_call.h"
#include "lib/wire/scan_message.h"

namespace {

using namespace weir;

template <class Message>
void check(std::span<const std::byte> body) {
    const auto message = Message::decode(body);
    if (message) WEIR_CHECK(std::ranges::equal(message->encode(), body));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    // A copy of its own, so that the sanitizer sees reads beyond the body.
    const std::vector<uint8_t> copy(data + 1, data + size);
    const auto body = std::as_bytes(std::span(copy));
    if (data[0] == 0) check<CallMessage>(body);
    if (data[0] == 1) check<ScanMessage>(body);
    if (data[0] == 2) check<ScanReply>(body);
    if (data[0] != 3) return 0;
    const auto result = decode_result(body);
    if (result) WEIR_CHECK(std::ranges::equal(encode_result(*result), body));
    return 0;
}
