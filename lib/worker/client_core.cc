// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/client_core.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/printable.h"
#include "lib/base/random.h"
#include "lib/base/secret_seed.h"
#include "lib/node/manager_names.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/schema_codec.h"

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;

namespace {

constexpr uint32_t kPollsPerClock = 64;     // poll() checks deadlines once in so many calls
constexpr uint64_t kLookNs = kMillisecond;  // poll_seldom() checks them at most this often

Status check_name(std::string_view name) {
    const bool is_short = !name.empty() && name.size() <= TableMessage::kNameBytesMax;
    if (is_short && is_printable_name(name)) return {};
    if (is_short) {
        return Error(Errc::kInvalidArgument,
                     "the name of a table has a control character; choose one of letters, digits "
                     "and signs");
    }
    return Error(Errc::kInvalidArgument,
                 fmt::format("the name of a table must have 1 to {} bytes, not {}",
                             TableMessage::kNameBytesMax, name.size()));
}

}  // namespace

Result<TableInfo> make_table_info(TableSchema schema, const RuleRegistry& rules) {
    WEIR_ASSIGN(const RuleEntry* const rule, check_schema(schema, rules));
    TableInfo info;
    const RowLayout rows = rule->layout(schema.value_type, schema.width);
    info.row_bytes = rows.value_bytes();
    info.pushed_row_bytes = rows.pushed_bytes();
    if (info.pushed_row_bytes > wire::kRequestBytesMax) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("table '{}': a push of one key would have {} bytes, the most is {}; "
                        "use a smaller width, or several keys",
                        schema.name, info.pushed_row_bytes, wire::kRequestBytesMax));
    }
    if (schema.layout == Layout::kDense) info.positions = PositionMap::dense(schema.key_count);
    info.schema = std::move(schema);
    return info;
}

ClientCore::ClientCore(ClientCoreOptions options, std::unique_ptr<transport::Endpoint> endpoint,
                       const Clock& clock, Memory& memory, const RuleRegistry& rules)
    : options_(std::move(options)),
      pass_(options_.secret_seed ? mix64(*options_.secret_seed) : secret_seed()),
      endpoint_(std::move(endpoint)),
      clock_(clock),
      memory_(memory),
      rules_(rules),
      started_ns_(clock.now_ns()),
      message_bytes_max_(endpoint_->capabilities().message_bytes_max),
      to_manager_(*endpoint_, clock_, options_.manager_address, options_.link),
      tasks_(options_.worker, calls_),
      routes_(options_.route_cache_bytes) {
    memory_.add(routes_);
    Peer& manager = peers_.emplace_back();
    manager.name = manager_name(options_.link.manager.get());
    manager.state = Peer::State::kConnecting;
    manager.is_greeted = true;
    if (Status begun = to_manager_.connect(); !begun) fail(std::move(begun));
    manager.connection = to_manager_.connection();
}

ClientCore::~ClientCore() {
    to_manager_.end();
    endpoint_.reset();  // first: servers may write to memory until connections are closed
    if (requests_.in_use() > 0) memory_.stop_giving_back();
}

std::string ClientCore::name() const {
    return fmt::format("worker {}", options_.worker);
}

size_t ClientCore::poll() {
    if (departures_.are_waiting()) departures_.left(clock_.now_ns());
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count))
        handle(completion);
    size_t sent = waiting_count_ == 0 ? 0 : send_waiting();
    if (next_view_ && !awaits_answers()) adopt();
    if (broken_count_ > 0) connect_again(clock_.now_ns());
    if (to_manager_.must_poll()) sent += poll_link();
    if (!held_failures_.empty()) sent += end_held_failures();
    if (count + sent > 0) endpoint_->flush();
    if (++polls_ % kPollsPerClock == 0) expire(clock_.now_ns());
    if (tasks_.has_work()) sent += run_tasks();
    if (phase_ == Phase::kLeft && is_at_shards_ && open_requests() == 0) leave_shards();
    return count + sent;
}

