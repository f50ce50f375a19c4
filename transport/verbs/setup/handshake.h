// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What two endpoints send each other over the TCP side channel, as a state machine without
/// sockets. The data that each side proves (transport/net/handshake.h) is its Claim:
///
///     connecting -> Hello            accepting -> Hello
///     connecting -> Claim
///     accepting  -> Claim                         (its queue pair is up)
///     connecting -> Ready                         (its queue pair is up too)
///     either     -> Bye{messages sent}            (in an orderly end), or the end of file
///
/// Either side may send a refusal instead of an answer. No queue pair changes its state for a
/// peer that has not proved to know the secret.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "transport/net/handshake.h"

namespace weir::transport::verbs {

/// What one side says about its queue pair.
struct Claim {
    uint32_t queue_pair = 0;     ///< 24 bits
    uint32_t packet_number = 0;  ///< the first that it sends; 24 bits
    uint16_t lid = 0;
    uint8_t mtu = 0;         ///< as ibv_mtu: 128 << mtu bytes, 1..5
    uint8_t link_layer = 0;  ///< as IBV_LINK_LAYER_*: 1 InfiniBand, 2 Ethernet
    std::array<std::byte, 16> gid{};
    uint32_t read_depth = 0;               ///< READs that it can serve at a time
    uint32_t window = 0;                   ///< how many messages it has room for
    uint32_t message_bytes_max = 0;        ///< the longest message of its endpoint
    uint16_t cm_port = 0;                  ///< where its librdmacm listens; 0: nowhere
    std::array<std::byte, 16> cm_token{};  ///< what librdmacm is shown there

    friend bool operator==(const Claim&, const Claim&) = default;
};

inline constexpr size_t kClaimBytes = 4 + 4 + 2 + 1 + 1 + 16 + 4 + 4 + 4 + 2 + 16;
using ClaimBytes = std::array<std::byte, kClaimBytes>;

[[nodiscard]] ClaimBytes encode(const Claim& claim) noexcept;
/// Errors: kProtocol (a field has a value that is not possible)
[[nodiscard]] Result<Claim> decode_claim(std::span<const std::byte, kClaimBytes> bytes);

/// Thread: one.
class ClaimHandshake {
public:
    /// What the owner is to do now.
    enum class Step : uint8_t {
        kWait,       ///< for more from the peer
        kMakeClaim,  ///< connecting: make a queue pair and call claim()
        kProven,     ///< peer() is right. Connecting: bring the queue pair up, then ready().
                     ///< Accepting: make it, bring it up, then claim().
        kOpen,       ///< both are up
        kBye,        ///< the peer ends the connection; peer_messages() is how many it has sent
    };

    ClaimHandshake(Side side, const Secret& secret, const Nonce& nonce);

    /// Takes bytes that came in, at most room() of them.
    void append(std::span<const std::byte> bytes);

    [[nodiscard]] size_t room() const noexcept { return kInputBytesMax - records_.bytes_left(); }

    /// Handles the records that came in. kOpen and kBye are returned once.
    /// Errors: kProtocol (not our protocol), kRefused (the peer does not know the secret, or
    ///         refused us), or another code that the peer sent; call nothing more then
    [[nodiscard]] Result<Step> next();

    void claim(const Claim& own);
    void ready();

    /// Tells the peer why it is refused. A text for a peer that has proved nothing should reveal
    /// nothing.
    void refuse(Errc code, std::string_view text) { handshake_.refuse(code, text); }

    void bye(uint64_t messages_sent);

    /// Bytes to send; the caller removes what it has sent.
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
    bool owner_must_answer_ = false;  ///< the owner has to call claim() or ready()
    bool bye_received_ = false;       ///< the peer has sent its Bye
    Claim peer_;
    uint64_t peer_messages_ = 0;
};

}  // namespace weir::transport::verbs
