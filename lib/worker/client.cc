// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/client.h"

#include <algorithm>
#include <functional>
#include <span>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/worker/client_state.h"

namespace weir {

namespace {

uint64_t deadline_ns_of(std::chrono::nanoseconds deadline) {
    return deadline.count() < 0 ? CallOptions::kOver : static_cast<uint64_t>(deadline.count());
}

/// Before a call of which the caller waits for the end anyway.
Status wait_for(ClientState& state, std::span<const TaskId> after) {
    WEIR_TRY(state.may_wait());
    return after.empty() ? Status() : state.finish(state.core().wait_for(0, after));
}

/// Workers among `events` of which the manager says that they are lost have not left. If it does not
/// answer, no worker can go on.
void tell_lost_workers(ClientState& state, std::vector<JobEvent>& events) {
    using Kind = JobEvent::Kind;
    const auto is_gone = [](const JobEvent& event) { return event.kind == Kind::kWorkerLeft; };
    if (std::ranges::none_of(events, is_gone)) return;
    const ClientCore::CallId call = state.core().ask_about_work(WorkAsk::kLost);
    state.wait_until([&] { return state.core().done(call); });
    const Result<LostWorkersMessage> lost = state.core().take_lost_workers(call);
    if (!lost) return;
    for (JobEvent& event : events) {
        const bool is_lost = std::ranges::binary_search(lost->workers, event.number);
        if (is_gone(event) && is_lost) event.kind = Kind::kWorkerLost;
    }
}

CallOptions options_of(const access::Options& options) {
    return {options.iteration, deadline_ns_of(options.deadline), options.after, options.arguments};
}

}  // namespace

namespace access {

/// Acquire and release: what one thread did in the client comes before the next one's turn. A thread
/// finds its own mark only if it has set it, so it sees a nested turn in any case.
Turn::Turn(ClientState& state) noexcept : state_(state) {
    pthread_t user = 0;
    const pthread_t self = ::pthread_self();
    is_outermost_ = state.user().compare_exchange_strong(user, self, std::memory_order_acquire,
                                                         std::memory_order_relaxed);
    has_turn_ = is_outermost_ || user == self;
}

Turn::~Turn() {
    if (is_outermost_) state_.user().store(0, std::memory_order_release);
}

Error Turn::error() const {
    if (state_.tells_of_two_threads()) log(LogLevel::kError, "{}", no_turn().text());
    return no_turn();
}

Error no_turn() {
    return {Errc::kTwoThreads,
            "two threads use one client at the same time: nothing was done for the one that came "
            "later; make a client for each thread (JobOptions::workers), or let one wait for the "
            "other"};
}

}  // namespace access

using access::Turn;
using access::TurnInTheEnd;

Task& Task::operator=(Task&& other) noexcept {
    if (this != &other) {
        if (state_ != nullptr) finish();
        state_ = std::move(other.state_);
        call_ = other.call_;
        result_ = std::exchange(other.result_, {});
        shown_ = std::exchange(other.shown_, {});
        id_ = std::exchange(other.id_, kNoTask);
    }
    return *this;
}

TaskId Task::id() {
    if (state_ == nullptr) return id_;
    const Turn turn(*state_);
    if (!turn) {
        (void)turn.error();
        return kUnknownTask;
    }
    if (id_ == kNoTask) id_ = state_->core().name_task(call_);
    return id_;
}

Status Task::then(std::function<void(const Status&)> handler) {
    if (state_ != nullptr) {
        const Turn turn(*state_);
        if (!turn) return turn.error();
        return state_->core().on_finished(call_, std::move(handler));
    }
    return Error(Errc::kInvalidArgument,
                 "a handler for a task that is empty or whose outcome was taken: attach it before "
                 "wait()");
}

bool Task::has_ended() const {
    if (state_ == nullptr) return true;
    const Turn turn(*state_);
    return turn && state_->core().done(call_);
}

bool Task::test() {
    if (state_ == nullptr) return true;
    const Turn turn(*state_);
    if (!turn) {
        (void)turn.error();
        return false;
    }
    if (state_->core().done(call_)) return true;
    (void)state_->core().poll_seldom();
    return state_->core().done(call_);
}

Status Task::wait() {
    if (state_ == nullptr) return result_;
    std::shared_ptr<ClientState> until_the_turn_is_over;
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (!state_->core().done(call_)) WEIR_TRY(state_->may_wait());
    state_->wait_until([&] { return state_->core().done(call_); });
    return take(until_the_turn_is_over);
}

Status Task::wait_for(std::chrono::nanoseconds at_most) {
    if (state_ == nullptr) return result_;
    std::shared_ptr<ClientState> until_the_turn_is_over;
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (!state_->core().done(call_)) WEIR_TRY(state_->may_wait());
    at_most = std::min(at_most, kLongDeadline);
    const auto end = std::chrono::steady_clock::now() + at_most;
    const auto over = [&] {
        return state_->core().done(call_) || std::chrono::steady_clock::now() >= end;
    };
    state_->wait_until(over, static_cast<uint64_t>(std::max<int64_t>(1, at_most.count())));
    if (!state_->core().done(call_))
        return Error(Errc::kDeadline,
                     fmt::format("the call has not ended within {} ms; wait for it again",
                                 at_most.count() / 1'000'000));
    return take(until_the_turn_is_over);
}

/// It has ended.
Status Task::take(std::shared_ptr<ClientState>& state) {
    shown_ = state_->core().iteration_shown(call_);
    result_ = state_->core().take(call_);
    state = std::move(state_);
    return result_;
}

std::optional<uint64_t> Task::iteration_shown() const noexcept {
    if (state_ == nullptr) return shown_;
    const Turn turn(*state_);
    return turn ? state_->core().iteration_shown(call_) : std::nullopt;
}

/// Polls the client until the call has ended; its other calls progress too.
void Task::finish() noexcept {
    const std::shared_ptr<ClientState> state = std::move(state_);  // until its turn is over
    const TurnInTheEnd turn(*state);
    ClientCore& core = state->core();
    if (core.is_in_handler()) return state->free_memory(call_);
    state->wait_until([&] { return core.done(call_); });
    core.lose_outcome(call_);
    (void)core.take(call_);
}

Tasks::Tasks() = default;

Tasks::Tasks(Tasks&& other) noexcept
    : under_way_(std::exchange(other.under_way_, {})),
      first_error_(std::exchange(other.first_error_, {})),
      failed_in_(std::move(other.failed_in_)) {}

Tasks::~Tasks() {
    lose_error();
}

void Tasks::add(Task task) {
    under_way_.push_back(std::move(task));
}

size_t Tasks::count() const noexcept {
    return under_way_.size();
}

Tasks& Tasks::operator=(Tasks&& other) noexcept {
    if (this != &other) {
        lose_error();
        under_way_ = std::exchange(other.under_way_, {});
        first_error_ = std::exchange(other.first_error_, {});
        failed_in_ = std::move(other.failed_in_);
    }
    return *this;
}

/// Takes the outcome of a task once it has ended. The first error is told by wait(), any other one is lost.
void Tasks::keep_error(Task& task) {
    const std::shared_ptr<ClientState> state = task.state_;
    std::optional<TurnInTheEnd> turn;
    if (state != nullptr) {
        turn.emplace(*state);
        state->wait_until([&] { return task.has_ended(); });
        if (!first_error_) state->core().lose_outcome(task.call_);
    }
    Status outcome = task.wait();
    if (outcome || !first_error_) return;
    first_error_ = std::move(outcome);
    failed_in_ = state;
}

void Tasks::lose_error() noexcept {
    if (!first_error_ && failed_in_ != nullptr) {
        const TurnInTheEnd turn(*failed_in_);
        failed_in_->core().lose_error(first_error_.error());
    }
    failed_in_.reset();
}

size_t Tasks::reap() {
    // By index, and erased only afterwards: test() may run handlers, which may add tasks.
    for (size_t i = 0; i < under_way_.size(); ++i)
        (void)under_way_[i].test();
    const size_t before = under_way_.size();
    std::erase_if(under_way_, [&](Task& task) {
        if (!task.has_ended()) return false;
        keep_error(task);
        return true;
    });
    return before - under_way_.size();
}

Status Tasks::finish_one() {
    Task& oldest = under_way_.front();
    if (const std::shared_ptr<ClientState> state = oldest.state_; state != nullptr) {
        const Turn turn(*state);
        if (!turn) return turn.error();
        if (!oldest.has_ended()) WEIR_TRY(state->may_wait());
        keep_error(oldest);
    } else {
        keep_error(oldest);
    }
    under_way_.pop_front();
    return {};
}

Status Tasks::wait_for_room(size_t count) {
    while (first_error_ && under_way_.size() >= std::max<size_t>(count, 1))
        WEIR_TRY(finish_one());
    if (!first_error_) failed_in_.reset();  // it is told here
    return first_error_;
}

Status Tasks::wait() {
    while (!under_way_.empty())
        WEIR_TRY(finish_one());
    failed_in_.reset();  // its error is not lost
    return std::exchange(first_error_, {});
}

Registration& Registration::operator=(Registration&& other) noexcept {
    if (this != &other) {
        if (state_ != nullptr) state_->registrar().remove(id_);
        state_ = std::move(other.state_);
        id_ = other.id_;
    }
    return *this;
}

Registration::~Registration() {
    if (state_ != nullptr) state_->registrar().remove(id_);
}

uint32_t Client::worker() const noexcept {
    return state_->core().worker();
}

uint32_t Client::worker_count() const noexcept {
    return state_->core().worker_count();
}

uint32_t Client::worker_count_at_start() const noexcept {
    return state_->core().worker_count_at_start();
}

Result<Registration> Client::register_memory(std::span<std::byte> memory) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_ASSIGN(const uint64_t id, state_->registrar().add(memory));
    Registration registration;
    registration.state_ = state_;
    registration.id_ = id;
    return registration;
}

