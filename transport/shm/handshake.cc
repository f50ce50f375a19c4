// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/handshake.h"

#include <array>
#include <cstring>
#include <type_traits>

#include <fmt/core.h>

#include "transport/shm/regions.h"

namespace weir::transport::shm {

namespace {

constexpr uint64_t kHelloMagic = 0x326f'6c6c'6568'7377ULL;      // "wshello2"
constexpr uint64_t kChallengeMagic = 0x326c'6c61'6863'7377ULL;  // "wschall2"
constexpr uint64_t kJoinMagic = 0x3231'6e69'6f6a'7377ULL;       // "wsjoin12"
constexpr uint64_t kWelcomeMagic = 0x3265'6d6c'6577'7377ULL;    // "wswelme2"
constexpr uint64_t kLaterMagic = 0x3272'6574'616c'7377ULL;      // "wslater2"

struct Hello {
    uint64_t magic = kHelloMagic;
    Nonce nonce{};
};

struct Challenge {
    uint64_t magic = kChallengeMagic;
    Nonce nonce{};
    Terms terms;
    Proof proof{};
};

struct Join {
    uint64_t magic = kJoinMagic;
    Terms terms;
    uint64_t ring_bytes = 0;
    Proof proof{};
};

struct Welcome {
    uint64_t magic = kWelcomeMagic;
};

struct Later {
    uint64_t magic = kLaterMagic;
};

static_assert(sizeof(Hello) == 40 && sizeof(Challenge) == 88 && sizeof(Join) == 64);

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
    static_assert(std::has_unique_object_representations_v<T>);
    return std::as_bytes(std::span(&value, 1));
}

/// The packet as a T, if that is what it is.
template <class T>
Result<T> parse(const Packet& packet, size_t fds_expected, const char* name) {
    T value;
    const uint64_t magic = value.magic;
    if (packet.truncated || packet.length_bytes != sizeof(T) || packet.fds.size() != fds_expected) {
        return Error(
            Errc::kProtocol,
            fmt::format("expected {} of {} bytes with {} descriptors, got {} bytes with {}", name,
                        sizeof(T), fds_expected, packet.length_bytes, packet.fds.size()));
    }
    std::memcpy(&value, packet.buffer.data(), sizeof(T));
    if (value.magic != magic) {
        return Error(Errc::kProtocol, fmt::format("expected {}, got something else", name));
    }
    return value;
}

/// What a Join says, under its proof.
std::array<std::byte, sizeof(Terms) + sizeof(uint64_t)> said_in(const Join& join) {
    std::array<std::byte, sizeof(Terms) + sizeof(uint64_t)> said{};
    std::memcpy(said.data(), &join.terms, sizeof(Terms));
    std::memcpy(said.data() + sizeof(Terms), &join.ring_bytes, sizeof(uint64_t));
    return said;
}

Error wrong_secret() {
    return {Errc::kRefused, "the other side does not know this job's secret"};
}

EndpointOptions options_of(const Terms& terms) {
    return {terms.message_bytes_max, terms.messages_in_flight, 1};
}

}  // namespace

Handshake::Handshake(const Self& self, Side side)
    : self_(self),
      side_(side),
      waiting_(side == Side::kConnecting ? Waiting::kForChallenge : Waiting::kForHello) {
    (side == Side::kConnecting ? connecting_nonce_ : accepting_nonce_) = random_bytes();
}

Status Handshake::begin(int socket) {
    Hello hello;
    hello.nonce = connecting_nonce_;
    Status sent = send_packet(socket, bytes_of(hello), {});
    // If the other side has hung up, advance() reads why.
    return sent.code() == Errc::kPeerLost ? Status() : sent;
}

void Handshake::send_away(int socket) {
    static_cast<void>(send_packet(socket, bytes_of(Later{}), {}));
}

Result<Progress> Handshake::advance(int socket) {
    while (waiting_ != Waiting::kForNothing) {
        Packet packet;
        switch (receive_packet(socket, packet)) {
            case Receive::kNothing: return Progress::kWaiting;
            case Receive::kEnd:
                if (waiting_ == Waiting::kForWelcome) {
                    return Error(Errc::kRefused,
                                 "the other side ended the handshake; its log says why");
                }
                return Error(Errc::kPeerLost, "the other side left during the handshake");
            case Receive::kPacket:
                if (side_ == Side::kConnecting && parse<Later>(packet, 0, "").has_value()) {
                    return Progress::kLater;
                }
                WEIR_TRY(take(socket, packet));
                break;
        }
    }
    return Progress::kDone;
}