size_t ClientCore::poll_seldom() {
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns - last_look_ns_ >= kLookNs) {
        last_look_ns_ = now_ns;
        (void)arm();  // makes poll() check the deadlines
    }
    return poll();
}

int ClientCore::arm() {
    polls_ = kPollsPerClock - 1;  // after a sleep, look at the deadlines
    const bool may_sleep = !tasks_.has_work() && sleep_ns_max() > 0;
    return may_sleep ? endpoint_->arm() : -1;
}

uint64_t ClientCore::sleep_ns_max() const noexcept {
    constexpr uint64_t kNever = ~uint64_t{0};
    const bool has_pauses = waiting_count_ > 0 || broken_count_ > 0 || !held_failures_.empty();
    if (!has_pauses && !to_manager_.must_poll()) return kNever;
    const uint64_t now_ns = clock_.now_ns();
    uint64_t end_ns = std::min(held_failures_.due_ns(), to_manager_.due_ns());
    for (const Peer& peer : peers_) {
        const bool is_broken = peer.state == Peer::State::kBroken;
        const bool would_send = !peer.waiting.empty() && peer.state == Peer::State::kOpen;
        if (!peer.is_held && (is_broken || would_send))
            end_ns = std::min(end_ns, peer.not_before_ns);
    }
    if (end_ns == kNever) return kNever;
    return end_ns > now_ns ? end_ns - now_ns : 0;
}

void ClientCore::handle(const Completion& completion) {
    switch (completion.event) {
        case Event::kConnected: return connected(completion.connection);
        case Event::kReceived: return receive(completion.connection, completion.message);
        case Event::kImmediate: return values_written(completion.connection, completion.immediate);
        case Event::kClosed:
            return closed(completion.connection, completion.status, completion.memory_in_doubt);
        case Event::kAccepted: return endpoint_->close(completion.connection);
        case Event::kRead:
        case Event::kWritten: return;
    }
}

void ClientCore::fail(Status status) {
    if (phase_ == Phase::kFailed) return;
    phase_ = Phase::kFailed;
    failure_ = std::move(status);
    calls_.for_each([&](CallId, Call& call) { call.fail(failure_); });
}

/// Whether keys or values of this request were sent as an address in the caller's memory.
bool ClientCore::exposes_caller(const Request& request) noexcept {
    const uint8_t flags = request.header.flags;
    return ((flags & wire::kKeysRemote) != 0 && !request.staged_keys) ||
           ((flags & wire::kValuesRemote) != 0 && !request.staged_values);
}

/// Whether a server may read or write the caller's memory for this request.
bool ClientCore::is_caller_reached(const Request& request) noexcept {
    return request.state == Request::State::kSent && exposes_caller(request);
}

/// Whether this request reads or writes the caller's memory, or may have to: it is to be sent, or its
/// keys were sent as a hash, which the shard may have forgotten.
bool ClientCore::needs_caller(const Request& request) noexcept {
    const bool is_to_be_sent =
        request.state == Request::State::kUnsent || request.state == Request::State::kStale;
    return is_to_be_sent || (request.header.flags & wire::kKeysKnown) != 0 ||
           is_caller_reached(request);
}

/// Whether an open request of this call may use the caller's memory.
bool ClientCore::call_needs_caller(CallId call_id) {
    const Call* const call = calls_.find(call_id);
    const bool is_withdrawn = call != nullptr && call->is_withdrawn;
    bool found = false;
    requests_.for_each([&](uint64_t, const Request& request) {
        if (request.call != call_id) return;
        found = found || (is_withdrawn ? is_caller_reached(request) : needs_caller(request));
    });
    return found;
}

void ClientCore::end_request(uint64_t id, Request& request) {
    if (request.is_in_doubt) return abandon_request(request);
    const CallId call = request.call;
    requests_.release(id);
    calls_.request_ended(call, [this](CallId of) { return call_needs_caller(of); });
}

