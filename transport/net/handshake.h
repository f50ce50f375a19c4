// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Handshake: two processes prove to each other that they know the job's secret, and exchange
/// payloads under that proof. The class is a state machine without sockets. The caller defines
/// what the payloads mean:
///
///     connecting -> Hello{nonce}         accepting -> Hello{nonce}
///     connecting -> Payload{its payload, proof}
///     accepting  -> Payload{its payload, proof}
///     connecting -> Ready
///
/// Instead of its next record a side may send Refuse{code, text}. The code kDeadline means that
/// another connection got the place; the connecting side may try again.
///
/// A proof is an HMAC with the secret over the side that proves, the protocol and its version,
/// both nonces, and all payloads so far. So a peer without the secret gets no payload from the
/// accepting side, payloads cannot be changed on the way, and a proof is invalid on another
/// connection or in another protocol.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "transport/net/record.h"
#include "transport/net/secret.h"

namespace weir::transport {

/// Thread: one.
class Handshake {
public:
    /// What the caller must do next.
    enum class Step : uint8_t {
        kWait,         ///< wait for the next record of the peer
        kSendPayload,  ///< connecting: call send_payload() with the own payload
        kProven,       ///< the peer knows the secret, and peer_payload() is from it. Connecting:
                       ///< check it and call ready(). Accepting: check it, call send_payload().
        kOpen,         ///< accepting: the peer is ready, too. No record of a handshake follows.
    };

    /// Record types from here on belong to the caller.
    static constexpr uint8_t kFirstOwnType = 16;
    static constexpr size_t kTextBytesMax = 512;
    static constexpr size_t kPayloadBytesMax = 512;
    /// No record of a handshake has a longer body.
    static constexpr size_t kBodyBytesMax = kPayloadBytesMax + sizeof(Proof);

    /// On the connecting side, output() has the hello at once.
    Handshake(const Protocol& protocol, Side side, const Secret& secret, const Nonce& nonce);

    /// Takes the peer's next record.
    /// Errors:  kProtocol (a record that is wrong here), kRefused (the peer does not know the
    ///          secret, or refused), or another code of the peer's refusal; take no more records
    ///          then
    [[nodiscard]] Result<Step> take(const RecordView& record);

    /// Sends the own payload, at most kPayloadBytesMax bytes, and the proof.
    void send_payload(std::span<const std::byte> payload);
    void ready();
    /// Refuses the peer with a reason; longer texts are cut off. A text for an unproven peer must
    /// not reveal anything about this process.
    void refuse(Errc code, std::string_view text);
    /// Appends a record of the caller to the output.
    void put(uint8_t type, std::span<const std::byte> body);

    /// Bytes to send; the caller removes those that it has sent.
    [[nodiscard]] std::vector<std::byte>& output() noexcept { return output_; }

    /// The peer's payload. Before kProven, and after kRefused, it may come from any program.
    [[nodiscard]] std::span<const std::byte> peer_payload() const noexcept { return peer_payload_; }

    /// True once the handshake is complete on this side.
    [[nodiscard]] bool is_open() const noexcept { return state_ == State::kOpen; }

    /// The code of a refusal; nullopt if the record is not one.
    [[nodiscard]] static std::optional<Errc> refusal_of(const RecordView& record);

    /// On the accepting side: true while only the peer's Ready is missing.
    [[nodiscard]] bool waits_for_ready() const noexcept { return state_ == State::kReady; }

    /// The peer has refused; the error that take() returned has its text.
    [[nodiscard]] bool was_refused() const noexcept { return refused_; }

private:
    enum class State : uint8_t {
        kHello,         ///< waiting for the peer's hello
        kMustSend,      ///< connecting: the caller must call send_payload()
        kAwaitPayload,  ///< waiting for the payload and proof of the peer
        kMustReply,     ///< the peer is proven: the caller must call send_payload() or ready()
        kReady,         ///< accepting: waiting for the peer's Ready
        kOpen,
    };

    enum class Type : uint8_t { kHello = 1, kPayload = 2, kReady = 3, kRefuse = 4 };

    void put(Type type, std::span<const std::byte> body) { put(static_cast<uint8_t>(type), body); }

    [[nodiscard]] Result<Step> take_payload(std::span<const std::byte> body);
    [[nodiscard]] Proof proof_of(Side prover) const;

    Protocol protocol_;
    Side side_;
    State state_ = State::kHello;
    Secret secret_;
    Nonce own_nonce_;
    Nonce peer_nonce_{};
    bool refused_ = false;
    std::vector<std::byte> own_payload_;
    std::vector<std::byte> peer_payload_;
    std::vector<std::byte> output_;
};

}  // namespace weir::transport
