// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pushes: the order of pushes, which makes each of them take effect exactly once. A push names the
/// one before it on its connection, and is not executed unless that one was. Its time says whether
/// it was executed before, on a connection that broke before the reply came.

#include <cstdint>

#include "lib/server/checkpoint/checkpoint_part.h"
#include "lib/server/reads/table_reads.h"

namespace weir {

class Pushes : ShardRoom {
public:
    Pushes(const ShardRoom& room, const CheckpointPart& checkpoint, WaitingRequests& waiting,
           TableReads& reads, FunctionCalls& functions)
        : ShardRoom(room),
          checkpoint_(checkpoint),
          waiting_(waiting),
          reads_(reads),
          functions_(functions) {}

    /// Executes a push, unless it has to wait.
    void accept(Session& session, ShardTable& table, Request& push);
    /// The keys and values of a push are here, or could not be read.
    void fetched(Session& session, ShardTable& table, KeptRequest& push);
    /// Executes what can be executed now, in order.
    void run_queue(Session& session, ShardTable& table);
    /// The same, of all workers.
    void run_queues(ShardTable& table);

    /// Pushes that wait for room go on as soon as streams have it.
    void look_for_room();

    /// Pushes that erase, and wait for the vacuum, go on when it has taken a step, or is not wanted any more.
    void look_for_erasures(ShardTable& table);

    /// A connection is closed: drops what waits from it. The worker sends it again on another one.
    /// What is being read ends when that does.
    void forget(Session& session);
    /// The table is dropped, and what waits in it.
    void drop(ShardTable& table);

private:
    [[nodiscard]] bool execute(const Session& session, ShardTable& table, PushOrder& order,
                               const Request& sent);
    [[nodiscard]] Errc judge_or_hold(ShardTable& table, const Request& request);
    [[nodiscard]] Errc judge(const ShardTable& table, const Request& request) const;
    void pull_pushed(ShardTable& table, const Request& push);
    [[nodiscard]] uint32_t first_segment(const ShardTable& table,
                                         const Request& request) const noexcept;
    [[nodiscard]] Result<Entries> resolve_push(ShardTable& table, const Request& request,
                                               uint32_t first, Touched& touched);
    void drop(Session& session, const ShardTable& table);

    const CheckpointPart& checkpoint_;
    WaitingRequests& waiting_;
    TableReads& reads_;
    FunctionCalls& functions_;
    bool waits_for_room_ = false;  ///< some push does, until streams have room
};

}  // namespace weir
