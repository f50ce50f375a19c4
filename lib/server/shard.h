// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shard: the part of the parameters that one thread owns; no other thread touches them.
///
/// It puts together the rooms below, each of which knows only those before it. ShardRoom is what
/// all have at hand: the standing of the shard, its tables, Sessions, Replication and Replies.
///   requests/    WaitingRequests: what cannot go on yet, and where keys and values are
///   iterations/  IterationParts: parts, and ends of iterations
///   reads/       TableReads: pulls, scans, gets
///   requests/    Pushes: in order, and once
///   members/     Members: who takes part in iterations      Connections: hellos, and what closes
///   requests/    IncomingRequests: what is valid, and whose turn it is
///   tables/      TableOrders: which tables there are
///   checkpoint/  ShardCheckpoints: with CheckpointPart and TableFill
/// shard_manager.cc: what the manager orders, and a new view, which concerns all of them.
///
/// The way of a push:
///   shard.cc                       receive(): which kind of message, from whom (Sessions)
///   requests/incoming_requests.cc  accept(): is it valid
///   requests/pushes.cc             accept(): are its keys and values here, in the message or
///                                  mapped (find_bytes()); if not, it is kept until the Fetcher has
///                                  read them, which ends in fetched() and run_queue().
///                                  execute(): in order (PushOrder), unless it was executed before
///                                  (ClockTable) or its rows are pinned (Pins). resolve_push():
///                                  which rows; push_entries(): the table changes them
/// That of a part of an iteration:
///   iterations/iteration_parts.cc  accept(): is it its turn; apply(): the sum grows
///   iterations/iteration_ends.cc   end(): is it complete (IterationProgress), then run the rule;
///                                  Members says whose parts it waits for
/// The reply of both: Replies::reply_when_replicated().
/// If a rule throws: thrown(), and nothing of all that, until the manager ends the job.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/node/state_machine.h"
#include "lib/ring/view_change.h"
#include "lib/server/checkpoint/shard_checkpoints.h"
#include "lib/server/iterations/iteration_parts.h"
#include "lib/server/members/connections.h"
#include "lib/server/members/members.h"
#include "lib/server/reads/table_reads.h"
#include "lib/server/requests/function_calls.h"
#include "lib/server/requests/incoming_requests.h"
#include "lib/server/requests/pushes.h"
#include "lib/server/requests/waiting_requests.h"
#include "lib/server/shard_room.h"
#include "lib/server/tables/table_orders.h"
#include "lib/store/memory_with_caches.h"

namespace weir {

/// One that joins a running job gets its number from the manager, then the tables, then the view.
/// Serves pushes and pulls until the manager ends the job, or the manager and all workers are
/// gone. It also ends if it cannot reach the manager, or if the manager breaks the protocol.
///
/// Thread: one
class Shard final : public StateMachine, private Replication::Host {
public:
    /// `memory` holds the tables and the Fetcher's blocks; it is registered, but
    /// not exposed to peers. `clock`, `memory` and `rules` must outlive the shard.
    Shard(ShardOptions options, std::unique_ptr<transport::Endpoint> endpoint, const Clock& clock,
          Memory& memory, const RuleRegistry& rules);
    ~Shard() override;
    Shard(const Shard&) = delete;
    Shard& operator=(const Shard&) = delete;

    size_t poll() override;
    [[nodiscard]] int arm() override;

    [[nodiscard]] uint64_t sleep_ns_max() const noexcept override;

    [[nodiscard]] bool gives_way() const noexcept override { return standing_.is_moving(); }

    [[nodiscard]] bool finished() const override {
        return standing_.phase() == ShardStanding::Phase::kOver;
    }

    [[nodiscard]] std::string name() const override { return standing_.name(); }

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

    /// Code of the program has thrown here: it answers nobody.
    [[nodiscard]] bool has_thrown() const noexcept { return standing_.has_thrown(); }

    /// Ok, or the error that ended the job early.
    [[nodiscard]] Status outcome() const override { return standing_.outcome(); }

    /// Of the view that it has; 0: none yet.
    [[nodiscard]] uint64_t epoch() const noexcept { return standing_.view().epoch(); }

    /// The positions that it serves, in that epoch.
    [[nodiscard]] const PositionSet& primary() const noexcept { return replication_.primary(); }

    /// What it has, for who looks at it from outside between two polls.
    [[nodiscard]] const ShardTables& tables() const noexcept { return tables_; }

    [[nodiscard]] const Holdings& holdings() const noexcept { return replication_.holdings(); }

private:
    using ConnectionId = transport::ConnectionId;

    // shard.cc
    size_t work();
    void thrown(const std::string& what);
    size_t wait_for_the_end();
    void handle_of_manager(std::span<const transport::Completion> completions);
    void look_for_silence();
    void prefetch_rows(const transport::Completion& next) const;
    void handle(const transport::Completion& completion);
    void receive(ConnectionId connection, std::span<const std::byte> message);
    void receive(ConnectionId connection, Request& frame);
    void receive_several(ConnectionId connection, Request& frame, std::span<const std::byte> rest);
    void receive_request(Session& session, Request& request);
    void follow(ConnectionId connection, const wire::Frame& frame);
    void closed(const transport::Completion& completion);

    // What is done beside requests, while something moves or is replicated.
    void look_at_moves() noexcept;
    [[nodiscard]] bool has_lease();
    size_t release_replies();
    size_t move_on();
    size_t work_behind();

    // What Replication asks for.
    void refuse(ConnectionId connection, std::string_view why) override;
    void close(ConnectionId connection) override;
    void send_to_shard(ConnectionId connection, wire::FrameHeader& header) override;
    void send_to_manager(const wire::FrameHeader& header, std::span<const std::byte> body) override;

    // shard_manager.cc
    size_t poll_link();
    void receive_from_manager(const wire::Frame& frame);
    void control(const wire::Frame& frame);
    void receive_number(std::span<const std::byte> body);
    void receive_view(std::span<const std::byte> body);
    void apply_view(View view);
    void begin_anew();
    void told_to_stay(std::span<const std::byte> why) const;
    void lose_manager();

    // shard_stats.cc: what it tells of itself
    void give_sign_of_life(ConnectionId connection, uint64_t request);
    [[nodiscard]] std::vector<std::byte> stats();
    void note_open_iterations(StatsMessage& message) const;

    ShardStanding standing_;
    const ShardOptions& options_ = standing_.options();
    std::unique_ptr<transport::Endpoint> endpoint_;
    const Clock& clock_;
    MemoryWithCaches memory_;
    RepeatedLog refusals_{clock_};
    /// Of one poll(). A member, so that poll() does not initialise it each time.
    std::array<transport::Completion, 64> completions_;
    size_t completion_count_ = 0;  // of the last poll, of which so many were handled:
    size_t handled_count_ = 0;
    StatsMessage counters_;
    KnownLists lists_;  ///< of all tables
    uint64_t pass_;     ///< PassesMessage
    ManagerLink to_manager_;
    ViewParts view_parts_;
    ShardTables tables_;
    Sessions sessions_;
    Replication replication_;
    Replies replies_;
    CheckpointPart checkpoint_;
    // The rooms; each refers only to those before it.
    ShardRoom room_;
    WaitingRequests waiting_;
    IterationParts parts_;
    FunctionCalls functions_;
    TableReads reads_;
    Pushes pushes_;
    Members members_;
    Connections connections_;
    IncomingRequests requests_;
    TableOrders orders_;
    ShardCheckpoints checkpoints_;
};

}  // namespace weir
