// SPDX-License-Identifier: Apache-2.0
#include "lib/server/shard.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/schema_codec.h"

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;

Shard::Shard(ShardOptions options, std::unique_ptr<transport::Endpoint> endpoint,
             const Clock& clock, Memory& memory, const RuleRegistry& rules)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      clock_(clock),
      memory_(memory),
      rules_(rules),
      outbox_(*endpoint_),
      fetcher_(*endpoint_, memory_, options_.fetch_bytes_max),
      lists_(memory_, options_.list_cache_bytes) {
    memory_.add(fetcher_.spares());
    memory_.add(lists_);
    Result<ConnectionId> connection = endpoint_->connect(options_.manager_address);
    if (connection) {
        manager_ = *connection;
    } else {
        end(std::move(connection).error());
    }
}

Shard::~Shard() {
    endpoint_.reset();  // first: it may still be reading into or out of the members' memory
}

std::string Shard::name() const {
    return fmt::format("shard {}", options_.number);
}

size_t Shard::poll() {
    const size_t count = endpoint_->poll(completions_);
    for (size_t i = 0; i < count; ++i) {
        if (i + 1 < count) prefetch_rows(completions_[i + 1]);
        handle(completions_[i]);
    }
    size_t done = count;
    if (fetcher_.waiting()) done += take_fetched();
    if (!writes_waiting_.empty()) done += post_writes();
    if (retry_) done += retry_deferred();
    if (!outbox_.empty()) done += outbox_.flush();
    if (refusals_.pending()) refusals_.look();
    if (done > 0) endpoint_->flush();
    return done;
}

/// Prefetches the rows that the next message names, while the message before it is processed.
void Shard::prefetch_rows(const Completion& next) const {
    wire::FrameHeader h;
    if (next.event != Event::kReceived || !wire::glance(next.message, h)) return;
    if ((h.flags & wire::kKeysRange) == 0 || h.table >= tables_.size()) return;
    if (const auto& state = tables_[h.table]) state->table->prefetch({h.first, h.first + h.count});
}

int Shard::arm() {
    const bool nothing_waits =
        outbox_.empty() && !fetcher_.waiting() && !retry_ && writes_waiting_.empty();
    return nothing_waits ? endpoint_->arm() : -1;
}

void Shard::handle(const Completion& completion) {
    switch (completion.event) {
        case Event::kReceived: return receive(completion.connection, completion.message);
        case Event::kRead: return fetcher_.ended(completion.context, completion.status);
        case Event::kWritten: return written(completion.context, completion.status);
        case Event::kAccepted:
            sessions_[completion.connection].connection = completion.connection;
            return;
        case Event::kConnected: {
            const JoinMessage join{JoinMessage::Role::kShard, options_.rank, options_.number,
                                   endpoint_->address()};
            return outbox_.send(completion.connection, wire::header_of(Kind::kJoin), join.encode());
        }
        case Event::kClosed: return closed(completion.connection);
        case Event::kImmediate: return refuse(completion.connection, "an immediate");
    }
}

Shard::Session* Shard::session_of(ConnectionId connection) {
    if (last_session_ != nullptr && last_session_->connection == connection) return last_session_;
    const auto found = sessions_.find(connection);
    if (found == sessions_.end()) return nullptr;
    last_session_ = &found->second;
    return last_session_;
}

void Shard::receive(ConnectionId connection, std::span<const std::byte> message) {
    wire::Frame frame;
    if (wire::decode(message, frame) != Errc::kOk) {
        return connection == manager_
                   ? end(Error(Errc::kProtocol, "the manager sent a malformed frame"))
                   : refuse(connection, "a malformed frame");
    }
    if (connection == manager_) return control(connection, frame);
    Session* const session = session_of(connection);
    if (session == nullptr) return;  // refused earlier in this poll
    const Kind kind = frame.header.kind;
    if (!session->known) {
        if (kind == Kind::kHello) return hello(*session, frame);
        return refuse(connection, "a frame before saying who it is");
    }
    if (kind == Kind::kPush || kind == Kind::kPull) return admit(*session, frame);
    if (kind == Kind::kStats) return stats(connection, frame.header.request);
    if (kind == Kind::kLeave) return worker_gave_up(*session, frame.header.request);
    refuse(connection, "a frame that workers do not send to a shard");
}

