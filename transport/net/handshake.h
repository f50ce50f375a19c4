// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Handshake: how two processes prove to each other that they know the job's secret, and say what
/// they have to say under that proof. A state machine that knows no sockets; what is said is the
/// caller's:
///
///     connecting -> Hello{nonce}         accepting -> Hello{nonce}
///     connecting -> Said{its words, proof}
///     accepting  -> Said{its words, proof}
///     connecting -> Ready
///
/// or Refuse{code, text} instead of an answer; with the code kDeadline it says that somebody else
/// got the place, and the connecting side may begin again. A proof is an HMAC with the secret over
/// who proves, the protocol and its version, both nonces, and all that was said so far. So nobody
/// who does not know the secret makes the accepting side do more than that, no words can be changed
/// on the way, and no proof is worth anything on another connection or in another protocol.

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
    /// What is to be done now.
    enum class Step : uint8_t {
        kWait,    ///< for more from the peer
        kSay,     ///< connecting: call say()
        kProven,  ///< the peer knows the secret, and peer_said() is what it said. Connecting: check
                  ///< it and call ready(). Accepting: check it and call say().
        kOpen,    ///< accepting: the peer is ready, too. Of records that follow, none are ours.
    };

    /// Types of records from here on are the caller's own.
    static constexpr uint8_t kFirstOwnType = 16;
    static constexpr size_t kTextBytesMax = 512;
    static constexpr size_t kSaidBytesMax = 512;
    /// No record of a handshake has a longer body.
    static constexpr size_t kBodyBytesMax = kSaidBytesMax + sizeof(Proof);

    /// A connecting side's hello is in the output at once.
    Handshake(const Protocol& protocol, Side side, const Secret& secret, const Nonce& nonce);

    /// Takes the peer's next record.
    /// Errors: kProtocol (not what belongs here), kRefused (the peer does not know the secret, or
    /// said no), or another code that the peer gave; then nothing more is to be taken
    [[nodiscard]] Result<Step> take(const RecordView& record);

    /// At most kSaidBytesMax bytes.
    void say(std::span<const std::byte> words);
    void ready();
    /// Tells the peer why not; longer texts are cut off. What is said to somebody unproven should
    /// say nothing of us.
    void refuse(Errc code, std::string_view text);
    /// A record of the caller's own.
    void put(uint8_t type, std::span<const std::byte> body);

    /// Bytes for the wire; what was sent is to be taken off.
    [[nodiscard]] std::vector<std::byte>& output() noexcept { return output_; }

    /// What the peer said. Before kProven, or after kRefused, anybody may have said it.
    [[nodiscard]] std::span<const std::byte> peer_said() const noexcept { return peer_said_; }

    /// Nobody waits for anything any more.
    [[nodiscard]] bool is_open() const noexcept { return state_ == State::kOpen; }

    /// The code of a refusal; nothing if the record is none.
    [[nodiscard]] static std::optional<Errc> refusal_of(const RecordView& record);

    /// Accepting: the next record says that the peer is ready.
    [[nodiscard]] bool waits_for_ready() const noexcept { return state_ == State::kReady; }

    /// The peer has said no; the error that take() returned has its words.
    [[nodiscard]] bool was_refused() const noexcept { return refused_; }

private:
    enum class State : uint8_t {
        kHello,      ///< waiting for the peer's hello
        kOweWords,   ///< connecting: ours to say()
        kSaid,       ///< waiting for what the peer says
        kOweAnswer,  ///< the peer is proven: ours to say() or to be ready()
        kReady,      ///< accepting: waiting for the peer to be ready
        kOpen,
    };

    enum class Type : uint8_t { kHello = 1, kSaid = 2, kReady = 3, kRefuse = 4 };

    void put(Type type, std::span<const std::byte> body) { put(static_cast<uint8_t>(type), body); }

    [[nodiscard]] Result<Step> take_said(std::span<const std::byte> body);
    [[nodiscard]] Proof proof_of(Side prover) const;

    Protocol protocol_;
    Side side_;
    State state_ = State::kHello;
    Secret secret_;
    Nonce own_nonce_;
    Nonce peer_nonce_{};
    bool refused_ = false;
    std::vector<std::byte> own_said_;
    std::vector<std::byte> peer_said_;
    std::vector<std::byte> output_;
};

}  // namespace weir::transport
