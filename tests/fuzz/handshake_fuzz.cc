// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes that an unknown peer sends into a handshake are refused, or the handshake
/// waits for more. There is no crash, no read out of bounds and no proof without the secret. The
/// bytes are also decoded as the hello and the messages of a rendezvous, and as fields of bodies.
/// Layout of an input: a byte that chooses the side, then the peer's bytes in pieces; the byte
/// before each piece gives its length.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"
#include "lib/base/host_port.h"
#include "lib/bootstrap/rendezvous/rendezvous_message.h"
#include "transport/net/handshake.h"

namespace {

using namespace weir;
using namespace weir::transport;
using Step = Handshake::Step;

constexpr Secret kSecret{std::byte{1}};
constexpr Protocol kProtocol{"a test", 0x44434241, 1};

void feed(Handshake& side, std::span<const std::byte> bytes) {
    RecordReader records(kProtocol, Handshake::kBodyBytesMax);
    while (!bytes.empty()) {
        const size_t wanted = std::to_integer<size_t>(bytes[0]) + 1;
        bytes = bytes.subspan(1);
        const size_t count = std::min(wanted, bytes.size());
        records.append(bytes.first(count));
        bytes = bytes.subspan(count);
        for (;;) {
            const auto record = records.next();
            if (!record) return;
            if (!record->has_value()) break;
            const auto step = side.take(**record);
            if (!step) {
                side.refuse(step.code(), step.error().text());
                return;
            }
            WEIR_CHECK(*step == Step::kWait || *step == Step::kSendPayload);
            if (*step == Step::kSendPayload) side.send_payload({});
        }
        WEIR_CHECK(records.bytes_left() <= kRecordHeaderBytes + Handshake::kBodyBytesMax);
    }
}

/// The bytes choose the kinds of the fields. Reads these fields, writes them and compares.
void read_fields(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    ByteWriter again;
    while (reader.ok() && !reader.done()) {
        const auto kind = reader.number<uint8_t>();
        ByteWriter field;
        field.number(kind);
        switch (kind % 4) {
            case 0: field.number(reader.number<uint64_t>()); break;
            case 1: field.number(reader.number<uint16_t>()); break;
            case 2: field.text(reader.text(100)); break;
            default: field.raw(reader.array<5>()); break;
        }
        if (reader.ok()) again.raw(field.bytes());
    }
    WEIR_CHECK(again.bytes().size() <= bytes.size());
    WEIR_CHECK(std::equal(again.bytes().begin(), again.bytes().end(), bytes.begin()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
    switch (data[0] % 6) {
        case 0: {
            Handshake side(kProtocol, Side::kAccepting, kSecret, {std::byte{3}});
            feed(side, bytes);
            break;
        }
        case 1: {
            Handshake side(kProtocol, Side::kConnecting, kSecret, {std::byte{2}});
            feed(side, bytes);
            break;
        }
        case 2: read_fields(bytes); break;
        case 3: {
            const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            const auto parsed = HostPort::parse(text);
            if (!parsed) break;
            const auto again = HostPort::parse(parsed->text());
            WEIR_CHECK(again && again->host == parsed->host && again->port == parsed->port);
            break;
        }
        case 4: {
            if (bytes.empty()) break;
            const auto message = boot::decode_message(
                {.type = std::to_integer<uint8_t>(bytes[0]), .body = bytes.subspan(1)});
            if (!message) break;
            const std::vector<std::byte> again = boot::encode(*message);
            WEIR_CHECK(std::equal(again.begin() + kRecordHeaderBytes, again.end(),
                                  bytes.begin() + 1, bytes.end()));
            break;
        }
        default: {
            const auto hello = boot::RendezvousHello::decode(bytes);
            if (!hello) break;
            const auto again = hello->encode();
            WEIR_CHECK(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
        }
    }
    return 0;
}
