// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClientCore: a worker's state machine. It joins the job, turns each push and pull into requests
/// to the shards that own the keys, and ends each call once all its requests have ended.
///
/// The way of a push, from file to file:
///   client_calls.cc      push(): is it valid; a Call, and by the Route a Request to each shard
///   client_post.cc       submit(): the frame, and how keys and values travel
///   client_replies.cc    answered(): the request has ended, or is sent again
///   client_views.cc      of a later view: requests that are cut again
///   calls.h              the call has ended: test() and wait() see it
/// Beside it: client_tasks.cc (calls that wait for others), client_join.cc (connections), client_deadlines.cc (deadlines and signs of life) and
/// held_failures.h (which error is the cause).

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/node/manager_link.h"
#include "lib/node/state_machine.h"
#include "lib/ring/view.h"
#include "lib/ring/view_change.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/table_schema.h"
#include "lib/wire/checkpoint_message.h"
#include "lib/wire/frame.h"
#include "lib/wire/messages.h"
#include "lib/wire/scan_message.h"
#include "lib/wire/work_message.h"
#include "lib/wire/work_share.h"
#include "lib/worker/calls/call_tasks.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/departures.h"
#include "lib/worker/calls/held_failures.h"
#include "lib/worker/calls/piece_order.h"
#include "lib/worker/calls/pushed_iterations.h"
#include "lib/worker/calls/route.h"
#include "lib/worker/calls/slots.h"
#include "lib/worker/job_event.h"
#include "transport/transport.h"

namespace weir {

struct ClientCoreOptions {
    uint32_t worker = 0;  ///< number in the job
    uint32_t rank = 0;    ///< of this process; the manager gets it
    /// Not 0: the worker joins a running job, which gives it number and rank. Any other number.
    uint64_t joiner = 0;
    bool has_iterations = true;  ///< a worker that joins: it takes part in iterations
    std::string manager_address;
    LinkIdentity link = {};  ///< of the link to the manager
    /// To which the job writes checkpoints, as its user named it; empty: to none, or that is not known here.
    std::string checkpoint_folder = {};
    uint64_t join_timeout_ns = 35 * kSecond;
    uint64_t deadline_ns = 30 * kSecond;  ///< of a call, from when it is sent
    /// Limit for remembered routes: this client's share of what caches may take of its pool.
    size_t route_cache_bytes = size_t{256} << 20;
    /// Up to this many bytes of keys or values go in the message to a shard that would otherwise
    /// have to READ them: copying them costs less than a network round trip.
    size_t eager_bytes = 4096;
    /// What it makes its pass of (PassesMessage); none: drawn at random.
    std::optional<uint64_t> secret_seed = {};
};

/// What a client knows of a table.
struct TableInfo {
    TableSchema schema;
    size_t row_bytes = 0;         ///< of a key's values
    size_t pushed_row_bytes = 0;  ///< of what a push brings per key
    PositionMap positions = PositionMap::sparse();
    uint64_t checkpoint = 0;  ///< that it comes from; 0: none
};

/// Errors: as check_schema()
[[nodiscard]] Result<TableInfo> make_table_info(TableSchema schema, const RuleRegistry& rules);

struct CallOptions {
    /// Push: combine over all workers; pull: wait until this iteration is applied. Not 0.
    std::optional<uint64_t> iteration = std::nullopt;
    /// From when the call is made. 0: of one that names an iteration, kLongNs; of others the client's
    /// default, from when they start.
    uint64_t deadline_ns = 0;
    static constexpr uint64_t kLongNs = uint64_t{365} * 24 * 3600 * kSecond;
    static constexpr uint64_t kOver = 1;  ///< the deadline has passed: nothing is sent
    /// Tasks that must have finished before the call starts. Read before the call returns.
    std::span<const TaskId> after = {};
    /// Push: of the rule. Read before the call returns.
    std::span<const NamedNumber> arguments = {};
};

struct ClientCounters {
    uint64_t pushes = 0;
    uint64_t pulls = 0;
    uint64_t requests = 0;
    uint64_t bytes_copied = 0;  ///< values and keys that were copied into or out of our buffers
    uint64_t errors_lost = 0;   ///< of calls whose outcome nobody has asked for
};

/// A call ends when all its requests have ended, with the first error among them. A call that has an
/// error ends as soon as no open request needs the caller's memory. Buffers given to push and pull
/// belong to the call until it has ended.
///
/// At its deadline a call is withdrawn. If a server may still read or write the caller's memory, its
/// connection is closed, and the call ends when that is done. What other calls have open there is sent
/// again on the next connection. A push that was withdrawn may have been applied, at most once.
///
/// Thread: one
class ClientCore final : public StateMachine {
public:
    using CallId = Calls::Id;

