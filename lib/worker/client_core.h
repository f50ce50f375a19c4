// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClientCore: a worker's state machine. It joins the job, turns each push and pull into requests
/// to the shards that own the keys, and ends each call once all its requests have ended.
///
/// It puts together the rooms below, each of which knows only those before it:
///   calls/     Calls, CallTasks, Deadlines, KnownTables: what was begun, and when it ends
///   peers/     Standing, Peers: the job, and the connections to its shards and its manager
///   requests/  Requests, Sender: what is on its way, and in which order
///   core/      Control: calls without keys          Operations: pushes and pulls
///              Reductions: functions that read
///              IncomingReplies: what ends a request   Watch: deadlines, and servers that have stopped
///              Outages: connections that end        ViewChanges: keys that move
///
/// The way of a push:
///   core/operations.cc     push(): is it valid; a Call, and by the Route a Content for each shard
///   requests/sender.cc     submit(): in its order; requests/encoder.cc: how keys and values travel
///   core/incoming_replies.cc        receive(): the request has ended, or is sent again
///   core/view_changes.cc   of a later view: contents that are cut again (requests/cut.cc)
///   calls/calls.h          the call has ended: test() and wait() see it

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/node/state_machine.h"
#include "lib/ring/view.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/table_schema.h"
#include "lib/wire/work_message.h"
#include "lib/worker/calls/call_tasks.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/deadlines.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/calls/operation.h"
#include "lib/worker/client_options.h"
#include "lib/worker/core/control.h"
#include "lib/worker/core/incoming_replies.h"
#include "lib/worker/core/lost_errors.h"
#include "lib/worker/core/operations.h"
#include "lib/worker/core/outages.h"
#include "lib/worker/core/reductions.h"
#include "lib/worker/core/view_changes.h"
#include "lib/worker/core/watch.h"
#include "lib/worker/job_events.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/requests.h"
#include "lib/worker/requests/sender.h"
#include "transport/transport.h"

namespace weir {

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

    [[nodiscard]] bool finished() const override { return standing_.has_failed(); }

    [[nodiscard]] std::string name() const override { return standing_.name(); }

    /// Whether the client has joined the job, is connected to every shard, and has not left.
    [[nodiscard]] bool ready() const noexcept { return standing_.is_ready(); }

    /// Why the client cannot be used any more, or ok.
    [[nodiscard]] const Status& failure() const noexcept { return standing_.failure(); }

    [[nodiscard]] uint32_t worker() const noexcept { return standing_.options().worker; }

    [[nodiscard]] uint32_t worker_count() const noexcept {
        return static_cast<uint32_t>(view().workers().size());
    }

    /// By the first view.
    [[nodiscard]] uint32_t worker_count_at_start() const noexcept {
        return peers_.worker_count_at_start();
    }

    [[nodiscard]] const View& view() const noexcept { return peers_.view(); }

    /// The manager has said that the workers are to end.
    [[nodiscard]] bool is_stopping() const noexcept { return standing_.is_stopping(); }

    /// What later views have shown, and which managers lead, since the last call, oldest first; the last kEventsMax.
    [[nodiscard]] std::vector<JobEvent> take_events() { return events_.take(); }

    static constexpr size_t kEventsMax = JobEvents::kCountMax;

    [[nodiscard]] uint64_t epoch() const noexcept { return view().epoch(); }

    [[nodiscard]] size_t shard_count() const noexcept { return view().shards().size(); }

    // Calls to the manager.
    CallId create_table(TableSchema schema) { return control_.create_table(std::move(schema)); }

    CallId open_table(std::string_view table_name) {
        return control_.ask_about_table(wire::Kind::kOpenTable, table_name);
    }

    /// Which tables the job has, from number `first` on.
    CallId list_tables(uint64_t first) {
        return control_.ask({.kind = wire::Kind::kOpenTable, .first = first});
    }

    [[nodiscard]] Result<TableListMessage> take_list(CallId call) {
        return control_.take_list(call);
    }

    /// What servers know of an update rule that this process does not have.
    CallId ask_about_rule(std::string_view name) {
        return control_.ask({.kind = wire::Kind::kRule, .body = encode_text(name)});
    }

    /// Adds to rules() what an ended ask_about_rule() brought. Errors: Errc::kNotFound: no server has it
    [[nodiscard]] Status take_rule(CallId call);

    CallId drop_table(std::string_view table_name) {
        return control_.ask_about_table(wire::Kind::kDropTable, table_name);
    }

    /// `deadline_ns`: from now; 0: CallOptions::kLongNs. `after`: as CallOptions::after.
    CallId barrier(uint64_t deadline_ns, std::span<const TaskId> after = {}) {
        return control_.barrier(deadline_ns, after);
    }