/// Lets the call go on without this request. The request stays, with what it refers to, because a
/// server may still reach that memory.
void ClientCore::abandon_request(Request& request) {
    Call* const call = calls_.find(request.call);
    if (call != nullptr && call->is_withdrawn && exposes_caller(request))
        call->note_memory_in_doubt(kMemoryNotReleased);
    ++requests_kept_aside_;
    request.state = Request::State::kKeptAside;
    calls_.request_ended(std::exchange(request.call, 0),
                         [this](CallId of) { return call_needs_caller(of); });
}

/// The same for a request that goes on without its memory: another one keeps that. Without room for
/// one nothing changes.
void ClientCore::abandon_memory(Request& request) {
    uint64_t id = 0;
    Request* const aside = requests_.acquire(id);
    if (aside == nullptr) return;
    aside->call = request.call;
    aside->header.flags = request.header.flags;
    aside->keeps = request.keeps;
    aside->keys = request.keys;
    aside->from = request.from;
    aside->staged_keys = std::move(request.staged_keys);
    aside->staged_values = std::move(request.staged_values);
    if (Call* const call = calls_.find(request.call)) ++call->open_requests;
    abandon_request(*aside);
    request.is_in_doubt = false;
}

bool ClientCore::is_referenced(std::span<const std::byte> memory) noexcept {
    const auto meets = [&](std::span<const std::byte> other) {
        return other.data() != nullptr &&  // a pull whose buffer is not allocated yet
               other.data() < memory.data() + memory.size() &&
               memory.data() < other.data() + other.size();
    };
    bool found = false;
    requests_.for_each([&](uint64_t, const Request& request) {
        found = found || meets(request.from) || meets(request.into) || meets(request.callers_out) ||
                meets(std::as_bytes(request.keys));
    });
    return found || tasks_.is_referenced(memory);
}

ClientCore::CallId ClientCore::control(uint32_t peer, Kind kind, std::vector<std::byte> body,
                                       uint64_t deadline_ns, uint64_t first, uint32_t epoch) {
    if (Status status = check_ready(); !status) return calls_.failed(std::move(status));
    CallId call_id = 0;
    if (!requests_.has_room(1)) return calls_.failed(Error(Errc::kBusy, kTooManyRequests));
    Call* const call = calls_.begin(call_id);
    if (call == nullptr) return 0;
    call->state = Call::State::kOpen;  // with its only request
    add_control_request(call_id, peer, kind, std::move(body), first, epoch);
    send_off(*call, deadline_ns);
    return call_id;
}

/// There must be room for it.
void ClientCore::add_control_request(CallId call_id, uint32_t peer, Kind kind,
                                     std::vector<std::byte> body, uint64_t first, uint32_t epoch) {
    uint64_t id = 0;
    Request* const request = requests_.acquire(id);
    request->call = call_id;
    request->peer = peer;
    request->header.kind = kind;
    request->header.first = first;
    request->header.epoch = epoch;
    request->body = std::move(body);
    submit(id, *request);
}

ClientCore::CallId ClientCore::create_table(const TableSchema& schema) {
    if (Status wrong = check_name(schema.name); !wrong) return calls_.failed(std::move(wrong));
    // Checked here too: a shard could not describe the mistake as well.
    if (Result<const RuleEntry*> rule = check_schema(schema, rules_); !rule) {
        return calls_.failed(std::move(rule).error());
    }
    return control(manager(), Kind::kCreateTable,
                   TableMessage{0, schema.name, encode_schema(schema)}.encode());
}

ClientCore::CallId ClientCore::open_table(std::string_view table_name) {
    if (Status wrong = check_name(table_name); !wrong) return calls_.failed(std::move(wrong));
    return control(manager(), Kind::kOpenTable,
                   TableMessage{0, std::string(table_name), {}}.encode());
}

ClientCore::CallId ClientCore::drop_table(std::string_view table_name) {
    if (Status wrong = check_name(table_name); !wrong) return calls_.failed(std::move(wrong));
    return control(manager(), Kind::kDropTable,
                   TableMessage{0, std::string(table_name), {}}.encode());
}

