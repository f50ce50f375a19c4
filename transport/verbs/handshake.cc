// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/handshake.h"

#include <algorithm>
#include <concepts>
#include <cstring>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "transport/credits.h"

namespace weir::transport::verbs {

namespace {

constexpr uint32_t kMagic = 0x42564557;  // "WEVB"
constexpr uint8_t kVersion = 1;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kTextBytesMax = 256;

class Writer {
public:
    explicit Writer(std::span<std::byte> out) : out_(out) {}

    template <std::unsigned_integral T>
    void number(T value) noexcept {
        for (size_t i = 0; i < sizeof(T); ++i) {
            out_[at_++] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
        }
    }

    void bytes(std::span<const std::byte> from) noexcept {
        std::copy(from.begin(), from.end(), out_.begin() + static_cast<ptrdiff_t>(at_));
        at_ += from.size();
    }

private:
    std::span<std::byte> out_;
    size_t at_ = 0;
};

/// Reads from bytes that are known to be long enough.
class Reader {
public:
    explicit Reader(std::span<const std::byte> in) : in_(in) {}

    template <std::unsigned_integral T>
    T number() noexcept {
        uint64_t value = 0;
        for (size_t i = 0; i < sizeof(T); ++i) {
            value |= std::to_integer<uint64_t>(in_[at_++]) << (8 * i);
        }
        return static_cast<T>(value);
    }

