// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/messages.h"

#include <array>

#include "lib/base/byte_codec.h"
#include "lib/wire/filter_traffic_codec.h"

namespace weir {
namespace {

constexpr size_t kAddressBytesMax = 512;

/// `message` if `reader` has read all of it and no byte is left over.
template <class Message>
std::optional<Message> whole(const ByteReader& reader, Message message) {
    if (!reader.done()) return std::nullopt;
    return message;
}

/// All numbers of a StatsMessage, in the order in which they are encoded.
std::array<uint64_t*, 11> fields(StatsMessage& m) {
    return {&m.pushes,           &m.pulls,          &m.keys_pushed, &m.bytes_copied,
            &m.bytes_sent,       &m.bytes_received, &m.keys_held,   &m.lists_remembered,
            &m.registered_bytes, &m.used_bytes,     &m.table_bytes};
}

}  // namespace

std::vector<std::byte> JoinMessage::encode() const {
    ByteWriter writer;
    writer.number(role).number(rank).number(number).text(address).number(host);
    writer.number(joiner).number(shard_count).number(weight).number(pool_bytes);
    writer.number(static_cast<uint8_t>(has_iterations)).number(pass).text(host_name).text(plugins);
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
    message.joiner = reader.number<uint64_t>();
    message.shard_count = reader.number<uint32_t>();
    message.weight = reader.number<uint32_t>();
    message.pool_bytes = reader.number<uint64_t>();
    const auto has_iterations = reader.number<uint8_t>();
    message.has_iterations = has_iterations == 1;
    message.pass = reader.number<uint64_t>();
    message.host_name = reader.text(kHostNameBytesMax);
    message.plugins = reader.text(kPluginsBytesMax);
    if (message.role < Role::kShard || message.role > Role::kOperator) return std::nullopt;
    if (has_iterations > 1) return std::nullopt;
    return whole(reader, std::move(message));
}

std::vector<std::byte> LinkMessage::encode() const {
    ByteWriter writer;
    writer.number(link).number(process).number(static_cast<uint8_t>(is_known));
    return std::move(writer).take();
}

std::optional<LinkMessage> LinkMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    LinkMessage message;
    message.link = reader.number<uint64_t>();
    message.process = reader.number<uint64_t>();
    const auto is_known = reader.number<uint8_t>();
    message.is_known = is_known == 1;
    if (message.link == 0 || is_known > 1) return std::nullopt;
    return whole(reader, message);
}

std::vector<std::byte> AdmitMessage::encode() const {
    ByteWriter writer;
    writer.number(number).number(rank);
    return std::move(writer).take();
}

std::optional<AdmitMessage> AdmitMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    AdmitMessage message;
    message.number = reader.number<uint32_t>();
    message.rank = reader.number<uint32_t>();
    return whole(reader, message);
}

std::vector<std::byte> HelloMessage::encode() const {
    ByteWriter writer;
    writer.number(pass);
    return std::move(writer).take();
}

std::optional<HelloMessage> HelloMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    HelloMessage message;
    message.pass = reader.number<uint64_t>();
    return whole(reader, message);
}

std::vector<std::byte> FarTimeMessage::encode() const {
    ByteWriter writer;
    writer.number(table).number(time);
    return std::move(writer).take();
}

std::optional<FarTimeMessage> FarTimeMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    FarTimeMessage message;
    message.table = reader.number<uint32_t>();
    message.time = reader.number<uint64_t>();
    return whole(reader, message);
}

std::vector<std::byte> PassesMessage::encode() const {
    ByteWriter writer;
    for (const Pass& one : passes)
        writer.number(static_cast<uint8_t>(one.is_shard)).number(one.number).number(one.pass);
    return std::move(writer).take();
}

std::optional<PassesMessage> PassesMessage::decode(std::span<const std::byte> body) {
    PassesMessage message;
    message.passes.resize(body.size() / kPassBytes);
    ByteReader reader(body);
    for (Pass& one : message.passes) {
        const auto is_shard = reader.number<uint8_t>();
        if (is_shard > 1) return std::nullopt;
        one.is_shard = is_shard == 1;
        one.number = reader.number<uint32_t>();
        one.pass = reader.number<uint64_t>();
    }
    return whole(reader, std::move(message));
}

std::vector<std::byte> TableMessage::encode() const {
    ByteWriter writer;
    writer.number(table).text(name).text(schema).number(closed).number(checkpoint);
    return std::move(writer).take();
}

std::optional<TableMessage> TableMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    TableMessage message;
    message.table = reader.number<uint32_t>();
    message.name = reader.text(kNameBytesMax);
    message.schema = reader.text(kSchemaBytesMax);
    message.closed = reader.number<uint64_t>();
    message.checkpoint = reader.number<uint64_t>();
    return whole(reader, std::move(message));
}