    ClientCore(ClientCoreOptions options, std::unique_ptr<transport::Endpoint> endpoint,
               const Clock& clock, Memory& memory, const RuleRegistry& rules);
    ~ClientCore() override;
    ClientCore(const ClientCore&) = delete;
    ClientCore& operator=(const ClientCore&) = delete;

    size_t poll() override;
    /// poll() for a caller that computes between polls: checks deadlines and dead peers if it has
    /// not done so for 1 ms. poll() itself checks them only once in many calls.
    size_t poll_seldom();
    [[nodiscard]] int arm() override;
    /// How long the owner may sleep at most after arm(): until a pause ends.
    [[nodiscard]] uint64_t sleep_ns_max() const noexcept override;

    [[nodiscard]] bool finished() const override { return phase_ == Phase::kFailed; }

    [[nodiscard]] std::string name() const override;

    /// Whether the client has joined the job, is connected to every shard, and has not left.
    [[nodiscard]] bool ready() const noexcept { return phase_ == Phase::kReady; }

    /// Why the client cannot be used any more, or ok.
    [[nodiscard]] const Status& failure() const noexcept { return failure_; }

    [[nodiscard]] uint32_t worker() const noexcept { return options_.worker; }

    [[nodiscard]] uint32_t worker_count() const noexcept { return worker_count_; }

    /// By the first view.
    [[nodiscard]] uint32_t worker_count_at_start() const noexcept { return count_at_start_; }

    [[nodiscard]] const View& view() const noexcept { return view_; }

    /// The manager has said that the workers are to end.
    [[nodiscard]] bool is_stopping() const noexcept { return is_stopping_; }

    /// What later views have shown, and which managers lead, since the last call, oldest first; the last kEventsMax.
    [[nodiscard]] std::vector<JobEvent> take_events();
    static constexpr size_t kEventsMax = 1024;

    [[nodiscard]] uint64_t epoch() const noexcept { return view_.epoch(); }

    [[nodiscard]] size_t shard_count() const noexcept { return view_.shards().size(); }

    // Calls to the manager.
    CallId create_table(const TableSchema& schema);
    CallId open_table(std::string_view table_name);
    CallId drop_table(std::string_view table_name);
    /// `deadline_ns`: from now; 0: CallOptions::kLongNs. `after`: as CallOptions::after.
    CallId barrier(uint64_t deadline_ns, std::span<const TaskId> after = {});
    CallId take_work(uint32_t piece_count, uint64_t deadline_ns, std::string_view description = {});
    /// What an ended take_work() call brought.
    [[nodiscard]] Result<WorkShare> take_share(CallId call);
    /// `what`: not WorkAsk::kTake.
    CallId ask_about_work(WorkAsk what);
    /// What an ended WorkAsk::kLost brought.
    [[nodiscard]] Result<LostWorkersMessage> take_lost_workers(CallId call);
    /// Sends nothing, and ends when the tasks have finished; see CallOptions::after. `deadline_ns` 0: it
    /// has none.
    CallId wait_for(uint64_t deadline_ns, std::span<const TaskId> after);
    /// A part of an iteration that is still open counts as withdrawn, and other pushes that are may
    /// have no effect: wait until no push or pull is, has_open_values().
    CallId leave(const Status& outcome, uint64_t deadline_ns);
    [[nodiscard]] bool has_open_values();
    /// Ends when a checkpoint is on the disk that was begun after this call.
    CallId checkpoint(uint64_t deadline_ns);
    /// The number of the one that an ended checkpoint() call brought.
    [[nodiscard]] Result<uint64_t> take_checkpoint(CallId call);
    CallId ask_about_checkpoints(CheckpointAsk ask);
    [[nodiscard]] Result<ResumedMessage> take_resumed(CallId call);
    [[nodiscard]] Result<WrittenMessage> take_written(CallId call);
    /// The table that an ended create_table() or open_table() call found.
    [[nodiscard]] Result<TableInfo> take_table(CallId call);
    CallId stats(uint32_t shard);
    [[nodiscard]] Result<StatsMessage> take_stats(CallId call);

