// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/client_core.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/schema_codec.h"

namespace weir {

using transport::Completion;
using transport::ConnectionId;
using transport::Event;
using wire::Kind;

namespace {

constexpr uint32_t kPollsPerClock = 64;     // poll() checks deadlines once in so many calls
constexpr uint64_t kLookNs = kMillisecond;  // poll_seldom() checks them at most this often

constexpr const char* kMemoryInDoubt =
    "; it may still read or write what was open there, which is not used again";

Status check_name(std::string_view name) {
    if (!name.empty() && name.size() <= TableMessage::kNameBytesMax) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("the name of a table must have 1 to {} bytes, not {}",
                             TableMessage::kNameBytesMax, name.size()));
}

}  // namespace

Result<TableInfo> make_table_info(TableSchema schema, const RuleRegistry& rules) {
    WEIR_ASSIGN(const RuleEntry* const rule, check_schema(schema, rules));
    TableInfo info;
    info.row_bytes = schema.width * size_of(schema.value_type);
    info.pushed_row_bytes = info.row_bytes * rule->pushed_values;
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
      endpoint_(std::move(endpoint)),
      clock_(clock),
      memory_(memory),
      rules_(rules),
      started_ns_(clock.now_ns()),
      message_bytes_max_(endpoint_->capabilities().message_bytes_max),
      routes_(options_.route_cache_bytes) {
    memory_.add(routes_);
    Peer& manager = peers_.emplace_back();
    manager.name = "the manager (rank 0)";
    Result<ConnectionId> connection = endpoint_->connect(options_.manager_address);
    if (connection) {
        manager.connection = *connection;
    } else {
        fail(std::move(connection).error());
    }
}

ClientCore::~ClientCore() {
    endpoint_.reset();  // first: servers may write to memory until connections are closed
    if (requests_.in_use() > 0) memory_.stop_giving_back();
}

std::string ClientCore::name() const {
    return fmt::format("worker {}", options_.worker);
}

size_t ClientCore::poll() {
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count))
        handle(completion);
    size_t sent = waiting_count_ == 0 ? 0 : send_waiting();
    if (!busy_.empty()) sent += send_busy_again();
    if (!failed_by_workers_.empty()) sent += end_failed_by_workers();
    if (count + sent > 0) endpoint_->flush();
    if (++polls_ % kPollsPerClock == 0) expire(clock_.now_ns());
    if (gave_up_ && phase_ == Phase::kLeft && open_requests() == 0) leave_shards();
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
    const bool may_sleep = waiting_count_ == 0 && busy_.empty() && failed_by_workers_.empty();
    return may_sleep ? endpoint_->arm() : -1;
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

void ClientCore::connected(ConnectionId connection) {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (peer.connection != connection || peer.state != Peer::State::kConnecting) continue;
        peer.state = Peer::State::kOpen;
        peer.maps_memory = endpoint_->capabilities_of(connection).maps_memory;
        wire::FrameHeader header;
        header.kind = Kind::kHello;
        header.first = options_.worker;
        std::vector<std::byte> body;
        if (i == manager()) {
            header.kind = Kind::kJoin;
            body = JoinMessage{JoinMessage::Role::kWorker, options_.rank, options_.worker, {}}
                       .encode();
            phase_ = Phase::kJoining;
        }
        header.body_bytes = static_cast<uint32_t>(body.size());
        const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
        WEIR_CHECK(endpoint_->send(connection, parts) != transport::Post::kNotNow);
        endpoint_->flush();
    }
    if (phase_ != Phase::kConnectingToShards) return;
    for (const Peer& peer : peers_) {
        if (peer.state != Peer::State::kOpen) return;
    }
    phase_ = Phase::kReady;
}

void ClientCore::assigned(std::span<const std::byte> body) {
    if (phase_ != Phase::kJoining || !assignment_parts_.add(body)) {
        return fail(Error(Errc::kProtocol, "the manager sent a malformed assignment"));
    }
    if (!assignment_parts_.complete()) return;
    const AssignmentMessage& message = assignment_parts_.whole();
    Result<Assignment> assignment = Assignment::make(message.epoch, message.shape);
    if (!assignment) return fail(std::move(assignment).error());
    assignment_ = std::make_unique<Assignment>(std::move(*assignment));
    worker_count_ = message.worker_count;
    phase_ = Phase::kConnectingToShards;
    Peer manager = std::move(peers_.back());
    peers_.clear();
    for (uint32_t i = 0; i < message.shards.size(); ++i) {
        const AssignmentMessage::Shard& shard = message.shards[i];
        const ShardPlace place = assignment_->place(i);
        Peer& peer = peers_.emplace_back();
        peer.name =
            fmt::format("shard {} of server {} (rank {})", place.shard, place.server, shard.rank);
        Result<ConnectionId> connection = endpoint_->connect(shard.address);
        if (!connection) {
            return fail(Error(connection.code(), fmt::format("cannot connect to {}: {}", peer.name,
                                                             connection.error().message())));
        }
        peer.connection = *connection;
    }
    peers_.push_back(std::move(manager));
}

