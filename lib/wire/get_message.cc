// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/get_message.h"

#include <algorithm>

#include "lib/base/byte_codec.h"
#include "lib/wire/messages.h"

namespace weir {
namespace {

/// Up to the end of the body.
bool read_keys(ByteReader& reader, std::vector<uint64_t>& keys) {
    do {
        if (keys.size() == GetLimits::kKeysMax) return false;
        keys.push_back(reader.number<uint64_t>());
    } while (reader.ok() && !reader.done());
    return reader.ok();
}

}  // namespace

std::vector<std::byte> GetMessage::encode() const {
    ByteWriter writer;
    writer.text(table).raw(std::as_bytes(std::span(keys)));
    return std::move(writer).take();
}

std::optional<GetMessage> GetMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    GetMessage message;
    message.table = reader.text(TableMessage::kNameBytesMax);
    if (!reader.ok() || !read_keys(reader, message.keys)) return std::nullopt;
    return message;
}

std::vector<std::byte> ShardGetMessage::encode() const {
    ByteWriter writer;
    writer.number(table).raw(std::as_bytes(std::span(keys)));
    return std::move(writer).take();
}

std::optional<ShardGetMessage> ShardGetMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    ShardGetMessage message;
    message.table = reader.number<uint32_t>();
    if (!reader.ok() || !read_keys(reader, message.keys)) return std::nullopt;
    return message;
}

std::vector<std::byte> GetReply::encode() const {
    ByteWriter writer;
    writer.number(type).number(width).text(
        std::string_view(why).substr(0, GetLimits::kWhyBytesMax));
    writer.number(static_cast<uint32_t>(states.size()));
    writer.raw(std::as_bytes(std::span(states))).raw(values);
    return std::move(writer).take();
}

std::optional<GetReply> GetReply::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    GetReply reply;
    reply.type = reader.number<ValueType>();
    reply.width = reader.number<uint32_t>();
    reply.why = reader.text(GetLimits::kWhyBytesMax);
    const auto count = reader.number<uint32_t>();
    const size_t row_bytes = reply.row_bytes();
    const bool fits = reader.ok() && is_valid(reply.type) && count > 0 &&
                      count <= GetLimits::kKeysMax && row_bytes > 0 &&
                      row_bytes <= GetLimits::kRowBytesMax;
    if (!fits) return std::nullopt;
    for (uint32_t i = 0; i < count; ++i)
        reply.states.push_back(reader.number<KeyState>());
    const std::span<const std::byte> values = reader.rest();
    const bool is_whole = reader.ok() && values.size() == count * row_bytes;
    if (!is_whole || std::ranges::max(reply.states) > KeyState::kUnknown) return std::nullopt;
    reply.values.assign(values.begin(), values.end());
    return reply;
}

}  // namespace weir
