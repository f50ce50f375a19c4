// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/scan_message.h"

#include "lib/base/byte_codec.h"

namespace weir {

std::vector<std::byte> ScanMessage::encode() const {
    ByteWriter writer;
    writer.number(memory.address).number(memory.length_bytes).number(memory.key);
    writer.number(epoch).number(table).number(width).number(value_type).number(columns);
    writer.number(static_cast<uint8_t>(begins)).number(static_cast<uint8_t>(by_row));
    writer.number(cursor).number(first_key).number(last_key);
    const std::vector<std::byte> of_call =
        call.function != 0 ? call.encode() : std::vector<std::byte>();
    writer.number(uint64_t{of_call.size()}).raw(of_call);
    for (const PositionRange range : positions)
        writer.number(range.first).number(range.last);
    return std::move(writer).take();
}

std::optional<ScanMessage> ScanMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    ScanMessage message;
    message.memory.address = reader.number<uint64_t>();
    message.memory.length_bytes = reader.number<uint64_t>();
    message.memory.key = reader.number<uint64_t>();
    message.epoch = reader.number<uint64_t>();
    message.table = reader.number<uint32_t>();
    message.width = reader.number<uint32_t>();
    message.value_type = reader.number<uint8_t>();
    message.columns = reader.number<uint8_t>();
    const auto begins = reader.number<uint8_t>();
    message.begins = begins != 0;
    const auto by_row = reader.number<uint8_t>();
    message.by_row = by_row != 0;
    message.cursor = reader.number<uint64_t>();
    message.first_key = reader.number<uint64_t>();
    message.last_key = reader.number<uint64_t>();
    const auto call_bytes = reader.number<uint64_t>();
    if (call_bytes > wire::kCallWordsMax * sizeof(uint64_t)) return std::nullopt;
    if (call_bytes != 0) {
        std::optional<CallMessage> call = CallMessage::decode(reader.raw(call_bytes));
        if (!call || call->function == 0) return std::nullopt;
        message.call = *std::move(call);
    }
    message.positions.clear();
    do {
        const auto first = reader.number<uint64_t>();
        const auto last = reader.number<uint64_t>();
        const bool ascends = message.positions.empty() || message.positions.back().last < first;
        if (!reader.ok() || first > last || !ascends) return std::nullopt;
        if (message.positions.size() == kRangesMax) return std::nullopt;
        message.positions.push_back({first, last});
    } while (!reader.done());
    if (message.memory.length_bytes > wire::kRequestBytesMax) return std::nullopt;
    if ((message.columns & ~(kValues | kState | kStamps)) != 0) return std::nullopt;
    if (begins > 1 || by_row > 1 || message.first_key > message.last_key) return std::nullopt;
    return message;
}

std::vector<std::byte> ScanReply::encode() const {
    ByteWriter writer;
    writer.number(cursor).number(row_count).number(flags).number(shown);
    return std::move(writer).take();
}

std::optional<ScanReply> ScanReply::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    ScanReply reply;
    reply.cursor = reader.number<uint64_t>();
    reply.row_count = reader.number<uint32_t>();
    reply.flags = reader.number<uint32_t>();
    reply.shown = reader.number<uint64_t>();
    if (!reader.done() || (reply.flags & ~(kAtEnd | kByRow)) != 0) return std::nullopt;
    return reply;
}

}  // namespace weir