void ClientCore::closed(ConnectionId connection, Errc why, bool memory_in_doubt) {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (peer.connection != connection || peer.state == Peer::State::kLost) continue;
        if (peer.fault != Errc::kOk) why = peer.fault;
        // A device that gives up connecting reports no more than kDeadline.
        const bool never_came = peer.state == Peer::State::kConnecting && why == Errc::kDeadline;
        peer.state = Peer::State::kLost;
        waiting_count_ -= peer.waiting.size();
        peer.waiting.clear();
        const Status lost =
            never_came ? no_answer_from(peer.name)
                       : Error(Errc::kPeerLost,
                               fmt::format("{} is gone ({}); it died or the network to it is cut{}",
                                           peer.name, to_string(why),
                                           memory_in_doubt ? kMemoryInDoubt : ""));
        requests_.for_each([&](uint64_t id, Request& request) {
            if (request.peer != i) {
                // Without that shard, the other workers will not come to the barrier either.
                Call* const call = calls_.find(request.call);
                const bool at_barrier = request.header.kind == Kind::kBarrier;
                if (at_barrier && call != nullptr) fail_call(*call, lost);
                return;
            }
            if (Call* const call = calls_.find(request.call)) note_error(*call, lost);
            if (memory_in_doubt) {
                abandon_request(request);
            } else {
                end_request(id, request);
            }
        });
        if (i != manager()) {
            for (auto& [id, error] : failed_by_workers_)
                error = lost;  // why the other worker gave up
        }
        withdraw_barriers();
        if (phase_ < Phase::kReady) fail(lost);
        return;
    }
}

Error ClientCore::no_answer_from(std::string_view whom) const {
    return {Errc::kDeadline,
            fmt::format("no answer from {} within {} s; is it running, and reachable?", whom,
                        (clock_.now_ns() - started_ns_) / kSecond)};
}

void ClientCore::fail(Status status) {
    if (phase_ == Phase::kFailed) return;
    phase_ = Phase::kFailed;
    failure_ = std::move(status);
    calls_.for_each([&](CallId, Call& call) { fail_call(call, failure_); });
}

void ClientCore::expire(uint64_t now_ns) {
    if (phase_ < Phase::kReady && now_ns - started_ns_ > options_.join_timeout_ns) {
        std::string whom = "the manager (rank 0)";
        if (phase_ == Phase::kConnectingToShards) {
            for (const Peer& peer : peers_) {
                if (peer.state == Peer::State::kConnecting) whom = peer.name;
            }
        }
        fail(no_answer_from(whom));
    }
    if (now_ns < next_deadline_ns_) return;
    next_deadline_ns_ = ~uint64_t{0};
    requests_.for_each([&](uint64_t, Request& request) {
        Call* const call = calls_.find(request.call);
        if (call == nullptr || call->finished) return;
        if (now_ns < call->deadline_ns) {
            if (now_ns >= call->next_sign_ns) peers_[request.peer].asks_for_sign = true;
            next_deadline_ns_ = std::min(next_deadline_ns_, call->deadline_ns);
            return;
        }
        std::string text =
            request.header.kind == Kind::kBarrier
                ? "not all workers came to the barrier before the deadline"
                : fmt::format("{} did not answer before the deadline", peers_[request.peer].name);
        if (request.header.iteration != 0) {
            text += fmt::format("; it may still wait for another worker's part of iteration {}",
                                request.header.iteration);
        }
        fail_call(*call, Error(Errc::kDeadline, std::move(text)));
    });
    take_signs_of_life();
    ask_for_signs_of_life(now_ns);
    withdraw_barriers();
}