    CallId take_work(uint32_t piece_count, uint64_t deadline_ns,
                     std::string_view description = {}) {
        const WorkMessage message{piece_count, std::string(description)};
        return control_.ask({.kind = wire::Kind::kWork, .body = message.encode()}, deadline_ns);
    }

    /// What an ended take_work() call brought.
    [[nodiscard]] Result<WorkShare> take_share(CallId call) { return control_.take_share(call); }

    /// `what`: not WorkAsk::kTake.
    CallId ask_about_work(WorkAsk what) {
        return control_.ask({.kind = wire::Kind::kWork, .first = static_cast<uint64_t>(what)});
    }

    /// What an ended WorkAsk::kLost brought.
    [[nodiscard]] Result<LostWorkersMessage> take_lost_workers(CallId call) {
        return control_.take_lost_workers(call);
    }

    /// Sends nothing, and ends when the tasks have finished; see CallOptions::after. `deadline_ns` 0: it
    /// has none.
    CallId wait_for(uint64_t deadline_ns, std::span<const TaskId> after) {
        return control_.wait_for(deadline_ns, after);
    }

    /// A part of an iteration that is still open counts as withdrawn, and other pushes that are may
    /// have no effect: wait until no push or pull is, has_open_values().
    CallId leave(const Status& outcome, uint64_t deadline_ns) {
        return control_.leave(outcome, deadline_ns);
    }

    [[nodiscard]] bool has_open_values() {
        return requests_.has_open_values() || reductions_.has_open();
    }

    /// Ends when a checkpoint is on the disk that was begun after this call.
    CallId checkpoint(uint64_t deadline_ns) { return control_.checkpoint(deadline_ns); }

    /// The number of the one that an ended checkpoint() call brought.
    [[nodiscard]] Result<uint64_t> take_checkpoint(CallId call) {
        return control_.take_checkpoint(call);
    }

    CallId ask_about_checkpoints(CheckpointAsk ask) {
        return control_.ask({.kind = wire::Kind::kCheckpoint, .first = static_cast<uint64_t>(ask)});
    }

    [[nodiscard]] Result<ResumedMessage> take_resumed(CallId call) {
        return control_.take_resumed(call);
    }

    [[nodiscard]] Result<WrittenMessage> take_written(CallId call) {
        return control_.take_written(call);
    }

    /// The table that an ended create_table() or open_table() call found.
    [[nodiscard]] Result<TableInfo> take_table(CallId call) { return control_.take_table(call); }

    [[nodiscard]] std::string rule_of_table(CallId call) { return control_.rule_of_table(call); }

    CallId stats(uint32_t shard) {
        return control_.ask({.peer = shard, .kind = wire::Kind::kStats});
    }

    [[nodiscard]] Result<StatsMessage> take_stats(CallId call) { return control_.take_stats(call); }

    // Reading out a table, shard by shard (scan.h). A scan whose positions have moved ends
    // with kStaleEpoch when this client has the view that says so.
    // `memory` is of memory(); the call owns it, and an ended call brings it back if it has succeeded.
    CallId scan(uint32_t shard, const ScanMessage& message, Block memory, uint64_t deadline_ns) {
        return control_.scan(shard, message, std::move(memory), deadline_ns);
    }

    [[nodiscard]] Result<Control::Scanned> take_scan(CallId call) {
        return control_.take_scan(call);
    }

    [[nodiscard]] const std::string& peer_name(uint32_t shard) const noexcept {
        return peers_[shard].name;
    }

    /// See Operations.
    [[nodiscard]] uint64_t first_iteration(uint32_t table) const noexcept {
        return operations_.first_iteration(table);
    }

    /// What the next push of an iteration of the table has to name; nothing if this worker takes
    /// part in none.
    [[nodiscard]] std::optional<uint64_t> next_iteration(uint32_t table) const {
        if (first_iteration(table) == kNoIteration) return std::nullopt;
        return operations_.last_iteration(table) + 1;
    }

    // Calls to shards. Keys are sorted and unique.
    CallId push(const TableInfo& table, std::span<const uint64_t> keys,
                std::span<const std::byte> values, const CallOptions& options) {
        const size_t row_bytes = table.pushed_row_bytes;
        return operations_.push(
            {&table, wire::Kind::kPush, false, {}, keys, values, {}, row_bytes, 0, options});
    }

    CallId push(const TableInfo& table, KeyRange keys, std::span<const std::byte> values,
                const CallOptions& options) {
        const size_t row_bytes = table.pushed_row_bytes;
        return operations_.push(
            {&table, wire::Kind::kPush, true, keys, {}, values, {}, row_bytes, 0, options});
    }

