// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_message.h"

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"
#include "lib/bootstrap/bootstrap.h"

namespace weir::boot {
namespace {

static_assert(kRendezvousTextBytesMax >= Bootstrap::kValueBytesMax);
static_assert(kRendezvousBodyBytesMax >=
              4 + 4 + Bootstrap::kKeyBytesMax + 4 + kRendezvousTextBytesMax);
static_assert(transport::Handshake::kPayloadBytesMax >= 1 + 4 + 4 + 1);
static_assert(kRendezvousBodyBytesMax >=
              4 + kRendezvousTextBytesMax + 1 + sizeof(transport::Secret));

std::vector<std::byte> encode_body(const RendezvousMessage& m) {
    ByteWriter body;
    switch (m.kind) {
        case RendezvousKind::kEntry: body.number(m.rank).text(m.key).text(m.text); break;
        case RendezvousKind::kCommit:
        case RendezvousKind::kRelease: body.number(m.round); break;
        case RendezvousKind::kWaiting:
        case RendezvousKind::kFailed:
            body.text(std::string_view(m.text).substr(0, kRendezvousTextBytesMax));
            break;
        case RendezvousKind::kContact:
            body.text(m.text).number(static_cast<uint8_t>(m.secret.has_value()));
            if (m.secret) body.raw(*m.secret);
            break;
    }
    return std::move(body).take();
}

/// Decodes the body of `m.kind`; false if fields are missing or bytes are left over.
bool decode_body(std::span<const std::byte> body, RendezvousMessage& m) {
    ByteReader reader(body);
    switch (m.kind) {
        case RendezvousKind::kEntry:
            m.rank = reader.number<uint32_t>();
            m.key = reader.text(Bootstrap::kKeyBytesMax);
            m.text = reader.text(Bootstrap::kValueBytesMax);
            break;
        case RendezvousKind::kCommit:
        case RendezvousKind::kRelease: m.round = reader.number<uint32_t>(); break;
        case RendezvousKind::kWaiting:
        case RendezvousKind::kFailed: m.text = reader.text(kRendezvousTextBytesMax); break;
        case RendezvousKind::kContact: {
            m.text = reader.text(kRendezvousTextBytesMax);
            const auto has_secret = reader.number<uint8_t>();
            if (has_secret > 1) return false;
            if (has_secret == 1) m.secret = reader.array<sizeof(transport::Secret)>();
            break;
        }
        default: return false;
    }
    return reader.done();
}

}  // namespace

std::vector<std::byte> RendezvousHello::encode() const {
    ByteWriter writer;
    writer.number(static_cast<uint8_t>(role))
        .number(rank)
        .number(size)
        .number(static_cast<uint8_t>(secured));
    return std::move(writer).take();
}

std::optional<RendezvousHello> RendezvousHello::decode(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    RendezvousHello hello;
    hello.role = static_cast<Role>(reader.number<uint8_t>());
    hello.rank = reader.number<uint32_t>();
    hello.size = reader.number<uint32_t>();
    const auto secured = reader.number<uint8_t>();
    hello.secured = secured == 1;
    const bool has_role = hello.role == Role::kRank || hello.role == Role::kNewcomer;
    if (!reader.done() || secured > 1 || !has_role) return std::nullopt;
    return hello;
}

std::vector<std::byte> encode(const RendezvousMessage& message) {
    const std::vector<std::byte> body = encode_body(message);
    WEIR_CHECK(body.size() <= kRendezvousBodyBytesMax);
    std::vector<std::byte> record;
    transport::append_record(record, kRendezvousProtocol, static_cast<uint8_t>(message.kind), body);
    return record;
}

Result<RendezvousMessage> decode_message(const transport::RecordView& record) {
    RendezvousMessage message;
    message.kind = static_cast<RendezvousKind>(record.type);
    if (!decode_body(record.body, message)) {
        return Error(Errc::kProtocol, "a rendezvous message with a wrong body");
    }
    return message;
}

}  // namespace weir::boot