Status Client::barrier(std::chrono::nanoseconds at_most, std::span<const TaskId> after) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    return state_->finish(state_->core().barrier(deadline_ns_of(at_most), after));
}

Result<uint64_t> Client::checkpoint(std::chrono::nanoseconds at_most,
                                    std::span<const TaskId> after) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(wait_for(*state_, after));
    const ClientCore::CallId call = state_->core().checkpoint(deadline_ns_of(at_most));
    state_->wait_until([&] { return state_->core().done(call); });
    return state_->core().take_checkpoint(call);
}

Result<ResumedFrom> Client::resumed_from() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    const ClientCore::CallId call =
        state_->core().ask_about_checkpoints(CheckpointAsk::kResumedFrom);
    state_->wait_until([&] { return state_->core().done(call); });
    WEIR_ASSIGN(ResumedMessage message, state_->core().take_resumed(call));
    ResumedFrom from{message.checkpoint, {}};
    for (ResumedMessage::SavedTable& table : message.tables)
        from.tables.push_back({std::move(table.name), table.closed});
    return from;
}

Status Client::forget_unread_tables() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    return state_->finish(state_->core().ask_about_checkpoints(CheckpointAsk::kForgetUnread));
}

Status Client::drop_table(std::string_view name, std::span<const TaskId> after) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(wait_for(*state_, after));
    return state_->finish(state_->core().drop_table(name));
}

