// SPDX-License-Identifier: Apache-2.0
#include "transport/net/handshake.h"

#include <string>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"

namespace weir::transport {

namespace {

/// Text of a peer goes into our log, so only printable characters are kept.
std::string printable(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
        const char c = static_cast<char>(byte);
        text.push_back(c >= ' ' && c <= '~' ? c : '?');
    }
    return text;
}

Errc refusal_code(uint16_t number) {
    switch (static_cast<Errc>(number)) {
        case Errc::kBusy: return Errc::kBusy;
        case Errc::kDeadline: return Errc::kDeadline;
        case Errc::kNoMemory: return Errc::kNoMemory;
        case Errc::kInvalidArgument: return Errc::kInvalidArgument;
        case Errc::kUnavailable: return Errc::kUnavailable;
        default: return Errc::kRefused;
    }
}

}  // namespace

Handshake::Handshake(const Protocol& protocol, Side side, const Secret& secret, const Nonce& nonce)
    : protocol_(protocol), side_(side), secret_(secret), own_nonce_(nonce) {
    if (side == Side::kConnecting) put(Type::kHello, own_nonce_);
}

std::optional<Errc> Handshake::refusal_of(const RecordView& record) {
    if (static_cast<Type>(record.type) != Type::kRefuse || record.body.size() < sizeof(uint16_t) ||
        record.body.size() > sizeof(uint16_t) + kTextBytesMax) {
        return std::nullopt;
    }
    return refusal_code(ByteReader(record.body).number<uint16_t>());
}

Result<Handshake::Step> Handshake::take(const RecordView& record) {
    const auto type = static_cast<Type>(record.type);
    const std::span<const std::byte> body = record.body;
    if (const auto refusal = refusal_of(record); refusal && state_ != State::kOpen) {
        refused_ = true;
        return Error(*refusal,
                     "it refuses the connection: " + printable(body.subspan(sizeof(uint16_t))));
    }
    if (type == Type::kHello && state_ == State::kHello && body.size() == sizeof(Nonce)) {
        peer_nonce_ = ByteReader(body).array<sizeof(Nonce)>();
        if (side_ == Side::kConnecting) {
            state_ = State::kMustSend;
            return Step::kSendPayload;
        }
        put(Type::kHello, own_nonce_);
        state_ = State::kAwaitPayload;
        return Step::kWait;
    }
    if (type == Type::kPayload && state_ == State::kAwaitPayload && body.size() >= sizeof(Proof)) {
        return take_payload(body);
    }
    if (type == Type::kReady && state_ == State::kReady && body.empty()) {
        state_ = State::kOpen;
        return Step::kOpen;
    }
    return Error(
        Errc::kProtocol,
        fmt::format(
            "it sent a record of type {} with {} bytes, which does not belong in this state",
            record.type, body.size()));
}

Result<Handshake::Step> Handshake::take_payload(std::span<const std::byte> body) {
    const std::span<const std::byte> payload = body.first(body.size() - sizeof(Proof));
    peer_payload_.assign(payload.begin(), payload.end());
    const Proof proof = ByteReader(body.last(sizeof(Proof))).array<sizeof(Proof)>();
    const bool we_connect = side_ == Side::kConnecting;
    if (!equal(proof, proof_of(we_connect ? Side::kAccepting : Side::kConnecting))) {
        return Error(Errc::kRefused,
                     "it does not know the secret of this job: it belongs to another job, or was "
                     "started with another "
                     "WEIR_SECRET_FILE");
    }
    state_ = State::kMustReply;
    return Step::kProven;
}

void Handshake::send_payload(std::span<const std::byte> payload) {
    const bool we_connect = side_ == Side::kConnecting;
    WEIR_CHECK(state_ == (we_connect ? State::kMustSend : State::kMustReply));
    WEIR_CHECK(payload.size() <= kPayloadBytesMax);
    own_payload_.assign(payload.begin(), payload.end());
    ByteWriter body;
    body.raw(payload).raw(proof_of(side_));
    put(Type::kPayload, body.bytes());
    state_ = we_connect ? State::kAwaitPayload : State::kReady;
}

/// The accepting side has the payloads of both sides when it makes its proof, so its proof covers
/// both.
Proof Handshake::proof_of(Side prover) const {
    const bool we_connect = side_ == Side::kConnecting;
    const auto text = [](const std::vector<std::byte>& payload) {
        return std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size());
    };
    ByteWriter all;
    all.text(protocol_.name).number(protocol_.version);
    all.text(text(we_connect ? own_payload_ : peer_payload_));
    if (prover == Side::kAccepting) all.text(text(we_connect ? peer_payload_ : own_payload_));
    return make_proof(secret_, prover, we_connect ? own_nonce_ : peer_nonce_,
                      we_connect ? peer_nonce_ : own_nonce_, all.bytes());
}

void Handshake::ready() {
    WEIR_CHECK(side_ == Side::kConnecting && state_ == State::kMustReply);
    put(Type::kReady, {});
    state_ = State::kOpen;
}

void Handshake::refuse(Errc code, std::string_view text) {
    ByteWriter body;
    body.number(static_cast<uint16_t>(code));
    body.raw(std::as_bytes(std::span(text.substr(0, kTextBytesMax))));
    put(Type::kRefuse, body.bytes());
}

void Handshake::put(uint8_t type, std::span<const std::byte> body) {
    append_record(output_, protocol_, type, body);
}

}  // namespace weir::transport
