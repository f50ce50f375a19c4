// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// IterationParts: parts of iterations. One is added to the sum of its iteration, or changes the
/// table if it is all of it. An iteration ends when it has the parts of all members and the one
/// before it has ended; it fails when a part fails, or when a worker will send no more.

#include <cstdint>

#include "lib/server/requests/waiting_requests.h"

namespace weir {

class IterationParts : ShardRoom {
public:
    IterationParts(const ShardRoom& room, WaitingRequests& waiting)
        : ShardRoom(room), waiting_(waiting) {}

    /// `status`: what is wrong with the part. The part may also say (part_status) that its worker
    /// cannot send it. In both cases its iteration fails, and waits for nothing more of the worker.
    void accept(Session& session, ShardTable& table, Request& part, Errc status);
    /// Says what to do with a part of a member, and replies to it unless that is kNow or kLater.
    [[nodiscard]] IterationProgress::Verdict judge(const Session& session, ShardTable& table,
                                                   const Request& request);
    /// The bytes of a part are here, and it is its turn.
    void apply(ShardTable& table, const Request& sent);
    /// A part of an open iteration has no effect, and the iteration fails by it. `status`: why. A
    /// worker that withdraws its parts says so, also if all have arrived.
    void end_unused(ShardTable& table, const Session& session, const wire::FrameHeader& part,
                    Errc status);

    /// Ends the iterations that have all their parts, in order. The rule changes any row, so it
    /// waits while some are pinned. `all`: what the first one that ends has changed, if that was
    /// not in a sum.
    void finish(ShardTable& table, const Entries* all = nullptr);
    /// What the shard is primary of has changed: the parts of open iterations come again.
    void restart(ShardTable& table);
    /// No iteration of the table is closed any more: whoever waits for one hears `why`.
    void end_all(ShardTable& table, Errc why);
    /// Replies to the parts that have arrived of open iterations that will not be closed.
    void reply_hopeless(ShardTable& table);

    /// The manager wants to hear when a table that is in checkpoints has closed so many more
    /// iterations; 0: it does not.
    void watch(uint64_t every) noexcept { watch_every_ = every; }

private:
    void end(ShardTable& table, const OpenIterations::Part& part, const wire::FrameHeader& header,
             const IterationFailure& outcome, const Entries* all);
    void refuse(ShardTable& table, const Session& session, const wire::FrameHeader& part,
                IterationProgress::Verdict verdict);
    [[nodiscard]] bool fits_into_change(const ShardTable& table, uint64_t iteration);
    void reply_closed(ShardTable& table, const OpenIterations::Part& part, uint64_t iteration);
    void close_complete(ShardTable& table, const Entries* all);
    void tell_closed(ShardTable& table);

    WaitingRequests& waiting_;
    uint64_t watch_every_ = 0;
    AggregatedRows aggregated_;  ///< kept for its memory
};

}  // namespace weir
