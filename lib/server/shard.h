// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shard: the part of the parameters that one thread owns; no other thread touches them.
///
/// The way of a push, from file to file:
///   shard.cc         receive(): which kind of message, from whom (Sessions)
///   shard_admit.cc   admit(): is it valid
///   shard_order.cc   admit_push(): are its keys and values here, in the message or mapped
///                    (find_bytes(), shard_fetch.cc); if not, keep() it (KeptRequests) until the
///                    Fetcher has read them, which ends in fetched_push() and run_queue().
///                    execute(): in order (PushOrder), unless it was executed before (ClockTable)
///                    or its rows are pinned (Pins). resolve_push(): which rows; push_entries():
///                    the table changes them
/// That of a part of an iteration:
///   shard_admit.cc   admit_part(): is it its turn; if not, keep() it
///   shard_fetch.cc   start(): as above, but with fetched() and apply()
///   shard_push.cc    push_part(): resolve(), and the sum of the iteration grows
///   shard_parts.cc   end_part(): is it complete (IterationProgress), then run the rule;
///                    shard_members.cc says whose parts it waits for
/// The reply of both:
///   requests/replies.h  reply_when_replicated()
/// If a rule throws: thrown(), and nothing of all that, until the manager ends the job.
/// A table that is made, or dropped: shard_tables.cc.
/// A segment that moves: shard_view.cc and shard_streams.cc, with Replication.
/// A checkpoint: shard_checkpoint.cc, with CheckpointPart and TableFill.
/// A pull goes through start() and apply() to shard_pull.cc, and from there through PullWrites if
/// the network has to write the values. A push that wants values becomes a pull in execute().

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "lib/node/lease_line.h"
#include "lib/node/manager_link.h"
#include "lib/node/state_machine.h"
#include "lib/replication/replication.h"
#include "lib/ring/view.h"
#include "lib/ring/view_change.h"
#include "lib/server/checkpoint/checkpoint_part.h"
#include "lib/server/checkpoint/table_fill.h"
#include "lib/server/requests/fetcher.h"
#include "lib/server/requests/pull_writes.h"
#include "lib/server/requests/replies.h"
#include "lib/server/requests/request.h"
#include "lib/server/requests/row_scan.h"
#include "lib/server/requests/sessions.h"
#include "lib/server/shard_table.h"
#include "lib/store/index/known_lists.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"
#include "lib/wire/get_message.h"
#include "lib/wire/messages.h"
#include "transport/transport.h"

namespace weir {

/// How a shard joins a running job: what all shards of its server say alike.
struct ShardJoin {
    uint64_t joiner = 0;  ///< a random number, by which they find together; not 0
    uint32_t shard_count = 1;
    uint32_t weight = 1;      ///< of the server, as in ViewServer
    uint64_t pool_bytes = 0;  ///< of the server
    std::string plugins{};    ///< JoinMessage::plugins
};

struct ShardOptions {
    uint32_t number = 0;  ///< counted through all servers; one that joins: its place in its server
    uint32_t rank = 0;    ///< of its process in the job; for messages to people
    std::optional<ShardJoin> join = {};  ///< none: it begins with the job
    uint64_t host = 0;                   ///< equal for the processes of one host
    std::string host_name{};             ///< for people
    std::string manager_address;
    LinkIdentity link = {};  ///< of the link to the manager
    /// That of its server. None: it never needs one.
    std::shared_ptr<const ServerLease> lease = nullptr;
    /// For checkpoints. None: it writes and reads none.
    std::shared_ptr<checkpoint::DiskQueue> disk = nullptr;
    /// That of the job's checkpoints, for errors. Empty: none, or not known.
    std::string checkpoint_folder = {};
    LendingOptions lending{};  ///< to backups; its memory outlives the shard
    /// Of what an iteration may change where there are backups.
    size_t change_bytes_max = Streams::kChangeBytesMax;
    size_t fetch_bytes_max = size_t{64} << 20;  ///< of requests whose bytes are read or written
    /// Limit of the remembered key lists of all tables together: this shard's part of what its
    /// pool may spend on such lists.
    size_t list_cache_bytes = size_t{256} << 20;
    /// Limit of one worker's requests that wait: for each, a few hundred bytes and the keys and
    /// values in its message. Half of it is for those that wait for an iteration. Beyond it (8,000
    /// full messages), the reply to requests is kBusy.
    size_t waiting_bytes_max = size_t{64} << 20;
    /// Of what peers must not predict: how keys are spread, what cursors of scans say, and its pass.
    /// None: drawn at random. Only simulations that are to be repeated name one.
    std::optional<uint64_t> secret_seed = {};
};

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

