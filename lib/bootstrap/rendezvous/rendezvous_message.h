// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The messages of the rendezvous, between rank 0 (which listens) and who connects to it: the other
/// ranks at the start of the job, newcomers and commands while it runs.
///
///   rank r                              rank 0
///     the handshake of transport/net, in which rank r says a RendezvousHello and rank 0 nothing;
///     or a refusal with the reason
///     kEntry*, kCommit         ------>            once per round
///                              <------  kWaiting  now and then, naming the missing ranks
///                              <------  kEntry*, kRelease; or kFailed with the reason
///
///   newcomer                            rank 0
///     the handshake, as above
///                              <------  kContact  and the newcomer closes the connection
///
/// Each is a record (transport/net/record.h). Without a secret the handshake uses a secret of
/// zeros: it rejects programs that are not Weir, but proves nothing.

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "transport/net/handshake.h"

namespace weir::boot {

inline constexpr transport::Protocol kRendezvousProtocol{"the rendezvous of a Weir job",
                                                         0x5644'5257, 4};  // "WRDV"

/// What a process says about itself in the handshake, covered by its proof.
struct RendezvousHello {
    /// kNewcomer: it asks how to reach the running job, and has neither rank nor size.
    enum class Role : uint8_t { kRank = 1, kNewcomer = 2 };
    Role role = Role::kRank;
    uint32_t rank = 0;
    uint32_t size = 0;
    bool secured = false;  ///< it has a secret

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<RendezvousHello> decode(std::span<const std::byte> bytes);

    friend bool operator==(const RendezvousHello&, const RendezvousHello&) = default;
};

enum class RendezvousKind : uint8_t {
    kEntry = transport::Handshake::kFirstOwnType,
    kCommit,
    kWaiting,
    kRelease,
    kFailed,
    kContact,
};

/// One message. The comment of a field names the kinds that use it.
struct RendezvousMessage {
    RendezvousKind kind = RendezvousKind::kCommit;
    uint32_t rank = 0;     ///< kEntry
    uint32_t round = 0;    ///< kCommit, kRelease
    std::string key = {};  ///< kEntry
    /// kEntry: value; kWaiting, kFailed: for people; kContact: the manager's address
    std::string text = {};
    /// kContact: the job's; none where both ends have it from their WEIR_SECRET_FILE
    std::optional<transport::Secret> secret = {};

    friend bool operator==(const RendezvousMessage&, const RendezvousMessage&) = default;
};

inline constexpr size_t kRendezvousTextBytesMax = 4096;
inline constexpr size_t kRendezvousBodyBytesMax = 4096 + 256;

/// A whole record.
[[nodiscard]] std::vector<std::byte> encode(const RendezvousMessage& message);

/// Errors:  kProtocol: no such kind, or a wrong body
[[nodiscard]] Result<RendezvousMessage> decode_message(const transport::RecordView& record);

}  // namespace weir::boot
