// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/client.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/store/schema_codec.h"
#include "lib/worker/client_state.h"
#include "lib/worker/collectives.h"

namespace weir {

using access::Turn;
using access::TurnInTheEnd;

namespace {

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

}  // namespace

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
    ClientCore& core = state_->core();
    const uint64_t deadline_ns = access::deadline_ns_of(at_most);
    // They may hold rows back when they start.
    if (core.has_filters() && !after.empty())
        WEIR_TRY(state_->finish(core.wait_for(deadline_ns, after)));
    Status flushed = flush_held();
    WEIR_TRY(state_->finish(core.barrier(deadline_ns, after)));
    return flushed;
}

Status Client::flush() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    return flush_held();
}

/// The first error, when all have ended.
Status Client::flush_held() {
    Status first;
    for (const ClientCore::CallId call : state_->core().flush()) {
        Status flushed = state_->finish(call);
        if (first) first = std::move(flushed);
    }
    return first;
}

Collectives& Client::collectives() {
    if (collectives_ == nullptr) collectives_ = std::make_shared<Collectives>();
    return *collectives_;
}

Status Client::allreduce_bytes(ValueType type, std::span<std::byte> values, Reduce how,
                               std::chrono::nanoseconds at_most) {
    return collectives().run(state_,
                             {static_cast<Collectives::Operation>(how), type, values, 0, at_most});
}

Status Client::broadcast_bytes(ValueType type, std::span<std::byte> values, uint32_t from,
                               std::chrono::nanoseconds at_most) {
    return collectives().run(state_,
                             {Collectives::Operation::kBroadcast, type, values, from, at_most});
}

Result<uint64_t> Client::checkpoint(std::chrono::nanoseconds at_most,
                                    std::span<const TaskId> after) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->wait_for_tasks(after));
    const Status flushed = flush_held();
    const ClientCore::CallId call = state_->core().checkpoint(access::deadline_ns_of(at_most));
    state_->wait_until([&] { return state_->core().done(call); });
    WEIR_ASSIGN(const uint64_t number, state_->core().take_checkpoint(call));
    WEIR_TRY(flushed);
    return number;
}

Result<std::vector<TableSchema>> Client::tables() {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->may_wait());
    std::vector<TableSchema> tables;
    uint32_t next = 0;
    do {
        const ClientCore::CallId call = state_->core().list_tables(next);
        state_->wait_until([&] { return state_->core().done(call); });
        WEIR_ASSIGN(const TableListMessage some, state_->core().take_list(call));
        for (const TableMessage& table : some.tables) {
            std::optional<TableSchema> schema = decode_schema(table.schema);
            if (!schema || table.table < next)
                return Error(Errc::kProtocol, "the manager sent a malformed list of tables");
            schema->id = table.table;
            tables.push_back(*std::move(schema));
        }
        next = some.next;
    } while (next != 0);
    return tables;
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
    WEIR_TRY(access::check_users_name(name));
    WEIR_TRY(state_->wait_for_tasks(after));
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
        state_->core().take_work(piece_count, access::deadline_ns_of(kLongDeadline), description);
    state_->wait_until([&] { return state_->core().done(call); });
    Result<WorkShare> share = state_->core().take_share(call);
    if (share) collectives().set_round(share->round);
    return share;
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
        collectives_ = std::move(other.collectives_);
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
    const Status flushed = outcome ? flush_held() : Status();
    if (outcome) core.warn_of_held();
    // Shards drop what a worker has sent that is not in the view any more.
    if (outcome) state_->wait_until([&] { return !core.has_open_values() || core.finished(); });
    // A worker may give up because it cannot reach the manager: do not wait long for the answer.
    const uint64_t deadline_ns = outcome ? 0 : 2 * kSecond;
    Status left = state_->finish(state_->core().leave(outcome, deadline_ns));
    if (left.code() == Errc::kBusy) return left;  // nothing was sent
    leave_was_sent_ = true;
    leave_error_ = left ? flushed : left;
    return leave_error_;
}

Result<ClientStats> Client::stats(std::span<const TaskId> after) {
    const Turn turn(*state_);
    if (!turn) return turn.error();
    WEIR_TRY(state_->wait_for_tasks(after));
    ClientCore& core = state_->core();
    ClientStats stats;
    stats.bytes_sent = core.endpoint_counters().bytes_sent;
    stats.bytes_received = core.endpoint_counters().bytes_received;
    stats.bytes_copied = core.counters().bytes_copied + core.endpoint_counters().bytes_staged;
    stats.pushes = core.counters().pushes;
    stats.pulls = core.counters().pulls;
    stats.errors_lost = core.counters().errors_lost;
    stats.filters = core.filter_traffic();
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

}  // namespace weir