    // client_scan.cc: reading out a table, shard by shard. A scan whose positions have moved ends
    // with kStaleEpoch when this client has the view that says so.
    CallId scan(uint32_t shard, const ScanMessage& message, uint64_t deadline_ns);
    /// The body of the shard's reply.
    [[nodiscard]] Result<std::vector<std::byte>> take_scan(CallId call);

    [[nodiscard]] const std::string& peer_name(uint32_t shard) const noexcept {
        return peers_[shard].name;
    }

    /// From which iteration of a table on this worker takes part: 1, or for one that joined later
    /// an iteration that no shard had closed; of a table that comes from a checkpoint, that behind its
    /// last one; kNoIteration: in none.
    [[nodiscard]] uint64_t first_iteration(uint32_t table) const noexcept {
        const auto closed = closed_at_start_.find(table);
        const uint64_t first = view_.first_iteration(options_.worker, table);
        return closed == closed_at_start_.end() ? first : std::max(first, closed->second + 1);
    }

    /// What the next push of an iteration of the table has to name; nothing if this worker takes
    /// part in none.
    [[nodiscard]] std::optional<uint64_t> next_iteration(uint32_t table) const {
        if (first_iteration(table) == kNoIteration) return std::nullopt;
        return last_iteration(table) + 1;
    }

    // Calls to shards. Keys are sorted and unique.
    CallId push(const TableInfo& table, std::span<const uint64_t> keys,
                std::span<const std::byte> values, const CallOptions& options);
    CallId push(const TableInfo& table, KeyRange keys, std::span<const std::byte> values,
                const CallOptions& options);
    CallId pull(const TableInfo& table, std::span<const uint64_t> keys, std::span<std::byte> out,
                const CallOptions& options);
    CallId pull(const TableInfo& table, KeyRange keys, std::span<std::byte> out,
                const CallOptions& options);

    // client_tasks.cc: calls as tasks that others wait for
    /// The name of a call that was not taken; kNoTask for another.
    [[nodiscard]] TaskId name_task(CallId call);
    /// Runs `handler` in a poll() after the requests of the call have ended, or the call has
    /// without any. The calls that it makes become subtasks; the call is done() when they are.
    /// Errors: kInvalidArgument if the call was taken
    [[nodiscard]] Status on_finished(CallId call, CallTasks::Handler handler);

    /// Whether a handler runs. poll() then runs no other.
    [[nodiscard]] bool is_in_handler() const noexcept { return tasks_.is_in_handler(); }

    /// Whether the caller's memory is its own again.
    [[nodiscard]] bool is_memory_free(CallId call) noexcept { return calls_.has_ended(call); }

    /// A call that has ended with `error`.
    CallId failed_call(Error error) { return calls_.failed(std::move(error)); }

    /// Of a call that names none.
    [[nodiscard]] uint64_t default_deadline_ns() const noexcept { return options_.deadline_ns; }

    /// A call that has not started ends with kCancelled. Returns whether it was one.
    bool cancel_waiting(CallId call);

    /// Handlers that have not run will not run.
    void drop_handlers() { tasks_.drop_handlers(); }

