// SPDX-License-Identifier: Apache-2.0
#include "lib/server/shard.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/schema_codec.h"

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;

namespace {

constexpr const char* kNoSuchWorker =
    "a hello with the number of a worker that this job does not have";

}  // namespace

Shard::Shard(ShardOptions options, std::unique_ptr<transport::Endpoint> endpoint,
             const Clock& clock, Memory& memory, const RuleRegistry& rules)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      clock_(clock),
      memory_(memory),
      rules_(rules),
      outbox_(*endpoint_),
      fetcher_(*endpoint_, memory_, options_.fetch_bytes_max),
      lists_(memory_, options_.list_cache_bytes),
      sessions_(options_.waiting_bytes_max),
      writes_(*endpoint_) {
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
    if (writes_.waiting()) done += post_waiting_writes();
    if (retry_) done += retry_waiting();
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
    if (const auto& table = tables_[h.table]) table->rows->prefetch({h.first, h.first + h.count});
}

int Shard::arm() {
    const bool nothing_waits =
        outbox_.empty() && !fetcher_.waiting() && !retry_ && !writes_.waiting();
    return nothing_waits ? endpoint_->arm() : -1;
}

void Shard::handle(const Completion& completion) {
    switch (completion.event) {
        case Event::kReceived: return receive(completion.connection, completion.message);
        case Event::kRead: return fetcher_.ended(completion.context, completion.status);
        case Event::kWritten:
            writes_.completed(completion.context, completion.status);
            return take_ended_writes();
        case Event::kAccepted: return sessions_.open(completion.connection);
        case Event::kConnected: {
            const JoinMessage join{JoinMessage::Role::kShard, options_.rank, options_.number,
                                   endpoint_->address(), options_.host};
            return outbox_.send(completion.connection, wire::header_of(Kind::kJoin), join.encode());
        }
        case Event::kClosed: return closed(completion.connection);
        case Event::kImmediate:
            return refuse(completion.connection, "an immediate, which shards do not take");
    }
}

void Shard::receive(ConnectionId connection, std::span<const std::byte> message) {
    wire::Frame frame;
    if (wire::decode(message, frame) != Errc::kOk) {
        return connection == manager_
                   ? end(Error(Errc::kProtocol, "the manager sent a malformed frame"))
                   : refuse(connection, "a malformed frame");
    }
    if (connection == manager_) return control(connection, frame);
    Session* const session = sessions_.find(connection);
    if (session == nullptr) return;  // refused earlier in this poll
    const Kind kind = frame.header.kind;
    if (!session->known) {
        if (kind == Kind::kHello) return hello(*session, frame);
        return refuse(connection, "a frame before the hello that names its worker");
    }
    if (kind == Kind::kPush || kind == Kind::kPull) {
        const bool is_counted = kind == Kind::kPush &&
                                (frame.header.flags & wire::kAggregate) == 0 &&
                                frame.header.table < tables_.size();
        if (is_counted) frame.number = session->order(frame.header.table).arrived(frame.header);
        return admit(*session, frame);
    }
    if (kind == Kind::kHello) return another_hello(*session, frame);
    if (kind == Kind::kStats) return stats(connection, frame.header.request);
    if (kind == Kind::kLeave) return worker_gave_up(*session, frame.header.request);
    refuse(connection, "a frame that workers do not send to a shard");
}

void Shard::hello(Session& session, const wire::Frame& frame) {
    switch (sessions_.hello(session, frame.header.first, frame.header.request)) {
        case Sessions::Hello::kWelcome:
            for (const ConnectionId older : sessions_.others(session)) {
                endpoint_->close(older);
                closed(older);
            }
            return;
        case Sessions::Hello::kNoSuchWorker: return refuse(session.connection, kNoSuchWorker);
        case Sessions::Hello::kOld:
            return refuse(session.connection,
                          "a hello with the number of a worker that is connected already");
    }
}

/// The next push of a table has a time that is far from those before.
void Shard::another_hello(Session& session, const wire::Frame& frame) {
    const auto message = HelloMessage::decode(frame.values);
    if (!message || message->table >= tables_.size()) {
        return refuse(session.connection, "a frame that workers do not send to a shard");
    }
    session.order(message->table).base_time = message->time;
}

void Shard::control(ConnectionId connection, const wire::Frame& frame) {
    switch (frame.header.kind) {
        case Kind::kView: return receive_view(frame.values);
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
        case Kind::kLeave: return manager_lost_worker(frame.header.first);
        case Kind::kShutdown:
            if (frame.header.status == Errc::kOk) return end({});
            return end(Error(frame.header.status,
                             decode_text(frame.values).value_or("the manager ended the job")));
        default:
            log(LogLevel::kWarning, "{}: ignored a frame of kind {} from the manager", name(),
                static_cast<int>(frame.header.kind));
    }
}