/// No shard acknowledges a push to it any more. What they have acknowledged before, and has not been
/// read here, is lost with the table.
void ClientCore::note_dropped(const wire::Frame& reply) {
    const auto message = TableMessage::decode(reply.values);
    if (!message || !dropped_.insert(message->table).second) return;
    const auto table = std::ranges::find(schemas_, message->table, &TableSchema::id);
    if (table == schemas_.end()) return;  // this worker has never had it
    const Status why = check_dropped(*table);
    requests_.for_each([&](uint64_t, const Request& request) {
        const bool is_of_table =
            wire::is_request(request.header.kind) && request.header.table == message->table;
        Call* const call = is_of_table ? calls_.find(request.call) : nullptr;
        if (call != nullptr) call->note_error(why);
    });
}

Status ClientCore::check_barrier() const {
    for (uint32_t i = 0; phase_ == Phase::kReady && i < manager(); ++i) {
        if (peers_[i].state != Peer::State::kLost) continue;
        const Error why(Errc::kPeerLost,
                        fmt::format("{} is gone: no barrier can be reached", peers_[i].name));
        return cause_first(add_loss(why, peers_[i]));
    }
    return {};
}

ClientCore::CallId ClientCore::leave(const Status& outcome, uint64_t deadline_ns) {
    gave_up_ = !outcome.has_value();
    // Shards then answer our requests that wait for other workers, and stop waiting for our
    // parts.
    for (uint32_t i = 0; gave_up_ && phase_ == Phase::kReady && i < manager(); ++i) {
        if (peers_[i].state == Peer::State::kOpen) drop(control(i, Kind::kLeave, {}, deadline_ns));
    }
    LeaveMessage message{outcome.code(), outcome ? std::string() : outcome.error().message(), {}};
    message.withdrawn = withdrawn_iterations();
    return control(manager(), Kind::kLeave, message.encode(), deadline_ns);
}

bool ClientCore::has_open_values() {
    bool found = false;
    requests_.for_each([&](uint64_t, const Request& request) {
        const Call* const call = calls_.find(request.call);
        const bool moves = request.header.kind == Kind::kPush || request.header.kind == Kind::kPull;
        found = found || (moves && call != nullptr && !call->has_ended());
    });
    return found;
}

/// Of which a part is still on its way, or waits at a shard; mostly because its call has ended at its
/// deadline. If a segment moves, nobody sends that part again after this worker has left.
std::vector<LeaveMessage::Withdrawn> ClientCore::withdrawn_iterations() {
    std::map<uint32_t, LeaveMessage::Withdrawn> withdrawn;
    requests_.for_each([&](uint64_t, const Request& request) {
        const wire::FrameHeader& header = request.header;
        const bool is_part = header.kind == Kind::kPush && (header.flags & wire::kAggregate) != 0;
        if (!is_part || request.state == Request::State::kKeptAside) return;
        const LeaveMessage::Withdrawn one{header.table, header.iteration, header.iteration};
        LeaveMessage::Withdrawn& of = withdrawn.try_emplace(header.table, one).first->second;
        of.first_iteration = std::min(of.first_iteration, header.iteration);
        of.last_iteration = std::max(of.last_iteration, header.iteration);
    });
    std::vector<LeaveMessage::Withdrawn> list;
    for (const auto& [table, of] : withdrawn) {
        if (list.size() < LeaveMessage::kWithdrawnMax) list.push_back(of);
    }
    return list;
}

void ClientCore::close() {
    if (open_requests() == 0) return;
    fail(Error(Errc::kCancelled, "the client was destroyed, with this call still open"));
    cut_off_requests();
}

/// The manager says that the job has failed. All calls end, but one whose memory a server may still
/// reach only when it does not any more.
void ClientCore::job_failed(Status why) {
    if (phase_ == Phase::kFailed) return;
    phase_ = Phase::kFailed;
    failure_ = std::move(why);
    next_view_.reset();  // by which what waits for it would be sent anew
    calls_.for_each([&](CallId id, Call& call) {
        call_needs_caller(id) ? call.note_error(failure_) : call.fail(failure_);
    });
    cut_off_requests();
    to_manager_.end();  // it waits for nothing more from this worker
}