bool Client::is_stopping() {
    const Turn turn(*state_);
    if (!turn) {
        (void)turn.error();
        return false;
    }
    if (state_->may_wait()) (void)state_->core().poll();
    return state_->core().is_stopping();
}

Result<std::vector<JobEvent>> Client::take_events() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    const ClientCore::CallId call = state_->core().ask_about_checkpoints(CheckpointAsk::kWritten);
    state_->wait_until([&] { return state_->core().done(call); });
    WEIR_ASSIGN(const WrittenMessage message, state_->core().take_written(call));
    std::vector<JobEvent> events = state_->core().take_events();
    tell_lost_workers(*state_, events);
    const uint64_t new_count =
        message.ended_count - std::min(message.ended_count, checkpoints_taken_);
    const size_t told_count = std::min<uint64_t>(new_count, message.checkpoints.size());
    for (const WrittenMessage::Written& one : std::span(message.checkpoints).first(told_count)) {
        using Kind = JobEvent::Kind;
        events.push_back({one.failure.empty() ? Kind::kCheckpoint : Kind::kCheckpointFailed,
                          one.number, std::chrono::nanoseconds(one.age_ns), one.failure});
    }
    checkpoints_taken_ = message.ended_count;
    std::ranges::stable_sort(events, std::ranges::greater{}, &JobEvent::age);
    return events;
}

Result<WorkShare> Client::take_work(uint32_t piece_count, std::string_view description) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (piece_count == 0 || piece_count > WorkShare::kPiecesMax)
        return Error(Errc::kInvalidArgument, fmt::format("{} pieces of work; there can be 1 to {}",
                                                         piece_count, WorkShare::kPiecesMax));
    if (description.size() > WorkShare::kDescriptionBytesMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("a description of the work of {} bytes; it can have up to {}",
                                 description.size(), WorkShare::kDescriptionBytesMax));
    }
    WEIR_TRY(state_->may_wait());
    const ClientCore::CallId call =
        state_->core().take_work(piece_count, deadline_ns_of(kLongDeadline), description);
    state_->wait_until([&] { return state_->core().done(call); });
    return state_->core().take_share(call);
}