/// Fails the open calls to a server that did not give a sign of life in time.
void ClientCore::take_signs_of_life() {
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (peer.sign == 0 || !done(peer.sign)) continue;
        if (take(std::exchange(peer.sign, 0)).code() != Errc::kDeadline) continue;
        requests_.for_each([&](uint64_t, Request& request) {
            Call* const call = request.peer == i ? calls_.find(request.call) : nullptr;
            if (call == nullptr || call->finished) return;
            fail_call(*call, Error(Errc::kDeadline,
                                   fmt::format("{} gave no sign of life for {} ms", peer.name,
                                               sign_period_ns() / kMillisecond)));
        });
    }
}

/// A call with a longer deadline than usual waits for other workers. This must not hide that a
/// server has stopped. So each server that such a call waits for must answer a request that waits
/// for no worker, twice within the usual deadline.
void ClientCore::ask_for_signs_of_life(uint64_t now_ns) {
    calls_.for_each([&](CallId, Call& call) {
        if (call.finished || call.deadline_ns <= now_ns) return;
        if (call.next_sign_ns <= now_ns) call.next_sign_ns = now_ns + sign_period_ns();
        next_deadline_ns_ = std::min(next_deadline_ns_, call.next_sign_ns);
    });
    for (uint32_t i = 0; i < peers_.size(); ++i) {
        Peer& peer = peers_[i];
        if (!std::exchange(peer.asks_for_sign, false)) continue;
        if (peer.sign != 0 || i == manager() || peer.state != Peer::State::kOpen) continue;
        peer.sign = control(i, Kind::kStats, {}, sign_period_ns());
    }
}

/// Tells the manager of barriers whose call has ended here and which are still open there: this
/// worker must not count as waiting, and their requests must end.
void ClientCore::withdraw_barriers() {
    std::vector<uint64_t> ended;
    requests_.for_each([&](uint64_t id, Request& request) {
        if (request.header.kind != Kind::kBarrier || !request.sent || request.withdrawn) return;
        const Call* const call = calls_.find(request.call);
        if (call != nullptr && !call->finished) return;
        request.withdrawn = true;
        ended.push_back(id);
    });
    for (const uint64_t id : ended)
        drop(control(manager(), Kind::kWithdraw, {}, 0, id));
}

/// Sends the call's requests, then sets its deadline: reading the clock takes as long as writing
/// a short message, so it must not delay them.
void ClientCore::send_off(Call& call, uint64_t deadline_ns) {
    endpoint_->flush();
    const uint64_t now_ns = clock_.now_ns();
    call.deadline_ns = now_ns + (deadline_ns != 0 ? deadline_ns : options_.deadline_ns);
    call.next_sign_ns = now_ns + sign_period_ns();
    next_deadline_ns_ = std::min({next_deadline_ns_, call.deadline_ns, call.next_sign_ns});
}

ClientCore::CallId ClientCore::failed_call(Status status) {
    CallId id = 0;
    Call* const call = calls_.acquire(id);
    if (call == nullptr) return 0;  // take(0) returns kBusy
    call->status = std::move(status);
    call->finished = true;
    return id;
}

void ClientCore::note_error(Call& call, Status status) {
    if (!call.finished && call.status) call.status = std::move(status);
}

void ClientCore::fail_call(Call& call, Status status) {
    note_error(call, std::move(status));
    call.finished = true;
}

/// Whether this request reads or writes the caller's memory, or may have to: it is not sent yet;
/// its values or keys were sent as an address in that memory; or its keys were sent as a hash,
/// which the shard may have forgotten.
bool ClientCore::needs_caller(const Request& request) noexcept {
    const uint8_t flags = request.header.flags;
    return !request.sent || (flags & wire::kKeysKnown) != 0 ||
           ((flags & wire::kKeysRemote) != 0 && !request.staged_keys) ||
           ((flags & wire::kValuesRemote) != 0 && !request.staged_values);
}

void ClientCore::end_request(uint64_t id, Request& request) {
    const CallId call = request.call;
    requests_.release(id);
    request_ended(call);
}

/// Lets the call go on without this request. The request stays, with what it refers to, because a
/// server may still reach that memory.
void ClientCore::abandon_request(Request& request) {
    ++requests_in_doubt_;
    request_ended(std::exchange(request.call, 0));
}

void ClientCore::request_ended(CallId id) {
    Call* const call = calls_.find(id);
    if (call == nullptr) return;
    bool over = --call->open_requests == 0;
    if (!over && !call->status && !call->starting) {
        over = true;
        requests_.for_each([&](uint64_t, const Request& other) {
            if (other.call == id && needs_caller(other)) over = false;
        });
    }
    if (over) call->finished = true;
    release_if_over(id, *call);
}