/// Closes the connections that have open requests, which end with them.
void ClientCore::cut_off_requests() {
    for (uint32_t i = 0; i < manager(); ++i) {
        if (peers_[i].state == Peer::State::kBroken) lose(i, failure_);
    }
    if (to_manager_.connection() == 0 && peers_.back().state != Peer::State::kLost)
        lose(manager(), failure_);
    requests_.for_each([&](uint64_t, const Request& request) {
        Peer& peer = peers_[request.peer];
        if (peer.state == Peer::State::kLost || peer.fault != Errc::kOk) return;
        peer.fault = Errc::kCancelled;
        endpoint_->close(peer.connection);
    });
}

ClientCore::CallId ClientCore::stats(uint32_t shard) {
    return control(shard, Kind::kStats, {});
}

Result<TableInfo> ClientCore::take_table(CallId id) {
    Call* const call = calls_.find(id);
    const std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    const auto message = TableMessage::decode(body);
    auto schema = message ? decode_schema(message->schema) : std::nullopt;
    if (!schema) return Error(Errc::kProtocol, "the manager sent a malformed table schema");
    schema->id = message->table;
    if (message->closed != 0) closed_at_start_[message->table] = message->closed;
    if (std::ranges::find(schemas_, schema->id, &TableSchema::id) == schemas_.end())
        schemas_.push_back(*schema);
    WEIR_ASSIGN(TableInfo info, make_table_info(std::move(*schema), rules_));
    info.checkpoint = message->checkpoint;
    return info;
}

Result<WorkShare> ClientCore::take_share(CallId id) {
    Call* const call = calls_.find(id);
    const std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    auto share = WorkShare::decode(body);
    if (!share) return Error(Errc::kProtocol, "the manager sent a malformed share of the work");
    return *std::move(share);
}

Result<LostWorkersMessage> ClientCore::take_lost_workers(CallId id) {
    Call* const call = calls_.find(id);
    const std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    auto message = LostWorkersMessage::decode(body);
    if (!message) return Error(Errc::kProtocol, "the manager sent a malformed list of workers");
    return *std::move(message);
}

ClientCore::CallId ClientCore::checkpoint(uint64_t deadline_ns) {
    if (deadline_ns == CallOptions::kOver) {
        return calls_.failed(Error(Errc::kDeadline,
                                   "the time for the checkpoint was over before the call began: "
                                   "none was asked for"));
    }
    return control(manager(), Kind::kCheckpoint, {}, deadline_ns);
}

ClientCore::CallId ClientCore::ask_about_checkpoints(CheckpointAsk ask) {
    return control(manager(), Kind::kCheckpoint, {}, 0, static_cast<uint64_t>(ask));
}

Result<ResumedMessage> ClientCore::take_resumed(CallId id) {
    Call* const call = calls_.find(id);
    const std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    auto message = ResumedMessage::decode(body);
    if (!message)
        return Error(Errc::kProtocol, "the manager sent a malformed list of a checkpoint's tables");
    return *std::move(message);
}

Result<WrittenMessage> ClientCore::take_written(CallId id) {
    Call* const call = calls_.find(id);
    const std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    auto message = WrittenMessage::decode(body);
    if (!message) return Error(Errc::kProtocol, "the manager sent a malformed list of checkpoints");
    return *std::move(message);
}

Result<uint64_t> ClientCore::take_checkpoint(CallId id) {
    Call* const call = calls_.find(id);
    const std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    ByteReader reader(body);
    const auto number = reader.number<uint64_t>();
    if (!reader.done())
        return Error(Errc::kProtocol, "the manager sent a malformed number of a checkpoint");
    return number;
}

Result<StatsMessage> ClientCore::take_stats(CallId id) {
    Call* const call = calls_.find(id);
    const std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    const auto message = StatsMessage::decode(body);
    if (!message) return Error(Errc::kProtocol, "a shard sent malformed counters");
    return *message;
}

}  // namespace weir
