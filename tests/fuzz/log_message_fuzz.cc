// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes are refused as a message of a log's replica, or decoded, and then encoded to the
/// same bytes; and any parts are joined, or refused.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/check.h"
#include "lib/consensus/messages.h"
#include "lib/consensus/parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace weir;
    using namespace weir::consensus;
    const auto input = std::as_bytes(std::span(data, size));
    const std::optional<Message> message = decode_message(input);
    if (message) WEIR_CHECK(std::ranges::equal(encode_message(*message), input));
    PartJoiner joiner(size / 2);
    // The input as a row of parts: a length of one byte before each.
    for (size_t place = 0; place < size;) {
        const size_t length = std::min<size_t>(data[place], size - place - 1);
        const auto part = input.subspan(place + 1, length);
        if (const auto greeting = decode_greeting(part); greeting)
            WEIR_CHECK(std::ranges::equal(encode_greeting(*greeting), part));
        if (!joiner.take(part)) break;
        if (const auto joined = joiner.message(); joined) WEIR_CHECK(joined->size() <= size / 2);
        place += 1 + length;
    }
    return 0;
}