    [[nodiscard]] bool gives_way() const noexcept override { return is_moving_; }

    [[nodiscard]] bool finished() const override { return phase_ == Phase::kOver; }

    [[nodiscard]] std::string name() const override;

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

    /// Code of the program has thrown here: it answers nobody.
    [[nodiscard]] bool has_thrown() const noexcept { return has_thrown_; }

    /// Ok, or the error that ended the job early.
    [[nodiscard]] Status outcome() const override { return outcome_; }

    /// Of the view that it has; 0: none yet.
    [[nodiscard]] uint64_t epoch() const noexcept { return view_.epoch(); }

    /// The positions that it serves, in that epoch.
    [[nodiscard]] const PositionSet& primary() const noexcept {
        return replication_.holdings().primary();
    }

    /// What it has, for who looks at it from outside between two polls.
    [[nodiscard]] const ShardTables& tables() const noexcept { return tables_; }

    [[nodiscard]] const Holdings& holdings() const noexcept { return holdings_; }

private:
    using ConnectionId = transport::ConnectionId;
    enum class Phase {
        kJoining,
        kServing,
        kThrown,  ///< code of the program has thrown: it does nothing more, and waits for the job's end
        kOver
    };

    // shard.cc: messages, connections, the manager's orders
    size_t work();
    void thrown(const std::string& what);
    size_t wait_for_the_end();
    void prefetch_rows(const transport::Completion& next) const;
    void handle(const transport::Completion& completion);
    void receive(ConnectionId connection, std::span<const std::byte> message);
    void receive(ConnectionId connection, wire::Frame& frame);
    void receive_several(ConnectionId connection, wire::Frame& frame,
                         std::span<const std::byte> rest);
    void receive_request(Session& session, wire::Frame& frame);
    void follow(ConnectionId connection, const wire::Frame& frame);
    void hello(Session& session, const wire::Frame& frame);
    void act_on(const Session& session, Sessions::Hello verdict);
    void another_hello(Session& session, const wire::Frame& frame);
    void receive_passes(std::span<const std::byte> body);
    void control(const wire::Frame& frame);
    [[nodiscard]] JoinMessage join_message() const;
    void closed(ConnectionId connection, bool memory_in_doubt = true);
    void refuse_worker(ConnectionId connection);
    void end(Status outcome);

    // shard_tables.cc: which tables there are
    void order_table(uint64_t request, std::span<const std::byte> body);

    /// One that is made, but for some of its initial rows: it is not used yet.
    struct TableToFill {
        uint64_t request = 0;  ///< of the manager
        uint32_t number = 0;
        bool is_from_checkpoint = false;
        uint64_t closed = 0;  ///< iterations, by the checkpoint
        std::unique_ptr<TableShard> rows;
    };

    enum class Step : uint8_t { kMore, kDone };

    [[nodiscard]] Status begin_table(uint64_t request, std::span<const std::byte> body);
    Step go_on_making_table();
    void add_table(TableToFill& table);
    void refuse_table(uint64_t request, const Status& status);
    [[nodiscard]] PositionSet held() const;
    void drop_table(uint64_t number);
    void drop_made_table(uint32_t number);
    void drop_waiting(ShardTable& table);
    void drop_queue(Session& session, const ShardTable& table);
    void report_drops();
    void free_dropped();