void Shard::hello(Session& session, const wire::Frame& frame) {
    const uint64_t worker = frame.header.first;
    // A worker may have the assignment before this shard: assigned() then checks the number.
    const uint64_t limit =
        phase_ == Phase::kServing ? worker_count_ : std::numeric_limits<uint32_t>::max();
    if (worker >= limit) {
        return refuse(session.connection, "the number of a worker that is not in this job");
    }
    const auto has_it = [&](const auto& other) {
        return other.second.known && other.second.worker == worker;
    };
    if (std::any_of(sessions_.begin(), sessions_.end(), has_it)) {
        return refuse(session.connection, "the number of a worker that is connected already");
    }
    session.known = true;
    session.worker = static_cast<uint32_t>(worker);
}

void Shard::control(ConnectionId connection, const wire::Frame& frame) {
    switch (frame.header.kind) {
        case Kind::kAssignment: return assigned(frame.values);
        case Kind::kCreateTable: {
            wire::FrameHeader header = wire::header_of(Kind::kReply);
            header.request = frame.header.request;
            const Status made = create_table(frame.values);
            header.status = made.code();
            const std::string why =
                made ? std::string() : fmt::format("{}: {}", name(), made.error().message());
            return outbox_.send(connection, header,
                                made ? std::vector<std::byte>() : encode_text(why.substr(0, 600)));
        }
        case Kind::kLeave: return worker_gone(frame.header.first);
        case Kind::kShutdown:
            if (frame.header.status == Errc::kOk) return end({});
            return end(Error(frame.header.status,
                             decode_text(frame.values).value_or("the manager ended the job")));
        default: log(LogLevel::kWarning, "{}: a frame that shards do not get", name());
    }
}

void Shard::assigned(std::span<const std::byte> body) {
    if (!assignment_parts_.add(body)) {
        return end(Error(Errc::kProtocol, "the manager sent a malformed assignment"));
    }
    if (!assignment_parts_.complete()) return;
    const AssignmentMessage& message = assignment_parts_.whole();
    Result<Assignment> assignment = Assignment::make(message.epoch, message.shape);
    if (!assignment || options_.number >= assignment->shard_count()) {
        return end(Error(Errc::kProtocol, "the manager sent an assignment that makes no sense"));
    }
    assignment_ = std::make_unique<Assignment>(std::move(*assignment));
    worker_count_ = message.worker_count;
    lost_workers_.assign(worker_count_, false);
    phase_ = Phase::kServing;
    std::vector<ConnectionId> strangers;
    for (const auto& [connection, session] : sessions_) {
        if (session.known && session.worker >= worker_count_) strangers.push_back(connection);
    }
    for (const ConnectionId stranger : strangers) {
        refuse(stranger, "the number of a worker that is not in this job");
    }
}

Status Shard::create_table(std::span<const std::byte> body) {
    const auto message = TableMessage::decode(body);
    auto schema = message ? decode_schema(message->schema) : std::nullopt;
    if (!schema || message->table >= TableMessage::kTablesMax || phase_ != Phase::kServing) {
        return Error(Errc::kProtocol, "a malformed table schema");
    }
    schema->id = message->table;
    Result<std::unique_ptr<TableShard>> table =
        TableShard::make(*schema, assignment_->owned(options_.number), rules_, memory_, lists_);
    if (!table) {
        log(LogLevel::kError, "{}: table '{}': {}", name(), schema->name, table.error().message());
        return std::move(table).error();
    }
    if (message->table < tables_.size() && tables_[message->table] != nullptr) {
        // The network may be reading the rows of the first one.
        return Error(Errc::kProtocol, "a second table of the same number");
    }
    if (tables_.size() <= message->table) tables_.resize(message->table + 1);
    auto state = std::make_unique<TableState>(std::move(*table), worker_count_);
    for (uint32_t worker = 0; worker < worker_count_; ++worker) {
        if (lost_workers_[worker]) state->iterations.lose(worker);
    }
    tables_[message->table] = std::move(state);
    return {};
}

/// The manager says that a worker is lost. If the worker is connected here, its pushes may still
/// arrive, and it counts as lost when its connection closes. If it is not, it counts as lost now.
void Shard::worker_gone(uint64_t worker) {
    if (worker >= worker_count_) {
        return log(LogLevel::kWarning, "{}: the manager lost a worker that there is not", name());
    }
    const auto has_it = [&](const auto& other) {
        return other.second.known && other.second.worker == worker;
    };
    if (lost_workers_[worker] || std::any_of(sessions_.begin(), sessions_.end(), has_it)) return;
    worker_lost(static_cast<uint32_t>(worker));
}

