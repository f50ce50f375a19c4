// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The messages of the rendezvous, between rank 0 (which listens) and every other rank.
///
///   rank r                              rank 0
///     kHello rank size nonce   ------>            the first 4 bytes tell strangers apart
///                              <------  kChallenge nonce, proof that it knows the secret
///     kProof                   ------>
///                              <------  kWelcome, or kRefused with the reason
///     kEntry*, kCommit         ------>            once per round
///                              <------  kWaiting  now and then, naming who is missing
///                              <------  kEntry*, kRelease; or kFailed with the reason
///
/// A header of 12 bytes (magic "WRDV", version, kind, two zero bytes, length of the body), then the
/// body; numbers little-endian, texts with their length in front.

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "transport/net/secret.h"

namespace weir::boot {

enum class RendezvousKind : uint8_t {
    kHello = 1,
    kChallenge = 2,
    kProof = 3,
    kWelcome = 4,
    kRefused = 5,
    kEntry = 6,
    kCommit = 7,
    kWaiting = 8,
    kRelease = 9,
    kFailed = 10,
};

/// One message; each kind uses the fields that it names.
struct RendezvousMessage {
    RendezvousKind kind = RendezvousKind::kHello;
    uint32_t rank = 0;         ///< kHello, kEntry
    uint32_t size = 0;         ///< kHello
    uint32_t round = 0;        ///< kCommit, kRelease
    uint32_t local_rank = 0;   ///< kRelease
    bool secured = false;      ///< kHello, kChallenge: the sender has a secret
    transport::Nonce nonce{};  ///< kHello, kChallenge
    transport::Proof proof{};  ///< kChallenge, kProof
    std::string key = {};      ///< kEntry
    std::string text = {};     ///< kHello: host; kEntry: value; the other kinds: for people
};

inline constexpr size_t kRendezvousHeaderBytes = 12;
inline constexpr size_t kRendezvousTextBytesMax = 4096;
inline constexpr size_t kRendezvousBodyBytesMax = 4096 + 256;
/// What a stranger may send before it has proved that it belongs to the job.
inline constexpr size_t kRendezvousGreetingBytesMax = 512;

[[nodiscard]] std::string encode(const RendezvousMessage& message);

/// Cuts a stream of bytes into messages; never holds more than one read and one message.
class RendezvousReader {
public:
    /// Bodies longer than this are refused from now on.
    void set_body_bytes_max(size_t bytes) noexcept { body_bytes_max_ = bytes; }

    void feed(std::string_view bytes);
    /// The next whole message, or nothing yet.
    /// Errors:  kProtocol: not a message of ours, too long, or with a wrong body
    [[nodiscard]] Result<std::optional<RendezvousMessage>> next();

private:
    std::string buffer_;
    size_t begin_ = 0;
    size_t body_bytes_max_ = kRendezvousGreetingBytesMax;
};

/// How a side proves that it knows the secret: over both nonces and who asks for which seat.
[[nodiscard]] transport::Proof rendezvous_proof(const transport::Secret& secret,
                                                transport::Side prover,
                                                const RendezvousMessage& hello,
                                                const transport::Nonce& rank_0_nonce);

}  // namespace weir::boot