    CallId pull(const TableInfo& table, std::span<const uint64_t> keys, std::span<std::byte> out,
                const CallOptions& options) {
        return operations_.pull(
            {&table, wire::Kind::kPull, false, {}, keys, {}, out, 0, table.row_bytes, options});
    }

    CallId pull(const TableInfo& table, KeyRange keys, std::span<std::byte> out,
                const CallOptions& options) {
        return operations_.pull(
            {&table, wire::Kind::kPull, true, keys, {}, {}, out, 0, table.row_bytes, options});
    }

    /// Several pushes and pulls as one call. What goes to one shard is one message, if it fits. The
    /// operations have the same deadline, iteration and `after`.
    CallId start(std::vector<Operation> operations) {
        return operations_.start(std::move(operations));
    }

    /// A function that reads.
    CallId reduce(Reductions::Question question, uint64_t deadline_ns,
                  std::span<const TaskId> after) {
        return reductions_.start(std::move(question), deadline_ns, after);
    }

    /// As Table::set_filters().
    [[nodiscard]] Status set_filters(const TableInfo& table, const Filters& filters) {
        return filters_.set(table, filters);
    }

    /// Pushes what is held back: a call for each table that has no iterations. As Client::flush().
    [[nodiscard]] std::vector<CallId> flush() { return operations_.flush(); }

    /// As the worker leaves, behind flush().
    void warn_of_held() { operations_.warn_of_held(); }

    /// Whether some table has, or a call has named some.
    [[nodiscard]] bool has_filters() const noexcept { return !filters_.empty(); }

    /// Rows of the table that are held back.
    [[nodiscard]] size_t held_count(uint32_t table) const noexcept {
        return filters_.held_count(table);
    }

    [[nodiscard]] FilterTraffic filter_traffic() const noexcept {
        FilterTraffic traffic = counters_.filters;
        traffic.rows_held = filters_.held_count();
        return traffic;
    }

    // Calls as tasks that others wait for.
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
    [[nodiscard]] uint64_t default_deadline_ns() const noexcept { return deadlines_.default_ns(); }

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
    void lose_outcome(CallId call) { lost_errors_.lose_outcome(call); }

    /// The same for an error that was taken.
    void lose_error(const Error& error) { lost_errors_.lose(error); }

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
    [[nodiscard]] size_t open_requests() const noexcept { return requests_.open_count(); }

    /// Whether an open request reads from, or writes to, a part of this memory.
    [[nodiscard]] bool is_referenced(std::span<const std::byte> memory) noexcept {
        return requests_.is_referenced(memory) || tasks_.is_referenced(memory) ||
               calls_.is_referenced(memory);
    }

    /// Registered memory. If it runs short, remembered routes are forgotten.
    [[nodiscard]] Memory& memory() noexcept { return memory_; }

    [[nodiscard]] const RuleRegistry& rules() const noexcept { return rules_; }

    [[nodiscard]] const ClientCounters& counters() const noexcept { return counters_; }

    [[nodiscard]] const transport::EndpointCounters& endpoint_counters() const noexcept {
        return endpoint_->counters();
    }

private:
    void handle(const transport::Completion& completion);
    void receive(transport::ConnectionId connection, std::span<const std::byte> message);
    [[nodiscard]] bool receive_replies(transport::ConnectionId connection, wire::Frame& frame,
                                       std::span<const std::byte> rest);
    [[nodiscard]] bool receive_from_manager(const wire::Frame& frame);
    void admitted(std::span<const std::byte> body);
    void job_failed(Status why);
    size_t poll_link();
    size_t run_tasks();

    const Clock& clock_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    /// The completions of one poll; a member so that it is cleared only once.
    std::array<transport::Completion, 32> completions_;
    uint32_t polls_ = 0;
    uint64_t last_look_ns_ = 0;  ///< of poll_seldom()
    MemoryWithCaches memory_;
    RuleRegistry rules_;  ///< those of servers that were asked about, before those of the process
    ClientCounters counters_;
    JobEvents events_;
    // The rooms; each refers only to those before it.
    Calls calls_;
    KnownTables tables_;
    Standing standing_;
    Deadlines deadlines_;
    CallTasks tasks_;
    Peers peers_;
    Requests requests_;
    Sender sender_;
    Control control_;
    ClientFilters filters_;
    Operations operations_;
    Reductions reductions_;
    IncomingReplies replies_;
    LostErrors lost_errors_;
    Watch watch_;
    Outages outages_;
    ViewChanges views_;
};

}  // namespace weir