    [[nodiscard]] const TaskGraph& graph() const noexcept { return tasks_.graph(); }

    /// Makes graph() know what has ended and what was taken.
    void settle_tasks() { tasks_.advance(); }

    /// True once the call has ended, with or without an error, or was taken.
    [[nodiscard]] bool done(CallId call) noexcept { return calls_.done(call); }

    /// The outcome of an ended call, which is then forgotten.
    [[nodiscard]] Status take(CallId call) { return calls_.take(call); }

    /// Nobody will ask for the outcome of the call, which has ended: an error is counted, and logged once for
    /// each table and kind of error.
    void lose_outcome(CallId call);
    /// The same for an error that was taken.
    void lose_error(const Error& error);

    /// See Calls::iteration_shown().
    [[nodiscard]] std::optional<uint64_t> iteration_shown(CallId call) noexcept {
        return calls_.iteration_shown(call);
    }

    /// Forgets the call once its requests have ended. These continue.
    void drop(CallId call) noexcept { calls_.drop(call); }

    /// Fails all calls and closes the connections that have open requests. These requests end
    /// once their servers can no longer reach their memory: poll() until open_requests() is 0.
    void close();

    /// Requests that have not ended, without those that were kept aside. These never end: their
    /// server did not release their memory in time, and may still reach it.
    [[nodiscard]] size_t open_requests() const noexcept {
        return requests_.in_use() - requests_kept_aside_;
    }

    /// Whether an open request reads from, or writes to, a part of this memory.
    [[nodiscard]] bool is_referenced(std::span<const std::byte> memory) noexcept;

    /// Registered memory. If it runs short, remembered routes are forgotten.
    [[nodiscard]] Memory& memory() noexcept { return memory_; }

    [[nodiscard]] const RuleRegistry& rules() const noexcept { return rules_; }

    [[nodiscard]] const ClientCounters& counters() const noexcept { return counters_; }

    [[nodiscard]] const transport::EndpointCounters& endpoint_counters() const noexcept {
        return endpoint_->counters();
    }

private:
    static constexpr const char* kTooManyRequests =
        "too many requests are open; wait for some calls";
    static constexpr const char* kMemoryNotReleased =
        "; the peer did not confirm the end of the connection, and may still read or write the "
        "memory of the requests that were open there: this client does not use that memory again";

    enum class Phase {
        kConnectingToManager,
        kJoining,
        kConnectingToShards,
        kReady,
        kLeft,  ///< the manager has confirmed leave(): open calls continue, none can be started
        kFailed
    };

    /// A shard, or (the last one) the manager.
    struct Peer {
        transport::ConnectionId connection = 0;
        enum class State {
            kConnecting,
            kOpen,
            kBroken,  ///< the connection was lost, or there was none yet; it is made anew
            kLost,    ///< for good
            kGone     ///< not in the view
        } state = State::kGone;
        Errc fault = Errc::kOk;  ///< why we are closing the connection; kOk: we are not
        bool is_dead = false;    ///< the manager says that it lost the shard
        std::string loss;        ///< and which parameters are lost; empty: unknown
        std::string trouble;  ///< why the last attempt to reach it failed, before all are reached
        uint64_t hello = 0;   ///< number of the connection, the first has 1
        bool is_greeted = false;     ///< the hello of this connection is sent
        bool is_held = false;        ///< changed by a view that is to be taken: nothing is sent
        bool is_closing = false;     ///< we close the connection, and it may be made anew
        uint64_t opened_ns = 0;      ///< when the connection opened
        uint64_t not_before_ns = 0;  ///< when to connect or send again: there is a pause until then
        uint64_t pause_ns = 0;       ///< before the next attempt to connect
        std::vector<PieceOrder> orders;  ///< by table, of this connection
        bool maps_memory = false;        ///< it addresses our registered memory directly
        size_t copied_bytes_max = 0;     ///< see transport::Capabilities
        bool flush_is_a_call = false;    ///< the same
        std::string name;                ///< "shard 0 of server 1 (rank 1)"
        /// Requests that could not be sent yet, or are to be sent again. Of each table, the pushes
        /// are in the order of their places.
        std::deque<uint64_t> waiting;
        bool asks_for_sign = false;  ///< a call waits for it longer than sign_period_ns()
        CallId sign = 0;             ///< the call that asks it for a sign of life; 0: none