    // shard_view.cc: who holds what, who takes part
    void receive_view(std::span<const std::byte> body);
    void apply_view(View view);
    void admitted(std::span<const std::byte> body);
    void begin_anew();
    void run_queues();
    [[nodiscard]] std::vector<PositionRange> primary_ranges() const;

    // shard_members.cc: who takes part in iterations, and from when on
    void apply_members();
    void set_members(ShardTable& table) const;
    void release_iterations();
    void reply_first_iterations(std::span<const std::byte> body);
    size_t poll_link();
    void receive_from_manager(const wire::Frame& frame);
    void lose_manager();
    void end_if_all_are_gone();
    void look_for_silence();
    void manager_lost_worker(uint64_t worker);
    void told_to_stay(std::span<const std::byte> why) const;
    void end_iterations(uint64_t tables_end);
    void end_iterations(ShardTable& table, Errc why);
    void worker_gave_up(const Session& session, uint64_t request);
    void expect_no_more_parts_of(uint32_t worker);

    // shard_admit.cc: is a request valid, is it its turn
    enum class OfEpoch { kServed, kStale, kEarly };

    [[nodiscard]] OfEpoch judge_epoch(uint32_t epoch) const noexcept {
        return epoch == static_cast<uint32_t>(view_.epoch()) ? OfEpoch::kServed
                                                             : judge_other_epoch(epoch);
    }

    [[nodiscard]] OfEpoch judge_other_epoch(uint32_t epoch) const noexcept;
    void admit(Session& session, Request& request);
    [[nodiscard]] Errc check(const ShardTable& table, const Request& request) const;
    void refuse_request(const Request& request, Errc why, uint64_t detail = 0);
    void admit_part(Session& session, ShardTable& table, Request& request, Errc status);
    [[nodiscard]] IterationProgress::Verdict judge_part(const Session& session, ShardTable& table,
                                                        const Request& request);
    [[nodiscard]] KeptRequest* keep(Session& session, const Request& request, Wait why);
    void defer(Session& session, const Request& request, Wait why, RequestQueue& queue);
    void end_unless_waiting(KeptRequest& request);
    void end(KeptRequest& request);
    void forget(RequestQueue& queue, ConnectionId connection);
    size_t retry_waiting();
    size_t admit_again(RequestQueue& queue);

    // shard_streams.cc: what moves or is replicated
    void look_at_moves() noexcept;
    [[nodiscard]] bool has_lease();
    size_t release_replies();
    size_t move_on();
    size_t work_behind();
    [[nodiscard]] bool may_vacuum() const;
    size_t vacuum_some();
    [[nodiscard]] bool may_vacuum(const ShardTable& table) const;
    [[nodiscard]] Errc judge_push(const ShardTable& table, const Request& request) const;
    [[nodiscard]] bool serves(const ShardTable& table, const Request& request) const;
    void refuse(ConnectionId connection, std::string_view why) override;
    void close(ConnectionId connection) override;
    void send_to_shard(ConnectionId connection, wire::FrameHeader& header) override;
    void send_to_manager(const wire::FrameHeader& header, std::span<const std::byte> body) override;

    // shard_checkpoint.cc: checkpoints, and tables that are read from one
    /// Reads a table, sends its rows to the backups, and reports that: one reads at a time, in order.
    struct Fill {
        enum class Stage : uint8_t { kWaiting, kReading, kCopying, kReported };

        CheckpointOrder order;  ///< of this table alone
        Stage stage = Stage::kWaiting;
        std::unique_ptr<TableFill> rows = nullptr;  ///< kReading

        [[nodiscard]] uint32_t table() const noexcept { return order.tables[0].table; }
    };