Status Client::give_back_work() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    return state_->finish(state_->core().ask_about_work(WorkAsk::kGiveBack));
}

Status Client::may_give_back_work() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    return state_->finish(state_->core().ask_about_work(WorkAsk::kMayGiveBack));
}

Status Client::finish_work() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    return state_->finish(state_->core().ask_about_work(WorkAsk::kFinish));
}

Client& Client::operator=(Client&& other) noexcept {
    if (this != &other) {
        drop_handlers();
        give_up();
        state_ = std::move(other.state_);
        checkpoints_taken_ = other.checkpoints_taken_;
        leave_was_sent_ = other.leave_was_sent_;
        leave_error_ = std::move(other.leave_error_);
    }
    return *this;
}

void Client::drop_handlers() noexcept {
    if (state_ == nullptr) return;
    const TurnInTheEnd turn(*state_);
    state_->core().drop_handlers();
}

/// A client that has left, or never joined, is not ready() and has nothing to give up.
void Client::give_up() noexcept {
    if (state_ == nullptr) return;
    const TurnInTheEnd turn(*state_);
    if (leave_was_sent_ || !state_->core().ready()) return;
    Error why(Errc::kCancelled, fmt::format("worker {}'s client was destroyed without leave()",
                                            state_->core().worker()));
    log(LogLevel::kWarning,
        "{}; call client.leave() at the end, or client.leave(status) before an early return",
        why.text());
    (void)leave(why);
}

Status Client::leave(const Status& outcome) {
    if (state_ == nullptr) return Error(Errc::kUnavailable, "this client was moved from");
    const Turn turn(*state_);
    if (!turn) return turn.error();
    if (leave_was_sent_) return leave_error_;
    WEIR_TRY(state_->may_wait());
    ClientCore& core = state_->core();
    // Shards drop what a worker has sent that is not in the view any more.
    if (outcome) state_->wait_until([&] { return !core.has_open_values() || core.finished(); });
    // A worker may give up because it cannot reach the manager: do not wait long for the answer.
    const uint64_t deadline_ns = outcome ? 0 : 2 * kSecond;
    Status left = state_->finish(state_->core().leave(outcome, deadline_ns));
    if (left.code() == Errc::kBusy) return left;  // nothing was sent
    leave_was_sent_ = true;
    leave_error_ = left;
    return left;
}

Result<ClientStats> Client::stats(std::span<const TaskId> after) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(wait_for(*state_, after));
    ClientCore& core = state_->core();
    ClientStats stats;
    stats.bytes_sent = core.endpoint_counters().bytes_sent;
    stats.bytes_received = core.endpoint_counters().bytes_received;
    stats.bytes_copied = core.counters().bytes_copied + core.endpoint_counters().bytes_staged;
    stats.pushes = core.counters().pushes;
    stats.pulls = core.counters().pulls;
    stats.errors_lost = core.counters().errors_lost;
    const MemoryUse use = state_->pool().use();
    stats.registered_bytes = use.registered_bytes + state_->registrar().registered_bytes();
    stats.used_bytes = use.used_bytes;
    std::vector<uint32_t> shards;
    for (const ViewShard& shard : core.view().shards())
        shards.push_back(shard.number);
    for (const uint32_t shard : shards) {
        if (core.view().shard(shard) == nullptr) continue;  // it has left meanwhile
        const ClientCore::CallId call = core.stats(shard);
        state_->wait_until([&] { return core.done(call); });
        const Result<StatsMessage> message = core.take_stats(call);
        if (!message && core.view().shard(shard) == nullptr) continue;
        if (!message) return message.error();
        stats.servers_bytes_sent += message->bytes_sent;
        stats.servers_bytes_received += message->bytes_received;
        stats.servers_bytes_copied += message->bytes_copied;
        stats.servers_keys_held += message->keys_held;
        stats.servers_lists_remembered += message->lists_remembered;
        stats.servers_registered_bytes += message->registered_bytes;
        stats.servers_used_bytes += message->used_bytes;
    }
    return stats;
}