        [[nodiscard]] PieceOrder& order(uint32_t table) {
            if (table >= orders.size()) orders.resize(table + 1);
            return orders[table];
        }
    };

    /// Of a push, as they travel; null: it brings none.
    using Arguments = std::shared_ptr<const std::vector<std::byte>>;

    struct Request {
        CallId call = 0;
        uint32_t peer = 0;
        enum class State : uint8_t {
            kUnsent,     ///< new, or to be sent again, and maybe in Peer::waiting
            kSent,       ///< its answer is to come
            kWithdrawn,  ///< barrier, work: the same, and the manager knows that the call has ended
            kAnswered,   ///< in held_failures_
            kStale,      ///< the shard has a later view: it waits for that one
            kKeptAside   ///< it never ends: the server did not release its memory
        };
        State state = State::kUnsent;
        wire::FrameHeader header;
        /// A Route or Fragments: keeps `piece` and regrouped keys. None for small calls.
        std::shared_ptr<const void> keeps;
        Piece* piece = nullptr;
        Arguments arguments = nullptr;
        std::span<const uint64_t> keys;    ///< none for ranges
        std::span<const std::byte> from;   ///< push: the values to send; control: the body
        std::span<std::byte> into;         ///< pull: where the values land
        std::span<std::byte> callers_out;  ///< pull through a copy: where values go in the end
        std::span<const uint32_t> order;   ///< ... and at which rows
        uint32_t row_bytes = 0;
        uint32_t send_number = 0;  ///< in its PieceOrder, while it is kSent
        PiecePlace place;          ///< of a push among those of this client in the table
        PositionMap positions = PositionMap::sparse();  ///< the table's
        bool was_sent = false;
        /// A connection to its shard closed without the shard's confirmation: until another one brings
        /// the answer, the shard may reach its memory.
        bool is_in_doubt = false;
        Block staged_keys;  ///< registered copies of what the caller did not register
        Block staged_values;
        std::vector<std::byte> body;  ///< control
    };

    /// The arguments of a push or pull, of a key list or a key range.
    struct Transfer {
        const TableInfo* table = nullptr;
        wire::Kind kind = wire::Kind::kPush;
        bool by_range = false;
        KeyRange range;
        std::span<const uint64_t> keys;
        std::span<const std::byte> values;
        std::span<std::byte> out;
        size_t row_bytes = 0;
        CallOptions options;
        Arguments arguments = nullptr;
    };

    /// The keys of a transfer that go to one shard as one request.
    struct Slice {
        uint32_t shard = 0;
        uint64_t begin = 0;  ///< as in Piece
        uint64_t count = 0;
        Piece* piece = nullptr;  ///< of the route; null if no key or all keys go to one shard
        std::shared_ptr<Route> route = nullptr;
        uint32_t parts = 0;  ///< requests that make up this shard's part of an iteration; 0: none
    };

    // client_core.cc: polling, calls and the requests of calls
    void handle(const transport::Completion& completion);
    void fail(Status status);

    [[nodiscard]] uint32_t manager() const noexcept {
        return static_cast<uint32_t>(peers_.size() - 1);
    }

    void end_request(uint64_t id, Request& request);
    void abandon_request(Request& request);
    void abandon_memory(Request& request);
    [[nodiscard]] static bool exposes_caller(const Request& request) noexcept;
    [[nodiscard]] static bool is_caller_reached(const Request& request) noexcept;
    [[nodiscard]] static bool needs_caller(const Request& request) noexcept;
    [[nodiscard]] bool call_needs_caller(CallId call);
    [[nodiscard]] Status check_barrier() const;
    void add_control_request(CallId call_id, uint32_t peer, wire::Kind kind,
                             std::vector<std::byte> body, uint64_t first = 0, uint32_t epoch = 0);
    /// `epoch`: of the view in which `peer` is asked, if it matters who is.
    CallId control(uint32_t peer, wire::Kind kind, std::vector<std::byte> body,
                   uint64_t deadline_ns = 0, uint64_t first = 0, uint32_t epoch = 0);

