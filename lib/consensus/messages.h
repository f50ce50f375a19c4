// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What replicas of a log send each other: the messages of Raft, and the question by which a leader finds
/// out that it still leads. They are encoded field by field, in the order of declaration
/// (lib/base/byte_codec.h), behind one byte that gives the kind.
///
/// Source: Ongaro, Consensus: bridging theory and practice (2014), chapters 3 to 5 and 9.6

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lib/consensus/log_state.h"

namespace weir::consensus {

/// Asks for a vote. The sender is the candidate.
struct AskVote {
    uint64_t term = 0;
    uint64_t last_index = 0;  ///< of the candidate's log; 0: it is empty
    uint64_t last_term = 0;
    bool is_trial = false;  ///< it asks whether it would get the vote
    /// The leader has named the sender to lead after it; then it is no trial.
    bool is_named = false;
    friend bool operator==(const AskVote&, const AskVote&) = default;
};

struct Vote {
    uint64_t term = 0;
    bool is_granted = false;
    bool is_trial = false;
    uint64_t current = 0;  ///< the term in which the sender is; `term` is that of a trial
    friend bool operator==(const Vote&, const Vote&) = default;
};

/// The leader's entries behind `before`, which may be none.
struct Append {
    uint64_t term = 0;
    uint64_t before = 0;       ///< index of the entry before them; 0: they begin the log
    uint64_t before_term = 0;  ///< its term
    uint64_t committed = 0;    ///< all up to this index is
    std::vector<Entry> entries;
    friend bool operator==(const Append&, const Append&) = default;
};

/// The answer to Append and Install.
struct Appended {
    uint64_t term = 0;
    uint64_t rejected = 0;  ///< `before` of what does not fit; 0: it was taken
    uint64_t last = 0;      ///< index of the last entry that is stored
    friend bool operator==(const Appended&, const Appended&) = default;
};

/// The leader's snapshot, for a replica that lacks entries which the leader has no more.
struct Install {
    uint64_t term = 0;
    Snapshot snapshot;
    friend bool operator==(const Install&, const Install&) = default;
};

/// The leader of `term` hands over to the receiver, if that has the leader's log: it is to be elected at once.
struct TakeOver {
    uint64_t term = 0;
    uint64_t last_index = 0;  ///< of the leader's log
    uint64_t last_term = 0;
    friend bool operator==(const TakeOver&, const TakeOver&) = default;
};

using Message = std::variant<AskVote, Vote, Append, Appended, Install, TakeOver>;

/// The longest message.
inline constexpr size_t kMessageBytesMax = size_t{256} << 20;

[[nodiscard]] std::vector<std::byte> encode_message(const Message& message);

/// nullopt if the message is malformed or has bytes left over, or if no replica that is right would send it:
/// terms go down from entry to entry, an entry is of a later term than its leader, a number is beyond
/// kNumberMax, an entry is too long, one that names the members is not the first, who was named to lead asks
/// for a trial vote. Takes memory in proportion to `bytes`.
[[nodiscard]] std::optional<Message> decode_message(std::span<const std::byte> bytes);

}  // namespace weir::consensus
