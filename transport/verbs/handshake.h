// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What two endpoints say to each other over the TCP side channel, as a state machine that knows no
/// sockets. What is said under proof (transport/net/handshake.h) is a Claim:
///
///     connecting -> Hello            accepting -> Hello
///     connecting -> Claim
///     accepting  -> Claim                         (its queue pair is up)
///     connecting -> Ready                         (its queue pair is up too)
///     either     -> Bye{messages sent}            (in an orderly end), or the end of file
///
/// or a refusal instead of an answer. No queue pair moves for somebody who does not know the secret.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "transport/net/handshake.h"

namespace weir::transport::verbs {

/// What a side says of its queue pair.
struct Claim {
    uint32_t queue_pair = 0;     ///< 24 bits
    uint32_t packet_number = 0;  ///< the first one that it sends; 24 bits
    uint16_t lid = 0;
    uint8_t mtu = 0;         ///< as ibv_mtu: 128 << mtu bytes, 1..5
    uint8_t link_layer = 0;  ///< as IBV_LINK_LAYER_*: 1 InfiniBand, 2 Ethernet
    std::array<std::byte, 16> gid{};
    uint32_t read_depth = 0;               ///< READs that it can serve at once
    uint32_t window = 0;                   ///< messages that it has room for
    uint32_t message_bytes_max = 0;        ///< the size of that room
    uint16_t cm_port = 0;                  ///< 0, or where its librdmacm listens
    std::array<std::byte, 16> cm_token{};  ///< what it shows or wants to see there

    friend bool operator==(const Claim&, const Claim&) = default;
};

inline constexpr size_t kClaimBytes = 4 + 4 + 2 + 1 + 1 + 16 + 4 + 4 + 4 + 2 + 16;
using ClaimBytes = std::array<std::byte, kClaimBytes>;

[[nodiscard]] ClaimBytes encode(const Claim& claim) noexcept;
/// Errors: kProtocol: a field has a value that nobody has
[[nodiscard]] Result<Claim> decode_claim(std::span<const std::byte, kClaimBytes> bytes);

/// Thread: one.
class ClaimHandshake {
public:
    /// What is to be done now.
    enum class Step : uint8_t {
        kWait,       ///< for more from the peer
        kMakeClaim,  ///< connecting: make a queue pair and call claim()
        kProven,     ///< peer() is right. Connecting: bring the queue pair up, then ready().
                     ///< Accepting: make it, bring it up, then claim().
        kOpen,       ///< both are up
        kBye,        ///< the peer ends the connection; peer_messages() is what it had sent
    };

    ClaimHandshake(Side side, const Secret& secret, const Nonce& nonce);

    /// Takes what came in; at most room() bytes.
    void append(std::span<const std::byte> bytes);

    [[nodiscard]] size_t room() const noexcept { return kInputBytesMax - records_.bytes_left(); }

    /// Goes on as far as it can. kOpen and kBye are said once.
    /// Errors: kProtocol (not our protocol), kRefused (the peer does not know the secret, or said
    /// no), or another code that the peer gave; then nothing more is to be taken
    [[nodiscard]] Result<Step> next();

    void claim(const Claim& own);
    void ready();

    /// Tells the peer why not. What is said to somebody unproven should say nothing of us.
    void refuse(Errc code, std::string_view text) { handshake_.refuse(code, text); }

    void bye(uint64_t messages_sent);

    /// Bytes for the wire; what was sent is to be taken off.
    [[nodiscard]] std::vector<std::byte>& output() noexcept { return handshake_.output(); }

    [[nodiscard]] const Claim& peer() const noexcept { return peer_; }

    [[nodiscard]] uint64_t peer_messages() const noexcept { return peer_messages_; }

private:
    static constexpr size_t kInputBytesMax = 1024;
    static_assert(kRecordHeaderBytes + Handshake::kBodyBytesMax <= kInputBytesMax);
    static constexpr uint8_t kBye = Handshake::kFirstOwnType;

    [[nodiscard]] Result<Step> take(const RecordView& record);

    RecordReader records_;
    Handshake handshake_;
    bool owes_ = false;  ///< the next step is ours
    bool gone_ = false;  ///< after the peer's bye
    Claim peer_;
    uint64_t peer_messages_ = 0;
};

}  // namespace weir::transport::verbs