    // client_join.cc: joining, connections that open and close
    void connected(transport::ConnectionId connection);
    [[nodiscard]] bool greet(Peer& peer);
    void admitted(std::span<const std::byte> body);
    void begin_if_connected();
    void send_to_manager(wire::Kind kind, std::span<const std::byte> body);
    [[nodiscard]] bool goes_on_without(transport::ConnectionId connection);
    size_t poll_link();
    void lose_manager(const Status& why);
    void closed(transport::ConnectionId connection, Errc why, bool memory_in_doubt);
    void job_failed(Status why);
    void cut_off_requests();
    [[nodiscard]] bool has_copies() const noexcept;
    [[nodiscard]] std::string loss_of_server(uint32_t shard) const;
    [[nodiscard]] Error cause_first(Error why) const;
    [[nodiscard]] Error gone(const Peer& peer, const Request& request) const;
    [[nodiscard]] static Error add_loss(const Error& why, const Peer& peer);
    [[nodiscard]] static Error with_keys(const Status& why, const Request& request);
    void connect_again(uint64_t now_ns);
    void lose(uint32_t peer, const Status& why);
    void keep_for_next_connection(uint32_t peer);
    void shard_died(uint64_t shard, std::string loss);
    [[nodiscard]] std::vector<LeaveMessage::Withdrawn> withdrawn_iterations();
    void leave_shards();
    [[nodiscard]] Error no_answer_from(std::string_view whom) const;

    // client_views.cc: later views
    void receive_view(std::span<const std::byte> body);
    void take_view(View view);
    void note_event(JobEvent event);
    void begin_with(View view);
    void hold_changed(const View& next);
    [[nodiscard]] bool may_write(uint32_t shard);
    [[nodiscard]] bool is_given_up(transport::ConnectionId connection) const noexcept;
    [[nodiscard]] bool is_awaited(const Request& request) const noexcept;
    [[nodiscard]] bool awaits_answers();
    void adopt();
    void take_shards();
    void cut_again(const std::vector<uint64_t>& requests, uint64_t before);
    [[nodiscard]] bool is_void(const Request& request) const noexcept;
    void cut_again(uint64_t id, Request& request, std::vector<uint64_t>& cut);
    void cut_range(Request& from, SplitBy by, std::vector<uint64_t>& cut);
    void cut_list(Request& from, SplitBy by, std::vector<uint64_t>& cut);
    Request* add_fragment(const Request& from, uint32_t shard, KeyRange lost,
                          std::vector<uint64_t>& cut);
    void renew_part(CallId call_id, const std::vector<uint64_t>& requests, uint64_t before,
                    std::vector<uint64_t>& cut);

    // client_deadlines.cc: deadlines, and servers that have stopped
    void send_off(Call& call, uint64_t deadline_ns);
    void expire(uint64_t now_ns);
    static void withdraw(Call& call, const Request& request, Error why);
    [[nodiscard]] std::string text_of_deadline(const Request& request) const;
    [[nodiscard]] static std::string_view fate_of_push(wire::Kind kind);
    void end_withdrawn(uint64_t now_ns);
    void close_for_withdrawn(Peer& peer, uint64_t now_ns);
    void expire_join(uint64_t now_ns);

    /// Half the usual deadline, so that a stopped server is noticed within that deadline.
    [[nodiscard]] uint64_t sign_period_ns() const noexcept { return options_.deadline_ns / 2 + 1; }

    void take_signs_of_life();
    void ask_for_signs_of_life(uint64_t now_ns);
    void withdraw_from_manager();

