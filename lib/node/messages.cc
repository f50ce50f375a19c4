// SPDX-License-Identifier: Apache-2.0
#include "lib/node/messages.h"

#include <array>

#include "lib/base/byte_codec.h"

namespace weir {
namespace {

constexpr size_t kAddressBytesMax = 512;

/// `message` if `reader` has read all of it and no byte is left over.
template <class Message>
std::optional<Message> whole(const ByteReader& reader, Message message) {
    if (!reader.done()) return std::nullopt;
    return message;
}

/// All fields of a StatsMessage, in the order in which they are encoded.
std::array<uint64_t*, 10> fields(StatsMessage& m) {
    return {&m.pushes,           &m.pulls,          &m.keys_pushed, &m.bytes_copied,
            &m.bytes_sent,       &m.bytes_received, &m.keys_held,   &m.lists_remembered,
            &m.registered_bytes, &m.used_bytes};
}

}  // namespace

std::vector<std::byte> JoinMessage::encode() const {
    ByteWriter writer;
    writer.number(role).number(rank).number(number).text(address).number(host);
    return std::move(writer).take();
}

std::optional<JoinMessage> JoinMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    JoinMessage message;
    message.role = reader.number<Role>();
    message.rank = reader.number<uint32_t>();
    message.number = reader.number<uint32_t>();
    message.address = reader.text(kAddressBytesMax);
    message.host = reader.number<uint64_t>();
    if (message.role != Role::kShard && message.role != Role::kWorker) return std::nullopt;
    return whole(reader, std::move(message));
}

std::vector<std::byte> HelloMessage::encode() const {
    ByteWriter writer;
    writer.number(table).number(time);
    return std::move(writer).take();
}

std::optional<HelloMessage> HelloMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    HelloMessage message;
    message.table = reader.number<uint32_t>();
    message.time = reader.number<uint64_t>();
    return whole(reader, message);
}

std::vector<std::byte> TableMessage::encode() const {
    ByteWriter writer;
    writer.number(table).text(name).text(schema);
    return std::move(writer).take();
}

std::optional<TableMessage> TableMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    TableMessage message;
    message.table = reader.number<uint32_t>();
    message.name = reader.text(kNameBytesMax);
    message.schema = reader.text(kSchemaBytesMax);
    return whole(reader, std::move(message));
}

std::vector<std::byte> LeaveMessage::encode() const {
    if (status == Errc::kOk) return {};
    ByteWriter writer;
    writer.number(status).text(std::string_view(why).substr(0, kWhyBytesMax));
    return std::move(writer).take();
}

std::optional<LeaveMessage> LeaveMessage::decode(std::span<const std::byte> body) {
    LeaveMessage message;
    if (body.empty()) return message;
    ByteReader reader(body);
    message.status = reader.number<Errc>();
    message.why = reader.text(kWhyBytesMax);
    if (message.status == Errc::kOk) return std::nullopt;
    return whole(reader, std::move(message));
}

std::vector<std::byte> StatsMessage::encode() const {
    StatsMessage copy = *this;
    ByteWriter writer;
    for (const uint64_t* const field : fields(copy))
        writer.number(*field);
    return std::move(writer).take();
}

std::optional<StatsMessage> StatsMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    StatsMessage message;
    for (uint64_t* const field : fields(message))
        *field = reader.number<uint64_t>();
    return whole(reader, message);
}

std::vector<std::byte> encode_text(std::string_view text) {
    ByteWriter writer;
    writer.text(text);
    return std::move(writer).take();
}

std::optional<std::string> decode_text(std::span<const std::byte> body) {
    ByteReader reader(body);
    std::string text = reader.text();
    return whole(reader, std::move(text));
}

}  // namespace weir
