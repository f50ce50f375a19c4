// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReplicatedLog: a replica of a log that a group of replicas agrees on, by Raft. What is proposed at the
/// replica that leads is applied by all of them, in the same order, once a majority has stored it. While a
/// majority lives and its members reach each other, one of them leads. replicated_log.md says more.
///
/// Source: Ongaro, Consensus: bridging theory and practice (2014); the library libraft (raft.h)

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/consensus/log_state.h"
#include "lib/consensus/peers.h"
#include "transport/transport.h"

namespace weir::consensus {

struct ReplicatedLogOptions {
    uint64_t group = 0;  ///< a random number of the job: replicas of other groups are refused
    uint64_t self = 0;   ///< the id of this replica
    /// All replicas; the same ids on all of them, in the same order, for as long as the group lives. An id
    /// stands for what its replica remembers: it is a new random number when a process starts, so that a
    /// process that has lost its memory is not a member.
    std::vector<Member> members;
    /// Whether the process of this member, an index in `members`, has ended for good, proved: it is not
    /// connected to any more. None: nobody knows.
    std::function<bool(size_t member)> has_ended = {};
    uint64_t seed = 0;  ///< of the times that elections wait
    /// Without a sign of the leader for this long, up to twice as long, a replica wants to lead. A leader that
    /// a majority does not answer for this long stops. At least 10 ms.
    uint64_t election_ns = 120 * kMillisecond;
    uint64_t heartbeat_ns = 25 * kMillisecond;  ///< of the leader, if it has nothing to send
    uint32_t entries_per_snapshot = 1024;       ///< 1 to 2048
    uint32_t entries_kept = 128;  ///< behind a snapshot, for replicas that lack few; 1 to 2048
};

/// What the log drives. Every call comes from within ReplicatedLog's functions, and must call none of them.
class Replicated {
public:
    Replicated() = default;
    Replicated(const Replicated&) = delete;
    Replicated& operator=(const Replicated&) = delete;
    virtual ~Replicated() = default;

    /// The entry `index` is committed. Calls come in the order of the log, which has gaps where nothing was
    /// proposed.
    virtual void apply(uint64_t index, std::span<const std::byte> entry) = 0;
    /// The state after all that was applied; at most kSnapshotBytesMax.
    [[nodiscard]] virtual std::vector<std::byte> snapshot() = 0;
    /// Replaces the state. Errors: kParse: these bytes are no snapshot; the replica ends
    [[nodiscard]] virtual Status restore(std::span<const std::byte> snapshot) = 0;

    /// This replica leads in `term`, and has applied all that was committed before. From now on it may
    /// propose.
    virtual void lead(uint64_t term) = 0;
    /// It does not lead any more, or cannot know that it does. What was proposed and is not applied yet may be
    /// lost, or may be applied later.
    virtual void follow() = 0;
};

struct Leadership {
    uint64_t term = 0;
    uint64_t leader = 0;    ///< of that term, as far as this replica knows; 0: nobody
    bool is_ready = false;  ///< it is this one, and lead() was called
};

/// Thread: one
class ReplicatedLog {
public:
    static constexpr size_t kWaitingBytesMax = size_t{16} << 20;

    ReplicatedLog() = default;
    ReplicatedLog(const ReplicatedLog&) = delete;
    ReplicatedLog& operator=(const ReplicatedLog&) = delete;
    virtual ~ReplicatedLog() = default;

    /// Takes what arrived, applies what is committed, and sends. Returns 0 if there was nothing to do.
    virtual size_t poll() = 0;
    /// A descriptor to sleep on, as Endpoint::arm(), for no longer than sleep_ns_max().
    [[nodiscard]] virtual int arm() = 0;
    [[nodiscard]] virtual uint64_t sleep_ns_max() const noexcept = 0;

    /// Proposes `entry`, which is not empty. The index that it has if it is applied while this replica leads:
    /// apply() with this index then is for this entry. If follow() comes first, its fate is not known.
    /// nullopt: this replica is not ready, or kWaitingBytesMax of proposals are waiting.
    [[nodiscard]] virtual std::optional<uint64_t> propose(std::vector<std::byte> entry) = 0;

    [[nodiscard]] virtual Leadership leadership() const noexcept = 0;

    /// Hands over to another replica: names it to lead once it has all that this one has stored. What is
    /// proposed meanwhile waits. If it takes over, follow() comes, and is_handing_over() ends; if it has not
    /// after election_ns, this replica leads on. False: it is not ready, it hands over already, or
    /// `replica` is no other member.
    [[nodiscard]] virtual bool hand_over(uint64_t replica) = 0;
    [[nodiscard]] virtual bool is_handing_over() const noexcept = 0;

    /// How many members were heard of within kHeardNs, with this one. For people.
    [[nodiscard]] virtual size_t heard_count() const = 0;
    static constexpr uint64_t kHeardNs = kSecond;

    /// It takes no part any more: restore() has failed, or it contradicts the leader. outcome() says why.
    [[nodiscard]] virtual bool finished() const noexcept = 0;
    [[nodiscard]] virtual Status outcome() const = 0;
};

/// Whether this build has libraft.
[[nodiscard]] bool have_replicated_log() noexcept;

/// Starts a replica, which is new, and keeps its part of the log in memory. `clock` and `replicated` must
/// outlive it.
/// Errors: kUnavailable without libraft in this build; kInvalidArgument: options
[[nodiscard]] Result<std::unique_ptr<ReplicatedLog>> start_replicated_log(
    const ReplicatedLogOptions& options, std::unique_ptr<transport::Endpoint> endpoint,
    const Clock& clock, Replicated& replicated);

}  // namespace weir::consensus