    // client_calls.cc: what a call consists of
    CallId start(const Transfer& transfer);
    CallId start_push(Transfer transfer);
    [[nodiscard]] Result<Arguments> arguments_of(const Transfer& transfer) const;
    CallId failed_transfer(const Transfer& transfer, Status why);
    void note_table(CallId call_id, const Transfer& transfer);
    [[nodiscard]] std::string table_text(uint32_t table) const;
    [[nodiscard]] Status launch(const Transfer& transfer, CallId& call_id);
    [[nodiscard]] Status check_ready() const;
    [[nodiscard]] Status check_dropped(const TableSchema& table) const;
    void note_dropped(const wire::Frame& reply);
    [[nodiscard]] Status check(const Transfer& transfer) const;
    [[nodiscard]] Status check_shape(const Transfer& transfer) const;
    [[nodiscard]] Status check_iteration(const Transfer& transfer) const;
    [[nodiscard]] Status check_window(const Transfer& transfer);
    [[nodiscard]] uint64_t last_iteration(uint32_t table) const;
    [[nodiscard]] Result<std::shared_ptr<Route>> route_of(const Transfer& transfer);
    /// The shard to which all of it goes as one request; -1 if there is no such shard.
    [[nodiscard]] int single_owner(const Transfer& transfer) const noexcept;
    [[nodiscard]] int single_owner(const PositionMap& positions, KeyRange keys) const noexcept;
    void add_request(CallId call_id, Call& call, const Transfer& transfer, const Slice& slice);

    // client_tasks.cc: calls that start later
    [[nodiscard]] bool is_ordered(const Transfer& transfer) const;
    CallId start_in_order(const Transfer& transfer);
    CallId add_task(uint64_t deadline_ns, CallTasks::Waiting waiting, Status wrong);
    [[nodiscard]] Result<uint64_t> remaining_ns(const Call& call) const;
    const TableInfo& remember(const TableInfo& table);
    size_t run_tasks();

    // client_post.cc: from a request to a frame
    void submit(uint64_t id, Request& request);
    enum class Outcome { kSent, kWait, kFailed };
    [[nodiscard]] Outcome post(uint64_t id, Request& request);
    [[nodiscard]] bool may_send_to(Peer& peer);

    /// What follows the header.
    struct Body {
        std::array<std::span<const std::byte>, 6> parts;  ///< the first one is the header
        size_t count = 1;
        wire::MemoryHandle keys_at;
        wire::MemoryHandle values_at;
        wire::ListEnds ends;

        void add(std::span<const std::byte> part) { parts[count++] = part; }
    };

    [[nodiscard]] bool place(Request& request, Body& body);
    [[nodiscard]] Outcome send(Peer& peer, Request& request, Body& body);
    [[nodiscard]] bool place_keys(Request& request, std::span<const std::byte>& inline_keys,
                                  wire::MemoryHandle& handle, size_t& room);
    /// How the values of a push or pull travel.
    enum class ValuesWay {
        kInMessage,        ///< of a pull: in the reply
        kByAddress,        ///< the caller's memory is registered: the shard reads or writes it
        kCopiedByAddress,  ///< through a registered copy
        kCopiedInMessage   ///< push: put together in a copy, which goes into the message
    };
    [[nodiscard]] ValuesWay choose_values_way(const Request& request, size_t room,
                                              wire::MemoryHandle& handle);
    [[nodiscard]] bool stage_values(Request& request);
    [[nodiscard]] bool place_values(Request& request, std::span<const std::byte>& inline_values,
                                    wire::MemoryHandle& handle, size_t room);
    [[nodiscard]] size_t eager_bytes(const Request& request) const;
    [[nodiscard]] bool expose(const Request& request, std::span<const std::byte> memory,
                              wire::MemoryHandle& handle);
    [[nodiscard]] std::byte* stage(const Request& request, Block& block, size_t bytes);
    void send_as_failed(Request& request, Errc why);
    size_t send_waiting();
    [[nodiscard]] bool tell_time(Peer& peer, PieceOrder& order, const Request& request);
    void send_again(uint64_t id, Request& request, bool after_pause);
    void queue_again(Peer& peer, std::vector<uint64_t> requests);
    size_t end_held_failures();