Status Handshake::take(int socket, Packet& packet) {
    switch (waiting_) {
        case Waiting::kForHello: return take_hello(socket, packet);
        case Waiting::kForChallenge: return take_challenge(socket, packet);
        case Waiting::kForJoin: return take_join(socket, packet);
        case Waiting::kForWelcome: return take_welcome(packet);
        case Waiting::kForNothing: break;
    }
    return {};
}

Status Handshake::take_hello(int socket, const Packet& packet) {
    WEIR_ASSIGN(const Hello hello, parse<Hello>(packet, 0, "a greeting"));
    connecting_nonce_ = hello.nonce;
    Challenge challenge;
    challenge.nonce = accepting_nonce_;
    challenge.terms = self_.terms;
    challenge.proof = make_proof(self_.secret, side_, connecting_nonce_, accepting_nonce_,
                                 bytes_of(challenge.terms));
    WEIR_TRY(send_packet(socket, bytes_of(challenge), {}));
    waiting_ = Waiting::kForJoin;
    return {};
}

Status Handshake::take_challenge(int socket, const Packet& packet) {
    WEIR_ASSIGN(const Challenge challenge, parse<Challenge>(packet, 0, "a challenge"));
    accepting_nonce_ = challenge.nonce;
    if (!equal(challenge.proof, make_proof(self_.secret, Side::kAccepting, connecting_nonce_,
                                           accepting_nonce_, bytes_of(challenge.terms)))) {
        return wrong_secret();
    }
    WEIR_TRY(agree_on(challenge.terms));
    WEIR_ASSIGN(SharedBlock block, make_shared(agreement_.shape.total_bytes(), Peers::kMayWrite,
                                               "the rings of a connection"));
    Join join;
    join.terms = self_.terms;
    join.ring_bytes = agreement_.shape.ring_bytes;
    join.proof =
        make_proof(self_.secret, side_, connecting_nonce_, accepting_nonce_, said_in(join));
    const std::array<int, 2> fds = {block.fd.get(), self_.live_page_fd};
    const Status sent = send_packet(socket, bytes_of(join), fds);
    // If the other side has hung up, its last word is the next packet.
    if (sent.code() == Errc::kPeerLost) return {};
    WEIR_TRY(sent);
    agreement_.memory = std::move(block.mapping);
    waiting_ = Waiting::kForWelcome;
    return {};
}

Status Handshake::take_join(int socket, const Packet& packet) {
    WEIR_ASSIGN(const Join join, parse<Join>(packet, 2, "a proof and memory"));
    if (!equal(join.proof, make_proof(self_.secret, Side::kConnecting, connecting_nonce_,
                                      accepting_nonce_, said_in(join)))) {
        return wrong_secret();
    }
    WEIR_TRY(agree_on(join.terms));
    if (join.ring_bytes != agreement_.shape.ring_bytes) {
        return Error(Errc::kProtocol, fmt::format("rings of {} bytes, where {} were agreed on",
                                                  join.ring_bytes, agreement_.shape.ring_bytes));
    }
    WEIR_ASSIGN(agreement_.memory,
                map_received({packet.fds[0].get(), 0, agreement_.shape.total_bytes(), true, true}));
    WEIR_ASSIGN(agreement_.live_page,
                map_received({packet.fds[1].get(), 0, kLivePageBytes, false, false}));
    const std::array<int, 1> fds = {self_.live_page_fd};
    WEIR_TRY(send_packet(socket, bytes_of(Welcome{}), fds));
    agreement_.channel = Channel(agreement_.memory.bytes(), agreement_.shape, side_);
    waiting_ = Waiting::kForNothing;
    return {};
}

Status Handshake::take_welcome(const Packet& packet) {
    WEIR_TRY(parse<Welcome>(packet, 1, "a welcome"));
    WEIR_ASSIGN(agreement_.live_page,
                map_received({packet.fds[0].get(), 0, kLivePageBytes, false, false}));
    agreement_.channel = Channel(agreement_.memory.bytes(), agreement_.shape, side_);
    waiting_ = Waiting::kForNothing;
    return {};
}

Status Handshake::agree_on(const Terms& theirs) {
    const EndpointOptions clamped = clamp(options_of(theirs));
    if (clamped.message_bytes_max != theirs.message_bytes_max ||
        clamped.messages_in_flight != theirs.messages_in_flight || theirs.membarrier > 1 ||
        theirs.zero != 0) {
        return Error(Errc::kProtocol,
                     fmt::format("terms out of bounds: messages of {} bytes, {} in flight",
                                 theirs.message_bytes_max, theirs.messages_in_flight));
    }
    agreement_.shape = shape_for(options_of(self_.terms), options_of(theirs));
    agreement_.asymmetric = self_.terms.membarrier == 1 && theirs.membarrier == 1;
    return {};
}

}  // namespace weir::transport::shm