void Shard::receive_view(std::span<const std::byte> body) {
    if (const Status part = view_parts_.add(body); !part) {
        return end(
            Error(Errc::kProtocol, "the manager sent a malformed view: " + part.error().message()));
    }
    if (!view_parts_.complete()) return;
    const ViewParts parts = std::exchange(view_parts_, {});
    Result<View> view = weir::apply(view_, parts.change());
    if (!view) {
        return end(Error(Errc::kProtocol,
                         "the manager sent an impossible view: " + view.error().message()));
    }
    take_view(std::move(*view));
}

void Shard::take_view(View view) {
    const ViewShard* const self = view.shard(options_.number);
    const bool is_first = phase_ == Phase::kJoining;
    // Rows do not move yet, and the members of iterations do not change.
    const bool is_like_before = is_first || (self != nullptr && self->since == since_ &&
                                             std::ranges::equal(view.workers(), view_.workers()));
    if (self == nullptr || view.workers().size() != view.data().next_worker || !is_like_before) {
        return end(Error(Errc::kProtocol,
                         fmt::format("the manager sent view {}, which has another place for this "
                                     "shard, or none, or other workers",
                                     view.epoch())));
    }
    view_ = std::move(view);
    since_ = self->since;
    std::vector<PositionRange> held;
    for (const uint32_t segment : view_.segments_of(options_.number))
        held.push_back(view_.range(segment));
    if (is_first) segments_ = SegmentList(since_, std::move(held));
    retry_ |= !early_.empty();
    if (!is_first) return;
    phase_ = Phase::kServing;
    for (const ConnectionId connection : sessions_.begin(view_.data().next_worker))
        refuse(connection, kNoSuchWorker);
}

Status Shard::create_table(std::span<const std::byte> body) {
    const auto message = TableMessage::decode(body);
    auto schema = message ? decode_schema(message->schema) : std::nullopt;
    if (!schema || message->table >= TableMessage::kTablesMax || phase_ != Phase::kServing) {
        return Error(Errc::kProtocol, "a malformed table schema");
    }
    schema->id = message->table;
    Result<std::unique_ptr<TableShard>> table =
        TableShard::make(*schema, view_.owned(options_.number), rules_, memory_, lists_);
    if (!table) {
        log(LogLevel::kError, "{}: table '{}': {}", name(), schema->name, table.error().message());
        return std::move(table).error();
    }
    if (message->table < tables_.size() && tables_[message->table] != nullptr) {
        // The network may be reading the rows of the first one.
        return Error(Errc::kProtocol,
                     "the manager gave the number of this table to another table before");
    }
    if (tables_.size() <= message->table) tables_.resize(message->table + 1);
    const uint32_t workers = sessions_.worker_count();
    auto made = std::make_unique<ShardTable>(std::move(*table), workers);
    for (uint32_t worker = 0; worker < workers; ++worker) {
        if (sessions_.is_lost(worker)) made->iterations.state().lose(worker);
    }
    tables_[message->table] = std::move(made);
    return {};
}

void Shard::closed(ConnectionId connection) {
    outbox_.forget(connection);
    fetcher_.forget(connection);
    if (connection == manager_) {
        manager_lost_ = true;
        if (phase_ == Phase::kJoining) {
            return end(Error(Errc::kPeerLost,
                             "the manager (rank 0) is gone before the job began; look for its "
                             "output"));
        }
        log(LogLevel::kWarning,
            "{}: the manager (rank 0) is gone; this shard serves until all workers are gone, too",
            name());
        for (uint32_t worker = 0; worker < sessions_.worker_count(); ++worker) {
            if (!sessions_.is_connected(worker)) expect_no_more_parts_of(worker);
        }
    } else {
        if (Session* const session = sessions_.find(connection)) forget_pushes(*session);
        const std::optional<uint32_t> worker = sessions_.close(connection);
        for (const auto& table : tables_) {
            if (table != nullptr) table->deferred.forget(connection);
        }
        early_.forget(connection);
        writes_.forget(connection);
        take_ended_writes();
        // A connection may break between processes that live: the manager says who is dead.
        const bool is_over = worker && !sessions_.is_connected(*worker) &&
                             (manager_lost_ || sessions_.is_leaving(*worker));
        if (is_over) expect_no_more_parts_of(*worker);
    }
    if (manager_lost_ && sessions_.empty() && phase_ == Phase::kServing) {
        end(Error(Errc::kPeerLost,
                  "the manager (rank 0) and all workers are gone; look for their output"));
    }
}

void Shard::refuse(ConnectionId connection, std::string_view why) {
    const Session* const session = sessions_.find(connection);
    const bool is_worker = session != nullptr && session->known;
    refusals_.log(LogLevel::kWarning,
                  fmt::format("{}: {}", is_worker ? "worker" : "unknown peer", why),
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