std::vector<std::byte> LeaveMessage::encode() const {
    if (status == Errc::kOk && withdrawn.empty()) return {};
    ByteWriter writer;
    writer.number(status).text(std::string_view(why).substr(0, kWhyBytesMax));
    writer.number(static_cast<uint32_t>(withdrawn.size()));
    for (const Withdrawn& one : withdrawn)
        writer.number(one.table).number(one.first_iteration).number(one.last_iteration);
    return std::move(writer).take();
}

std::optional<LeaveMessage> LeaveMessage::decode(std::span<const std::byte> body) {
    LeaveMessage message;
    if (body.empty()) return message;
    ByteReader reader(body);
    message.status = reader.number<Errc>();
    message.why = reader.text(kWhyBytesMax);
    const auto count = reader.number<uint32_t>();
    if (count > kWithdrawnMax) return std::nullopt;
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
        Withdrawn one;
        one.table = reader.number<uint32_t>();
        one.first_iteration = reader.number<uint64_t>();
        one.last_iteration = reader.number<uint64_t>();
        const bool is_in_order = i == 0 || message.withdrawn.back().table < one.table;
        const bool is_range = one.first_iteration != 0 &&
                              one.last_iteration >= one.first_iteration &&
                              one.last_iteration - one.first_iteration < kIterationsMax;
        if (!is_in_order || !is_range) return std::nullopt;
        message.withdrawn.push_back(one);
    }
    const bool says_nothing = message.withdrawn.empty() || !message.why.empty();
    if (message.status == Errc::kOk && says_nothing) return std::nullopt;
    return whole(reader, std::move(message));
}

std::vector<std::byte> StatsMessage::encode() const {
    StatsMessage copy = *this;
    ByteWriter writer;
    for (const uint64_t* const field : fields(copy))
        writer.number(*field);
    write(writer, filters);
    writer.number(static_cast<uint32_t>(open.size()));
    for (const OpenIteration& one : open) {
        writer.number(one.table).number(one.iteration).number(one.late_count);
        writer.number(static_cast<uint32_t>(one.late.size()));
        for (const uint32_t worker : one.late)
            writer.number(worker);
    }
    return std::move(writer).take();
}

std::optional<StatsMessage> StatsMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    StatsMessage message;
    for (uint64_t* const field : fields(message))
        *field = reader.number<uint64_t>();
    read(reader, message.filters);
    const auto open_count = reader.number<uint32_t>();
    if (open_count > kOpenMax) return std::nullopt;
    message.open.resize(open_count);
    for (OpenIteration& one : message.open) {
        one.table = reader.number<uint32_t>();
        one.iteration = reader.number<uint64_t>();
        one.late_count = reader.number<uint32_t>();
        const auto named_count = reader.number<uint32_t>();
        const bool fits = named_count <= one.late_count && named_count <= OpenIteration::kLateMax;
        if (!fits) return std::nullopt;
        one.late.resize(named_count);
        for (uint32_t& worker : one.late)
            worker = reader.number<uint32_t>();
    }
    return whole(reader, std::move(message));
}

std::vector<std::byte> CompleteMessage::encode() const {
    ByteWriter writer;
    writer.number(first).number(shard).number(named);
    return std::move(writer).take();
}

std::optional<CompleteMessage> CompleteMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    CompleteMessage message;
    message.first = reader.number<uint64_t>();
    message.shard = reader.number<uint32_t>();
    message.named = reader.number<uint64_t>();
    return whole(reader, message);
}

std::vector<std::byte> AskFirstIterationMessage::encode() const {
    ByteWriter writer;
    writer.number(epoch).number(static_cast<uint32_t>(tables.size()));
    for (const uint32_t table : tables)
        writer.number(table);
    return std::move(writer).take();
}

std::optional<AskFirstIterationMessage> AskFirstIterationMessage::decode(
    std::span<const std::byte> body) {
    ByteReader reader(body);
    AskFirstIterationMessage message;
    message.epoch = reader.number<uint64_t>();
    const uint32_t count = reader.number<uint32_t>();
    if (count > kTablesMax) return std::nullopt;
    message.tables.resize(count);
    for (uint32_t& table : message.tables)
        table = reader.number<uint32_t>();
    return whole(reader, std::move(message));
}

std::vector<std::byte> FirstIterationMessage::encode() const {
    ByteWriter writer;
    writer.number(epoch).number(table).number(first);
    return std::move(writer).take();
}

std::optional<FirstIterationMessage> FirstIterationMessage::decode(
    std::span<const std::byte> body) {
    ByteReader reader(body);
    FirstIterationMessage message;
    message.epoch = reader.number<uint64_t>();
    message.table = reader.number<uint32_t>();
    message.first = reader.number<uint64_t>();
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