namespace access {

uint64_t push(ClientState& state, const TableInfo& table, std::span<const uint64_t> keys,
              std::span<const std::byte> values, const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().push(table, keys, values, options_of(options));
}

uint64_t push(ClientState& state, const TableInfo& table, KeyRange keys,
              std::span<const std::byte> values, const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().push(table, keys, values, options_of(options));
}

uint64_t pull(ClientState& state, const TableInfo& table, std::span<const uint64_t> keys,
              std::span<std::byte> out, const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().pull(table, keys, out, options_of(options));
}

uint64_t pull(ClientState& state, const TableInfo& table, KeyRange keys, std::span<std::byte> out,
              const Options& options) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return kNoTurn;
    }
    return state.core().pull(table, keys, out, options_of(options));
}

const TableSchema& schema(const TableInfo& table) noexcept {
    return table.schema;
}

size_t pushed_row_bytes(const TableInfo& table) noexcept {
    return table.pushed_row_bytes;
}

Iteration next_iteration(ClientState& state, const TableInfo& table) {
    const Turn turn(state);
    if (!turn) {
        (void)turn.error();
        return 0;  // which no call takes
    }
    return state.core().next_iteration(table.schema.id);
}

Result<std::shared_ptr<const TableInfo>> create_table(ClientState& state, std::string_view name,
                                                      ValueType type, const TableOptions& options,
                                                      std::span<const TaskId> after) {
    const Turn turn(state);
    if (!turn) return turn.error();
    TableSchema wanted;
    wanted.name = name;
    wanted.value_type = type;
    wanted.layout = options.layout;
    wanted.key_count = options.key_count;
    wanted.width = options.width;
    wanted.rule = options.rule.name;
    wanted.parameters = options.rule.parameters;
    wanted.initial_value = options.initial_value;
    wanted.allow_not_finite = options.allow_not_finite;
    wanted.max_delay = options.max_delay;
    wanted.in_checkpoints = options.in_checkpoints;
    if (const auto rule = state.core().rules().find(wanted.rule)) {
        wanted.rule_version = (*rule)->version;
        wanted.rule_hash = (*rule)->hash(wanted.parameters);
    }
    WEIR_TRY(wait_for(state, after));
    const ClientCore::CallId call = state.core().create_table(wanted);
    state.wait_until([&] { return state.core().done(call); });
    WEIR_ASSIGN(TableInfo info, state.core().take_table(call));
    wanted.id = info.schema.id;
    const Status same = check_same(info.schema, wanted, state.core().rules());
    if (!same && info.checkpoint != 0) {
        return Error(same.code(), fmt::format("{} (it is that of checkpoint {}, from which the job "
                                              "goes on)",
                                              same.error().text(), info.checkpoint));
    }
    WEIR_TRY(same);
    return std::make_shared<const TableInfo>(std::move(info));
}

Result<std::shared_ptr<const TableInfo>> open_table(ClientState& state, std::string_view name,
                                                    ValueType type, uint32_t width,
                                                    std::span<const TaskId> after) {
    const Turn turn(state);
    if (!turn) return turn.error();
    WEIR_TRY(wait_for(state, after));
    const ClientCore::CallId call = state.core().open_table(name);
    state.wait_until([&] { return state.core().done(call); });
    Result<TableInfo> info = state.core().take_table(call);
    if (info.code() == Errc::kNotFound) {
        return Error(Errc::kNotFound,
                     fmt::format("there is no table '{}'; create it before it is opened", name));
    }
    if (!info) return std::move(info).error();
    TableSchema wanted = info->schema;
    wanted.value_type = type;
    if (width != 0) wanted.width = width;
    WEIR_TRY(check_same(info->schema, wanted, state.core().rules()));
    return std::make_shared<const TableInfo>(std::move(*info));
}

Result<std::shared_ptr<std::byte>> allocate(const std::shared_ptr<ClientState>& state, size_t count,
                                            size_t value_bytes) {
    const Turn turn(*state);
    if (!turn) return turn.error();
    size_t bytes = 0;
    std::byte* memory = nullptr;
    if (!__builtin_mul_overflow(std::max<size_t>(count, 1), value_bytes, &bytes)) {
        memory = state->core().memory().allocate(bytes, Block::kAlignment);
    }
    if (memory == nullptr) {
        return Error(Errc::kNoMemory,
                     fmt::format("no registered memory for {} values of {} bytes; the log of this "
                                 "process names the limit that was reached",
                                 count, value_bytes));
    }
    return std::shared_ptr<std::byte>(memory, [state, bytes](std::byte* p) {
        const TurnInTheEnd last_turn(*state);
        state->give_back({p, bytes});
    });
}

}  // namespace access
}  // namespace weir
