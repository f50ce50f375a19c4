// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: what a launcher or an unknown peer can send at the start of a job: lines of PMI-1,
/// chunks of values, and messages of the rendezvous. What is accepted has the same content when it
/// is encoded again.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/pmi1_text.h"
#include "lib/bootstrap/rendezvous/rendezvous_message.h"

namespace weir::boot {
namespace {

void fuzz_line(std::string_view text) {
    const auto line = parse_pmi1_line(text);
    if (!line) return;
    WEIR_CHECK(!line->command.empty() && text.size() <= kPmi1LineBytesMax);
    for (const auto& [name, value] : line->fields) {
        WEIR_CHECK(line->find(name) != nullptr);
        const auto number = line->number(name, 1000);
        WEIR_CHECK(!number || *number <= 1000);
    }
}

void fuzz_chunks(std::string_view text) {
    Pmi1Joiner joiner;
    while (!text.empty() && !joiner.complete()) {
        const size_t end = text.find('\n');
        if (!joiner.add(text.substr(0, end))) return;
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    if (!joiner.complete()) return;
    const auto value = joiner.value();
    if (!value) return;
    WEIR_CHECK(value->size() <= Bootstrap::kValueBytesMax);
    Pmi1Joiner again;
    for (const std::string& chunk : pmi1_chunks(*value, 100))
        WEIR_CHECK(again.add(chunk));
    WEIR_CHECK(again.complete() && again.value().value() == *value);
}

/// The stream arrives in pieces of equal length, which the first byte gives.
void fuzz_rendezvous(std::string_view bytes) {
    if (bytes.empty()) return;
    const size_t piece = 1 + static_cast<uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    transport::RecordReader reader(kRendezvousProtocol, kRendezvousBodyBytesMax);
    std::string_view sent_again = bytes;
    while (!bytes.empty()) {
        reader.append(std::as_bytes(std::span(bytes.substr(0, piece))));
        bytes.remove_prefix(std::min(piece, bytes.size()));
        for (;;) {
            const auto next = reader.next();
            if (!next) return;
            if (!next->has_value()) break;
            const auto message = decode_message(**next);
            if (!message) return;
            const std::vector<std::byte> encoded = encode(*message);
            const std::string_view text(reinterpret_cast<const char*>(encoded.data()),
                                        encoded.size());
            WEIR_CHECK(sent_again.starts_with(text));
            sent_again.remove_prefix(text.size());
        }
    }
}

}  // namespace
}  // namespace weir::boot

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 3) {
        case 0: weir::boot::fuzz_line(text); break;
        case 1: weir::boot::fuzz_chunks(text); break;
        default: weir::boot::fuzz_rendezvous(text); break;
    }
    return 0;
}