    void order_checkpoint(std::span<const std::byte> body);
    void settle_checkpoint();
    void report_on_checkpoint(const CheckpointReport& report);
    size_t go_on_with_checkpoint();
    void fail_checkpoint(const Error& why);
    void begin_fill(const CheckpointOrder& order);
    size_t go_on_filling(Fill& fill);
    void report_filled(uint32_t table, const Status& outcome);
    [[nodiscard]] bool is_reading_rows() const noexcept;
    void watch_iterations(ShardTable& table);

    // shard_fetch.cc: where are its keys and values
    void start(Session& session, Request& request);
    void count_mapped(const Request& request);

    [[nodiscard]] bool find_bytes(Request& request) {
        constexpr uint8_t kRemote = wire::kKeysRemote | wire::kValuesRemote;
        const bool is_remote = (request.header.flags & kRemote) != 0 && !request.has_been_read;
        if (is_remote && !map_bytes(request)) return false;
        if (is_moving_) [[unlikely]]
            keep_keys(request);
        return true;
    }

    void keep_keys(Request& request);

    [[nodiscard]] bool map_bytes(Request& request);
    [[nodiscard]] std::byte* map(ConnectionId connection, const wire::MemoryHandle& at,
                                 size_t alignment, transport::Access access);
    size_t run_fetched();
    void fetched(Session& session, KeptRequest& request);
    [[nodiscard]] bool may_still_run(const Session& session, const Request& request);

    // shard_order.cc: pushes take effect in order, and once
    void admit_push(Session& session, ShardTable& table, Request& request);
    [[nodiscard]] bool execute(const Session& session, ShardTable& table, PushOrder& order,
                               const Request& request);
    void pull_pushed(const Request& push);
    [[nodiscard]] uint32_t first_segment(const ShardTable& table,
                                         const Request& request) const noexcept;
    [[nodiscard]] Result<Entries> resolve_push(ShardTable& table, const Request& request,
                                               uint32_t first, Touched& touched);
    void run_queue(Session& session, ShardTable& table);
    void fetched_push(Session& session, ShardTable& table, KeptRequest& push);
    void forget_pushes(Session& session);

    // shard_push.cc: changes the table
    void apply(const Request& request);
    void push_part(ShardTable& table, const Request& request);
    [[nodiscard]] bool fits_into_change(const ShardTable& table, uint64_t iteration);
    void record_made_rows(ShardTable& table, const Request& request, size_t row_count);

    // shard_parts.cc: parts that have arrived, the end of an iteration
    void end_part(ShardTable& table, const OpenIterations::Part& part,
                  const wire::FrameHeader& header, const IterationFailure& outcome,
                  const Entries* all);
    void end_unused_part(ShardTable& table, const Session& session, const wire::FrameHeader& part,
                         Errc status);
    void refuse_part(ShardTable& table, const Session& session, const wire::FrameHeader& part,
                     IterationProgress::Verdict verdict);
    [[nodiscard]] static bool is_repeated(ShardTable& table, const Session& session,
                                          const OpenIterations::Part& part, uint64_t iteration);
    void reply_closed(ShardTable& table, const OpenIterations::Part& part, uint64_t iteration);
    void reply_hopeless(ShardTable& table, uint64_t iteration);
    void restart_iterations(ShardTable& table);
    void finish_iterations(ShardTable& table, const Entries* all = nullptr);
    void close_iterations(ShardTable& table, const Entries* all);

    // shard_pull.cc: sends values
    void pull(ShardTable& table, const Request& request);
    void end_pull(const Request& request, Errc status, uint64_t shown,
                  std::span<const std::byte> values = {});
    [[nodiscard]] Result<std::span<const std::byte>> values_of(ShardTable& table,
                                                               const Request& request,
                                                               size_t bytes);
    [[nodiscard]] Errc read_rows(ShardTable& table, const Request& request,
                                 std::span<std::byte> out);
    void pull_by_write(ShardTable& table, const Request& request, size_t bytes);
    size_t post_waiting_writes();
    void end_writes();