    // client_replies.cc: from a reply to the end of a request
    void receive(transport::ConnectionId connection, std::span<const std::byte> message);
    void values_written(transport::ConnectionId connection, uint32_t immediate);
    void refuse(transport::ConnectionId connection, std::string_view why);
    void answered(uint64_t id, Request& request, const wire::Frame& frame);
    void note_shown(Call& call, const Request& request, uint64_t shown);
    [[nodiscard]] bool is_sent_again(uint64_t id, Request& request, Errc answer);
    void pulled(uint64_t id, Request& request);
    void deliver(Request& request, std::span<const std::byte> values);
    [[nodiscard]] Error error_of(const Request& request, const wire::Frame& frame) const;
    [[nodiscard]] Error describe(const Request& request, const wire::Frame& frame) const;
    [[nodiscard]] Error failed_iteration(const Request& request, const wire::Frame& frame) const;

    ClientCoreOptions options_;
    uint64_t pass_;  ///< PassesMessage
    std::unique_ptr<transport::Endpoint> endpoint_;
    /// The completions of one poll; a member so that it is cleared only once.
    std::array<transport::Completion, 32> completions_;
    const Clock& clock_;
    MemoryWithCaches memory_;
    const RuleRegistry& rules_;
    Phase phase_ = Phase::kConnectingToManager;
    Status failure_;
    uint64_t started_ns_;
    uint64_t last_look_ns_ = 0;
    uint64_t next_deadline_ns_ = ~uint64_t{0};  ///< no deadline or sign is due before
    bool gave_up_ = false;                      ///< leave() was called with an error
    bool is_at_shards_ = true;  ///< until the worker has left and its calls have ended
    uint32_t polls_ = 0;
    uint32_t message_bytes_max_;
    uint32_t worker_count_ = 0;
    uint32_t count_at_start_ = 0;
    size_t requests_kept_aside_ = 0;
    size_t waiting_count_ = 0;  ///< size of `waiting`, over all peers
    size_t broken_count_ = 0;   ///< peers that are kBroken
    HeldFailures held_failures_;
    Departures departures_;
    std::optional<bool> may_wait_;  ///< what was posted since the last call was sent off
    bool is_admitted_ = false;      ///< a worker that joins has its number
    ViewParts view_parts_;
    std::deque<std::pair<uint64_t, JobEvent>> events_;  ///< and when
    View view_;
    bool is_stopping_ = false;       ///< the manager has said that the workers are to end
    std::optional<View> next_view_;  ///< to be taken when all shards that it changes have answered
    uint64_t awaited_ = 0;           ///< a request that it waits for
    std::vector<uint32_t> owners_;   ///< the shards that have segments
    std::vector<Peer> peers_;
    std::optional<Error> manager_end_;   ///< why nobody says any more who lives
    std::vector<TableSchema> schemas_;   ///< of the tables that were made or opened here
    std::set<uint32_t> dropped_;         ///< tables that this worker has dropped
    std::set<std::string> told_losses_;  ///< of lose_outcome(): what was logged
    ManagerLink to_manager_;
    Calls calls_;
    CallTasks tasks_;
    /// The tables of calls that waited, by number: the caller's may be gone when they start.
    std::unordered_map<uint32_t, std::unique_ptr<const TableInfo>> remembered_tables_;
    Slots<Request> requests_;
    std::vector<uint64_t> times_;  ///< by table: pieces cut so far
    std::unordered_map<uint32_t, PushedIterations> pushed_iterations_;  ///< by table
    /// By table, of those that come from a checkpoint: the last iteration that was closed there.
    std::unordered_map<uint32_t, uint64_t> closed_at_start_;
    RouteCache routes_;
    ClientCounters counters_;
};

}  // namespace weir