void ClientCore::release_if_over(CallId id, Call& call) {
    if (call.dropped && call.open_requests == 0) calls_.release(id);
}

bool ClientCore::done(CallId call) noexcept {
    const Call* const found = calls_.find(call);
    return found == nullptr || found->finished;
}

Status ClientCore::take(CallId id) {
    Call* const call = calls_.find(id);
    if (call == nullptr) {
        return Error(Errc::kBusy, fmt::format("more than {} calls are open; wait for some of them",
                                              Slots<Call>::kCountMax));
    }
    Status status = std::move(call->status);
    call->dropped = true;
    release_if_over(id, *call);
    return status;
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
    return found;
}

void ClientCore::drop(CallId id) noexcept {
    if (Call* const call = calls_.find(id)) {
        call->dropped = true;
        release_if_over(id, *call);
    }
}

ClientCore::CallId ClientCore::control(uint32_t peer, Kind kind, std::vector<std::byte> body,
                                       uint64_t deadline_ns, uint64_t first) {
    if (phase_ != Phase::kReady) {
        return failed_call(failure_
                               ? Error(Errc::kUnavailable, "the client has not joined its job yet")
                               : failure_);
    }
    CallId call_id = 0;
    Call* const call = calls_.acquire(call_id);
    if (call == nullptr) return 0;
    uint64_t id = 0;
    Request* const request = requests_.acquire(id);
    if (request == nullptr) {
        fail_call(*call, Error(Errc::kBusy, kTooManyRequests));
        return call_id;
    }
    call->open_requests = 1;
    request->call = call_id;
    request->peer = peer;
    request->header.kind = kind;
    request->header.first = first;
    request->body = std::move(body);
    submit(id, *request);
    send_off(*call, deadline_ns);
    return call_id;
}

ClientCore::CallId ClientCore::create_table(const TableSchema& schema) {
    if (Status wrong = check_name(schema.name); !wrong) return failed_call(std::move(wrong));
    // Checked here too: a shard could not describe the mistake as well.
    if (Result<const RuleEntry*> rule = check_schema(schema, rules_); !rule) {
        return failed_call(std::move(rule).error());
    }
    return control(manager(), Kind::kCreateTable,
                   TableMessage{0, schema.name, encode_schema(schema)}.encode());
}

ClientCore::CallId ClientCore::open_table(std::string_view table_name) {
    if (Status wrong = check_name(table_name); !wrong) return failed_call(std::move(wrong));
    return control(manager(), Kind::kOpenTable,
                   TableMessage{0, std::string(table_name), {}}.encode());
}

ClientCore::CallId ClientCore::barrier(uint64_t deadline_ns) {
    for (uint32_t i = 0; phase_ == Phase::kReady && i < manager(); ++i) {
        if (peers_[i].state != Peer::State::kLost) continue;
        return failed_call(Error(
            Errc::kPeerLost, fmt::format("{} is gone: no barrier can be reached", peers_[i].name)));
    }
    return control(manager(), Kind::kBarrier, {}, deadline_ns);
}

ClientCore::CallId ClientCore::leave(const Status& outcome, uint64_t deadline_ns) {
    gave_up_ = !outcome.has_value();
    // Shards then answer our requests that wait for other workers, and stop waiting for our
    // parts.
    for (uint32_t i = 0; gave_up_ && phase_ == Phase::kReady && i < manager(); ++i) {
        if (peers_[i].state == Peer::State::kOpen) drop(control(i, Kind::kLeave, {}, deadline_ns));
    }
    const LeaveMessage message{outcome.code(), outcome ? std::string() : outcome.error().message()};
    return control(manager(), Kind::kLeave, message.encode(), deadline_ns);
}

void ClientCore::close() {
    if (open_requests() == 0) return;
    fail(Error(Errc::kCancelled, "this client is at its end"));
    requests_.for_each([&](uint64_t, const Request& request) {
        Peer& peer = peers_[request.peer];
        if (peer.state == Peer::State::kLost || peer.fault != Errc::kOk) return;
        peer.fault = Errc::kCancelled;
        endpoint_->close(peer.connection);
    });
}

/// Closes the connections to the shards, once a worker that gave up has no open requests.
void ClientCore::leave_shards() {
    gave_up_ = false;
    for (Peer& peer : std::span(peers_).first(manager())) {
        if (peer.state == Peer::State::kOpen) endpoint_->close(peer.connection);
        peer.state = Peer::State::kLost;
    }
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
    return make_table_info(std::move(*schema), rules_);
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