/// A lost worker never pushes again: answers the requests that wait for a part of it.
void Shard::worker_lost(uint32_t worker) {
    lost_workers_[worker] = true;
    for (const auto& state : tables_) {
        if (state == nullptr) continue;
        state->iterations.lose(worker);
        answer_failed(*state);
    }
    retry_ = true;
}

/// A worker says that it will push no further part of an iteration: it counts as lost. Its own
/// requests that wait for an iteration fail, too, here or when they are admitted again, so that
/// it gets its buffers back.
void Shard::worker_gave_up(const Session& session, uint64_t request) {
    if (session.worker < lost_workers_.size()) {
        worker_lost(session.worker);
        for (const auto& state : tables_) {
            if (state == nullptr) continue;
            std::erase_if(state->to_acknowledge, [&](const Acknowledgement& waiting) {
                if (waiting.connection != session.connection) return false;
                reply_failed(waiting.connection, waiting.request,
                             {Errc::kPeerLost, session.worker});
                return true;
            });
        }
    }
    reply(session.connection, request, Errc::kOk);
}

/// Answers a part of, or a pull that names, an iteration that has failed at this shard.
void Shard::reply_failed(ConnectionId connection, uint64_t request,
                         const Iterations::Failure& failure) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.flags = wire::kIteration;
    header.request = request;
    header.status = failure.status;
    header.first = failure.worker;
    outbox_.send(connection, header);
}

void Shard::reply(ConnectionId connection, uint64_t request, Errc status, uint64_t detail,
                  std::span<const std::byte> body) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = request;
    header.status = status;
    header.first = detail;
    outbox_.send(connection, header, body);
}

void Shard::stats(ConnectionId connection, uint64_t request) {
    StatsMessage message = counters_;
    message.bytes_sent += endpoint_->counters().bytes_sent;
    message.bytes_received += endpoint_->counters().bytes_received;
    message.bytes_copied += endpoint_->counters().bytes_staged;
    const MemoryUse use = memory_.use();
    message.registered_bytes = use.registered_bytes;
    message.used_bytes = use.used_bytes;
    message.lists_remembered = lists_.list_count();
    for (const auto& state : tables_) {
        if (state == nullptr) continue;
        message.keys_held += state->table->row_count();
    }
    reply(connection, request, Errc::kOk, 0, message.encode());
}

void Shard::closed(ConnectionId connection) {
    outbox_.forget(connection);
    fetcher_.forget(connection);
    if (connection == manager_) {
        manager_lost_ = true;
        if (phase_ == Phase::kJoining) {
            return end(Error(Errc::kPeerLost, "the manager (rank 0) is gone before the job began"));
        }
        log(LogLevel::kWarning, "{}: the manager is gone; serving on until the workers are",
            name());
    } else {
        const auto found = sessions_.find(connection);
        if (found == sessions_.end()) return;
        const Session session = found->second;
        last_session_ = nullptr;
        sessions_.erase(found);
        for (const auto& state : tables_) {
            if (state == nullptr) continue;
            const auto is_its = [&](const auto& waiting) {
                return waiting.connection == connection;
            };
            std::erase_if(state->deferred, is_its);
            std::erase_if(state->behind_pins, is_its);
        }
        for (const uint64_t id : std::exchange(writes_waiting_, {})) {
            if (writes_.at(id).connection == connection) {
                written(id, Errc::kPeerLost);
            } else {
                writes_waiting_.push_back(id);
            }
        }
        if (session.known && session.worker < worker_count_) worker_lost(session.worker);
    }
    if (manager_lost_ && sessions_.empty() && phase_ == Phase::kServing) {
        end(Error(Errc::kPeerLost, "the manager (rank 0) and all workers are gone"));
    }
}

void Shard::refuse(ConnectionId connection, std::string_view why) {
    const Session* const session = session_of(connection);
    const bool is_worker = session != nullptr && session->known;
    refusals_.log(LogLevel::kWarning, fmt::format("{}: {}", is_worker ? "worker" : "stranger", why),
                  fmt::format("{}: closing the connection to {}: it sent {}", name(),
                              endpoint_->peer_name(connection), why));
    endpoint_->close(connection);
    closed(connection);
}

void Shard::end(Status outcome) {
    if (phase_ == Phase::kOver) return;
    phase_ = Phase::kOver;
    outcome_ = std::move(outcome);
}

}  // namespace weir
