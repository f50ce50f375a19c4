// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/scan_message.h"

#include "lib/base/byte_codec.h"

namespace weir {

std::vector<std::byte> ScanMessage::encode() const {
    ByteWriter writer;
    writer.number(epoch).number(table).number(width).number(value_type);
    writer.number(static_cast<uint8_t>(begins)).number(cursor).number(first_key).number(last_key);
    for (const PositionRange range : positions)
        writer.number(range.first).number(range.last);
    return std::move(writer).take();
}

std::optional<ScanMessage> ScanMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    ScanMessage message;
    message.epoch = reader.number<uint64_t>();
    message.table = reader.number<uint32_t>();
    message.width = reader.number<uint32_t>();
    message.value_type = reader.number<uint8_t>();
    const auto begins = reader.number<uint8_t>();
    message.begins = begins != 0;
    message.cursor = reader.number<uint64_t>();
    message.first_key = reader.number<uint64_t>();
    message.last_key = reader.number<uint64_t>();
    message.positions.clear();
    do {
        const auto first = reader.number<uint64_t>();
        const auto last = reader.number<uint64_t>();
        const bool ascends = message.positions.empty() || message.positions.back().last < first;
        if (!reader.ok() || first > last || !ascends) return std::nullopt;
        if (message.positions.size() == kRangesMax) return std::nullopt;
        message.positions.push_back({first, last});
    } while (!reader.done());
    if (begins > 1 || message.first_key > message.last_key) return std::nullopt;
    return message;
}

std::vector<std::byte> ScanReply::encode_head() const {
    ByteWriter writer;
    writer.number(cursor).number(first_key).number(row_count).number(flags);
    return std::move(writer).take();
}

std::optional<ScanReply> ScanReply::decode(std::span<const std::byte> body, size_t row_bytes) {
    constexpr uint32_t kAllFlags = kAtEnd | kRange | kKeysOnly;
    ByteReader reader(body);
    ScanReply reply;
    reply.cursor = reader.number<uint64_t>();
    reply.first_key = reader.number<uint64_t>();
    reply.row_count = reader.number<uint32_t>();
    reply.flags = reader.number<uint32_t>();
    if (!reader.ok() || (reply.flags & ~kAllFlags) != 0) return std::nullopt;
    const std::span<const std::byte> rest = reader.rest();
    const bool is_range = (reply.flags & kRange) != 0;
    const uint64_t key_bytes = is_range ? 0 : reply.row_count * sizeof(uint64_t);
    const uint64_t value_bytes = (reply.flags & kKeysOnly) != 0 ? 0 : reply.row_count * row_bytes;
    if (rest.size() != key_bytes + value_bytes) return std::nullopt;
    if (is_range && reply.first_key + reply.row_count < reply.first_key) return std::nullopt;
    reply.keys = rest.first(key_bytes);
    reply.values = rest.subspan(key_bytes);
    return reply;
}

}  // namespace weir
