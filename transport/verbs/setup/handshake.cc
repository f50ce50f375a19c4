// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/setup/handshake.h"

#include <algorithm>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"
#include "transport/credits.h"

namespace weir::transport::verbs {

namespace {

constexpr Protocol kProtocol{"the side channel of verbs", 0x42564557, 2};  // "WEVB"
static_assert(kClaimBytes <= Handshake::kPayloadBytesMax);

Error protocol_error(std::string text) {
    return {Errc::kProtocol, std::move(text)};
}

}  // namespace

ClaimBytes encode(const Claim& claim) noexcept {
    ByteWriter writer;
    writer.number(claim.queue_pair);
    writer.number(claim.packet_number);
    writer.number(claim.lid);
    writer.number(claim.mtu);
    writer.number(claim.link_layer);
    writer.raw(claim.gid);
    writer.number(claim.read_depth);
    writer.number(claim.window);
    writer.number(claim.message_bytes_max);
    writer.number(claim.cm_port);
    writer.raw(claim.cm_token);
    ClaimBytes out;
    WEIR_CHECK(writer.bytes().size() == out.size());
    std::copy(writer.bytes().begin(), writer.bytes().end(), out.begin());
    return out;
}

Result<Claim> decode_claim(std::span<const std::byte, kClaimBytes> bytes) {
    ByteReader reader(bytes);
    Claim claim;
    claim.queue_pair = reader.number<uint32_t>();
    claim.packet_number = reader.number<uint32_t>();
    claim.lid = reader.number<uint16_t>();
    claim.mtu = reader.number<uint8_t>();
    claim.link_layer = reader.number<uint8_t>();
    claim.gid = reader.array<16>();
    claim.read_depth = reader.number<uint32_t>();
    claim.window = reader.number<uint32_t>();
    claim.message_bytes_max = reader.number<uint32_t>();
    claim.cm_port = reader.number<uint16_t>();
    claim.cm_token = reader.array<16>();
    constexpr uint32_t kMost = 0xffffff;
    if (claim.queue_pair > kMost || claim.packet_number > kMost) {
        return protocol_error(
            fmt::format("its claim has a queue pair number {:#x} or packet number {:#x} of "
                        "more than 24 bits",
                        claim.queue_pair, claim.packet_number));
    }
    if (claim.mtu < 1 || claim.mtu > 5) {
        return protocol_error(fmt::format("its claim has an MTU code of {}, not 1..5", claim.mtu));
    }
    if (claim.link_layer != 1 && claim.link_layer != 2) {
        return protocol_error(
            fmt::format("its claim has a link layer of {}, not 1 or 2", claim.link_layer));
    }
    if (claim.window < Credits::kWindowMin || claim.window > 0xffff) {
        return protocol_error(fmt::format(
            "its claim has a window of {} messages, which is not possible", claim.window));
    }
    return claim;
}

ClaimHandshake::ClaimHandshake(Side side, const Secret& secret, const Nonce& nonce)
    : records_(kProtocol, Handshake::kBodyBytesMax), handshake_(kProtocol, side, secret, nonce) {}

void ClaimHandshake::append(std::span<const std::byte> bytes) {
    WEIR_CHECK(bytes.size() <= room());
    records_.append(bytes);
}

Result<ClaimHandshake::Step> ClaimHandshake::next() {
    while (!owner_must_answer_ && !bye_received_) {
        WEIR_ASSIGN(const std::optional<RecordView> record, records_.next());
        if (!record) break;
        WEIR_ASSIGN(const Step step, take(*record));
        if (step != Step::kWait) return step;
    }
    return Step::kWait;
}

Result<ClaimHandshake::Step> ClaimHandshake::take(const RecordView& record) {
    if (record.type == kBye && handshake_.is_open() && record.body.size() == sizeof(uint64_t)) {
        peer_messages_ = ByteReader(record.body).number<uint64_t>();
        bye_received_ = true;
        return Step::kBye;
    }
    WEIR_ASSIGN(const Handshake::Step step, handshake_.take(record));
    switch (step) {
        case Handshake::Step::kWait: break;
        case Handshake::Step::kSendPayload: owner_must_answer_ = true; return Step::kMakeClaim;
        case Handshake::Step::kOpen: return Step::kOpen;
        case Handshake::Step::kProven: {
            const std::span<const std::byte> payload = handshake_.peer_payload();
            if (payload.size() != kClaimBytes) {
                return protocol_error(
                    fmt::format("its claim has {} bytes, which no claim has", payload.size()));
            }
            WEIR_ASSIGN(peer_, decode_claim(payload.first<kClaimBytes>()));
            owner_must_answer_ = true;
            return Step::kProven;
        }
    }
    return Step::kWait;
}

void ClaimHandshake::claim(const Claim& own) {
    handshake_.send_payload(encode(own));
    owner_must_answer_ = false;
}

void ClaimHandshake::ready() {
    handshake_.ready();
    owner_must_answer_ = false;
}

void ClaimHandshake::bye(uint64_t messages_sent) {
    handshake_.put(kBye, ByteWriter().number(messages_sent).bytes());
}

}  // namespace weir::transport::verbs