    // shard_scan.cc: reads out a table
    void scan(Session& session, const wire::Frame& frame);
    void scan_by_write(Session& session, const wire::Frame& frame, const ScanMessage& asked,
                       const ScanReply& reply, const ScanColumns& columns, ShardTable& table);
    // shard_get.cc: what a command asks for
    void get(uint64_t request, std::span<const std::byte> body);
    [[nodiscard]] static KeyState read_key(TableShard& rows, uint64_t key,
                                           std::span<std::byte> values);

    // shard_stats.cc: what it tells of itself
    void reply_to_manager(uint64_t request, Errc status, std::span<const std::byte> body);
    void give_sign_of_life(ConnectionId connection, uint64_t request);
    [[nodiscard]] std::vector<std::byte> stats();
    void note_open_iterations(StatsMessage& message) const;

    // Arguments, and what is at hand.
    ShardOptions options_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    const Clock& clock_;
    MemoryWithCaches memory_;
    const RuleRegistry& rules_;
    RepeatedLog refusals_{clock_};
    /// Of one poll(). A member, so that poll() does not initialise it each time.
    std::array<transport::Completion, 64> completions_;
    KeptRequests requests_;  ///< that wait
    Fetcher fetcher_;
    KnownLists lists_;  ///< of all tables
    uint64_t pass_;     ///< PassesMessage

    // Its part in the job.
    Phase phase_ = Phase::kJoining;
    bool has_thrown_ = false;
    Status outcome_;  ///< kThrown, kOver
    ManagerLink to_manager_;
    bool manager_lost_ = false;
    bool is_admitted_ = false;  ///< a joining shard has its number
    ViewParts view_parts_;
    View view_;
    uint64_t since_ = 0;    ///< the epoch in which the positions that this shard owns last changed
    uint64_t held_in_ = 0;  ///< the epoch of the question for which iterations are held
    uint64_t ended_tables_ = 0;  ///< those below this number take no parts any more

    // Tables.

    /// A table that the manager orders before the first view: it is made when that is here.
    struct EarlyTable {
        uint64_t request;
        std::vector<std::byte> body;
    };

    /// The manager is to hear that the table is dropped once the replies to pushes before have left.
    struct UnreportedDrop {
        uint32_t table;
        Replies::Moment dropped;
    };

    std::vector<EarlyTable> early_tables_;
    std::deque<TableToFill> tables_to_fill_;  ///< in the order of their orders
    ShardTables tables_;
    std::vector<std::unique_ptr<ShardTable>> dropped_;  ///< of which the network reads rows
    std::vector<uint32_t> erasable_;                    ///< numbers of such tables
    std::vector<uint32_t> to_drop_;                     ///< tables that a checkpoint needs still
    std::vector<UnreportedDrop> unreported_drops_;

    // What waits. Requests of a table wait there, those of a connection at its session.
    RequestQueue early_;  ///< of a later epoch; they wait for its view
    Sessions sessions_;
    bool holds_pushes_ = false;  ///< until streams have room
    bool retry_ = false;         ///< deferred or held requests may now be able to go on

    // Replication, and what waits for it.
    Replication replication_;
    Holdings& holdings_ = replication_.holdings();
    Streams& streams_ = replication_.streams();
    Replies replies_;
    /// Something moves, is replicated, or is held for that. Derived by look_at_moves(); the way of a push
    /// branches on it.
    bool is_moving_ = false;

    // Checkpoints.
    CheckpointPart checkpoint_{tables_, holdings_, options_.disk};
    uint64_t kept_change_ = 0;  ///< the last one when the last rows were kept for a checkpoint
    std::vector<Fill> fills_;   ///< tables that are read from a checkpoint
    uint64_t watch_every_ = 0;  ///< closed iterations; 0: the manager does not want to know

    PullWrites writes_;
    RowScan row_scan_;
    StatsMessage counters_;

    // Kept for their memory.
    AggregatedRows aggregated_;
    std::vector<uint64_t> kept_keys_;  ///< of the push that is being executed
    std::vector<std::byte> reply_buffer_;
};

}  // namespace weir