    template <size_t N>
    std::array<std::byte, N> bytes() noexcept {
        std::array<std::byte, N> out;
        std::memcpy(out.data(), in_.data() + at_, N);
        at_ += N;
        return out;
    }

private:
    std::span<const std::byte> in_;
    size_t at_ = 0;
};

Error protocol_error(std::string text) {
    return {Errc::kProtocol, std::move(text)};
}

/// What a peer says goes into our log: printable characters only.
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

ClaimBytes encode(const Claim& claim) noexcept {
    ClaimBytes out;
    Writer writer(out);
    writer.number(claim.queue_pair);
    writer.number(claim.packet_number);
    writer.number(claim.lid);
    writer.number(claim.mtu);
    writer.number(claim.link_layer);
    writer.bytes(claim.gid);
    writer.number(claim.read_depth);
    writer.number(claim.window);
    writer.number(claim.message_bytes_max);
    writer.number(claim.cm_port);
    writer.bytes(claim.cm_token);
    return out;
}

Result<Claim> decode_claim(std::span<const std::byte, kClaimBytes> bytes) {
    Reader reader(bytes);
    Claim claim;
    claim.queue_pair = reader.number<uint32_t>();
    claim.packet_number = reader.number<uint32_t>();
    claim.lid = reader.number<uint16_t>();
    claim.mtu = reader.number<uint8_t>();
    claim.link_layer = reader.number<uint8_t>();
    claim.gid = reader.bytes<16>();
    claim.read_depth = reader.number<uint32_t>();
    claim.window = reader.number<uint32_t>();
    claim.message_bytes_max = reader.number<uint32_t>();
    claim.cm_port = reader.number<uint16_t>();
    claim.cm_token = reader.bytes<16>();
    constexpr uint32_t kMost = 0xffffff;
    if (claim.queue_pair > kMost || claim.packet_number > kMost) {
        return protocol_error(
            fmt::format("a queue pair number {:#x} or packet number {:#x} of "
                        "more than 24 bits",
                        claim.queue_pair, claim.packet_number));
    }
    if (claim.mtu < 1 || claim.mtu > 5) {
        return protocol_error(fmt::format("an MTU code of {}, not 1..5", claim.mtu));
    }
    if (claim.link_layer != 1 && claim.link_layer != 2) {
        return protocol_error(fmt::format("a link layer of {}, not 1 or 2", claim.link_layer));
    }
    if (claim.window < Credits::kWindowMin || claim.window > 0xffff) {
        return protocol_error(fmt::format("a window of {} messages", claim.window));
    }
    return claim;
}

Handshake::Handshake(Side side, const Secret& secret, const Nonce& nonce)
    : side_(side), secret_(secret), own_nonce_(nonce) {
    if (side == Side::kConnecting) put(Type::kHello, own_nonce_);
}

void Handshake::append(std::span<const std::byte> bytes) {
    WEIR_CHECK(bytes.size() <= room());
    input_.insert(input_.end(), bytes.begin(), bytes.end());
}

Result<Handshake::Step> Handshake::next() {
    for (;;) {
        if (state_ == State::kOweClaim || state_ == State::kOweAnswer) return Step::kWait;
        if (state_ == State::kGone || input_.size() < kHeaderBytes) return Step::kWait;
        Reader header(input_);
        const auto magic = header.number<uint32_t>();
        const auto version = header.number<uint8_t>();
        const auto type = header.number<uint8_t>();
        const auto body_bytes = header.number<uint16_t>();
        if (magic != kMagic) return protocol_error("not a Weir endpoint: garbage");
        if (version != kVersion) {
            return protocol_error(
                fmt::format("version {} of the protocol, not {}", version, kVersion));
        }
        if (body_bytes > kInputBytesMax - kHeaderBytes) {
            return protocol_error(fmt::format("a record of {} bytes", body_bytes));
        }
        if (input_.size() < kHeaderBytes + body_bytes) return Step::kWait;
        const auto body = std::span(input_).subspan(kHeaderBytes, body_bytes);
        Result<Step> step = take(static_cast<Type>(type), body);
        input_.erase(input_.begin(),
                     input_.begin() + static_cast<ptrdiff_t>(kHeaderBytes + body_bytes));
        if (!step || *step != Step::kWait) return step;
    }
}

Result<Handshake::Step> Handshake::take(Type type, std::span<const std::byte> body) {
    if (type == Type::kRefuse && body.size() >= 2 && body.size() <= 2 + kTextBytesMax &&
        state_ != State::kOpen) {
        return Error(refusal_code(Reader(body).number<uint16_t>()),
                     "it refuses: " + printable(body.subspan(2)));
    }
    if (type == Type::kHello && state_ == State::kHello && body.size() == sizeof(Nonce)) {
        peer_nonce_ = Reader(body).bytes<sizeof(Nonce)>();
        if (side_ == Side::kConnecting) {
            state_ = State::kOweClaim;
            return Step::kMakeClaim;
        }
        put(Type::kHello, own_nonce_);
        state_ = State::kClaim;
        return Step::kWait;
    }
    if (type == Type::kClaim && state_ == State::kClaim &&
        body.size() == kClaimBytes + sizeof(Proof)) {
        return take_claim(body);
    }
    if (type == Type::kReady && state_ == State::kReady && body.empty()) {
        state_ = State::kOpen;
        return Step::kOpen;
    }
    if (type == Type::kBye && state_ == State::kOpen && body.size() == 8) {
        peer_messages_ = Reader(body).number<uint64_t>();
        state_ = State::kGone;
        return Step::kBye;
    }
    return protocol_error(fmt::format("a record of type {} with {} bytes where none such belongs",
                                      static_cast<unsigned>(type), body.size()));
}

Result<Handshake::Step> Handshake::take_claim(std::span<const std::byte> body) {
    const auto said = body.first<kClaimBytes>();
    const Proof proof = Reader(body.subspan(kClaimBytes)).bytes<sizeof(Proof)>();
    const bool we_connect = side_ == Side::kConnecting;
    const Proof wanted = make_proof(secret_, we_connect ? Side::kAccepting : Side::kConnecting,
                                    we_connect ? own_nonce_ : peer_nonce_,
                                    we_connect ? peer_nonce_ : own_nonce_, said);
    if (!equal(proof, wanted)) {
        return Error(Errc::kRefused, "it does not know the secret of this job");
    }
    WEIR_ASSIGN(peer_, decode_claim(said));
    state_ = State::kOweAnswer;
    return Step::kProven;
}

void Handshake::claim(const Claim& own) {
    const bool we_connect = side_ == Side::kConnecting;
    WEIR_CHECK(state_ == (we_connect ? State::kOweClaim : State::kOweAnswer));
    std::array<std::byte, kClaimBytes + sizeof(Proof)> body;
    const ClaimBytes said = encode(own);
    const Proof proof = make_proof(secret_, side_, we_connect ? own_nonce_ : peer_nonce_,
                                   we_connect ? peer_nonce_ : own_nonce_, said);
    Writer writer(body);
    writer.bytes(said);
    writer.bytes(proof);
    put(Type::kClaim, body);
    state_ = we_connect ? State::kClaim : State::kReady;
}

void Handshake::ready() {
    WEIR_CHECK(side_ == Side::kConnecting && state_ == State::kOweAnswer);
    put(Type::kReady, {});
    state_ = State::kOpen;
}

void Handshake::refuse(Errc code, std::string_view text) {
    std::vector<std::byte> body(2 + std::min(text.size(), kTextBytesMax));
    Writer writer(body);
    writer.number(static_cast<uint16_t>(code));
    writer.bytes(std::as_bytes(std::span(text)).first(body.size() - 2));
    put(Type::kRefuse, body);
}

void Handshake::bye(uint64_t messages_sent) {
    std::array<std::byte, 8> body;
    Writer(body).number(messages_sent);
    put(Type::kBye, body);
}

void Handshake::put(Type type, std::span<const std::byte> body) {
    std::array<std::byte, kHeaderBytes> header;
    Writer writer(header);
    writer.number(kMagic);
    writer.number(kVersion);
    writer.number(static_cast<uint8_t>(type));
    writer.number(static_cast<uint16_t>(body.size()));
    output_.insert(output_.end(), header.begin(), header.end());
    output_.insert(output_.end(), body.begin(), body.end());
}

}  // namespace weir::transport::verbs
