// SPDX-License-Identifier: Apache-2.0
#include "lib/server/shard.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/secret_seed.h"
#include "lib/node/manager_names.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rule_threw.h"
#include "lib/wire/fault.h"

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;

constexpr size_t kReportBytesMax = 2048;  // of what threw, for the manager

Shard::Shard(ShardOptions options, std::unique_ptr<transport::Endpoint> endpoint,
             const Clock& clock, Memory& memory, const RuleRegistry& rules)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      clock_(clock),
      memory_(memory),
      rules_(rules),
      fetcher_(*endpoint_, requests_, memory_, options_.fetch_bytes_max),
      lists_(memory_, options_.list_cache_bytes),
      pass_(options_.secret_seed ? mix64(*options_.secret_seed) : secret_seed()),
      to_manager_(*endpoint_, clock_, options_.manager_address, options_.link),
      sessions_(options_.waiting_bytes_max),
      replication_(*this, *endpoint_, clock_, view_, tables_, lists_,
                   {options_.lease, options_.lending, options_.change_bytes_max, pass_}, refusals_),
      replies_(*endpoint_, clock_, streams_, options_.lease),
      writes_(*endpoint_, requests_),
      row_scan_(options_.secret_seed) {
    memory_.add(fetcher_.spares());
    memory_.add(lists_);
    replication_.set_number(options_.number);
    if (Status begun = to_manager_.connect(); !begun) end(std::move(begun));
}

Shard::~Shard() {
    streams_.end();  // they close their connections
    to_manager_.end();
    endpoint_.reset();  // it may still be reading into or out of the members' memory
}

std::string Shard::name() const {
    const bool has_number = !options_.join || is_admitted_;
    return fmt::format("shard {}{}", options_.number, has_number ? "" : " of a joining server");
}

JoinMessage Shard::join_message() const {
    JoinMessage message{JoinMessage::Role::kShard, options_.rank, options_.number,
                        endpoint_->address(), options_.host};
    message.host_name = options_.host_name;
    if (options_.join) {
        message.joiner = options_.join->joiner;
        message.shard_count = options_.join->shard_count;
        message.weight = options_.join->weight;
        message.pool_bytes = options_.join->pool_bytes;
        message.plugins = options_.join->plugins;
    }
    message.pass = pass_;
    return message;
}

/// An exception is the program's: Weir throws std::bad_alloc alone, which ends this shard (Runtime).
size_t Shard::poll() {
    if (phase_ == Phase::kThrown) [[unlikely]]
        return wait_for_the_end();
    try {
        return work();
    } catch (const RuleThrew& why) {
        thrown(why.what());
    } catch (const std::bad_alloc&) {
        throw;
    } catch (...) {
        thrown("code of the program threw: " + text_of_exception());
    }
    return 1;
}

/// Some rows may be half changed, so nobody may hear of them: no worker, no copy, no checkpoint. The push
/// would throw again wherever it came again, so nobody takes over, either: the manager, which hears of
/// this server as ever, ends the job.
void Shard::thrown(const std::string& what) {
    if (phase_ == Phase::kOver) return;
    const Error why(
        Errc::kException,
        fmt::format("{} ({}); the job ends, because the push would throw again wherever "
                    "it came again; mend the rule, and start the job again{}",
                    what, name(), resume_if_there(options_.checkpoint_folder)));
    log(LogLevel::kError, "{}", why.text());
    has_thrown_ = true;
    if (phase_ == Phase::kJoining || manager_lost_) return end(why);  // nobody else ends it
    phase_ = Phase::kThrown;
    outcome_ = why;
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = why.code();
    to_manager_.send(header, encode_text(why.text().substr(0, kReportBytesMax)));
    endpoint_->flush();
}

size_t Shard::wait_for_the_end() {
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count)) {
        if (to_manager_.owns(completion.connection)) handle(completion);
    }
    const size_t done = count + (to_manager_.must_poll() ? poll_link() : 0);
    if (done > 0) endpoint_->flush();
    if (done == 0) look_for_silence();
    return done;
}

size_t Shard::work() {
    const size_t count = endpoint_->poll(
        std::span(completions_).first(replication_.messages_per_poll(completions_.size())));
    for (size_t i = 0; i < count; ++i) {
        if (i + 1 < count) prefetch_rows(completions_[i + 1]);
        handle(completions_[i]);
    }
    size_t done = count;
    if (fetcher_.waiting()) done += run_fetched();
    if (writes_.waiting()) done += post_waiting_writes();
    if (!tables_to_fill_.empty()) {
        (void)go_on_making_table();
        ++done;
    }
    if (is_moving_) done += move_on();
    if (retry_) done += retry_waiting();
    done += replies_.flush();
    if (to_manager_.must_poll()) done += poll_link();
    if (refusals_.pending()) refusals_.look();
    if (done > 0) endpoint_->flush();
    if (is_moving_) {
        const size_t behind = work_behind();
        if (behind > 0) endpoint_->flush();
        done += behind;
    }
    if (!erasable_.empty()) [[unlikely]]
        done += vacuum_some();
    if (done == 0 && sessions_.empty()) look_for_silence();
    return done;
}

/// Workers end by their deadlines when the manager is stopped, or its host is gone. A server that nobody
/// uses any more ends, too.
void Shard::look_for_silence() {
    const ManagerLife* const life = options_.link.manager.get();
    if (phase_ == Phase::kJoining || life == nullptr || !life->is_silent) return;
    if (phase_ == Phase::kThrown) return end({});
    end(Error(Errc::kPeerLost, manager_is_silent(life) + "; no worker is left"));
}

size_t Shard::poll_link() {
    const size_t done = to_manager_.poll(name());
    if (const std::optional<Error> end = to_manager_.take_end()) {
        log(LogLevel::kWarning, "{}: {}", name(), end->text());
        lose_manager();
    }
    return done;
}

/// Prefetches the rows that the next message names, while the message before it is processed.
void Shard::prefetch_rows(const Completion& next) const {
    wire::FrameHeader h;
    if (next.event != Event::kReceived || !wire::glance(next.message, h)) return;
    if ((h.flags & wire::kKeysRange) == 0 || h.table >= tables_.size()) return;
    if (const auto& table = tables_[h.table]) table->rows->prefetch({h.first, h.first + h.count});
}

/// The lease is extended by another thread, and yet another one works at the disk.
uint64_t Shard::sleep_ns_max() const noexcept {
    if (phase_ == Phase::kThrown) return kMillisecond;
    const bool waits_for_others =
        (replies_.needs_lease() && (replies_.waits_for_lease() || !unreported_drops_.empty())) ||
        !fills_.empty() || checkpoint_.is_under_way();
    if (waits_for_others) return kMillisecond;
    const uint64_t look_ns =
        sessions_.empty() ? kSecond : ~uint64_t{0};  // whether the manager is silent
    const uint64_t due_ns = replication_.due_ns();
    if (due_ns == ~uint64_t{0}) return look_ns;
    const uint64_t now_ns = clock_.now_ns();
    return due_ns > now_ns ? std::min(look_ns, due_ns - now_ns) : 0;
}

int Shard::arm() {
    if (phase_ == Phase::kThrown) return to_manager_.due_ns() != 0 ? endpoint_->arm() : -1;
    const bool nothing_waits = !replies_.must_flush() && to_manager_.due_ns() != 0 &&
                               !fetcher_.waiting() && !retry_ && !writes_.waiting() &&
                               !replication_.must_poll() && !checkpoint_.has_work() &&
                               tables_to_fill_.empty() && !is_reading_rows() && !may_vacuum();
    return nothing_waits ? endpoint_->arm() : -1;
}

void Shard::handle(const Completion& completion) {
    switch (completion.event) {
        case Event::kReceived: return receive(completion.connection, completion.message);
        case Event::kRead: return fetcher_.ended(completion.context, completion.status);
        case Event::kWritten:
            writes_.end(completion.context, completion.status);
            return end_writes();
        case Event::kAccepted: return sessions_.open(completion.connection);
        case Event::kConnected:
            if (streams_.connected(completion.connection)) return;
            if (to_manager_.owns(completion.connection) && to_manager_.connected())
                to_manager_.send(wire::header_of(Kind::kJoin), join_message().encode());
            return;
        case Event::kClosed: return closed(completion.connection, completion.memory_in_doubt);
        case Event::kImmediate:
            return refuse(completion.connection, "an immediate, which shards do not take");
    }
}

void Shard::receive(ConnectionId connection, std::span<const std::byte> message) {
    wire::Frame frame;
    std::span<const std::byte> rest = message;
    const bool is_well_formed = wire::decode_next(rest, frame) == Errc::kOk &&
                                (rest.empty() || !to_manager_.owns(connection));
    if (!is_well_formed) {
        return to_manager_.owns(connection)
                   ? end(Error(Errc::kProtocol,
                               fmt::format("the manager sent {}", wire::fault_of(message))))
                   : refuse(connection, wire::fault_of(message));
    }
    if (!rest.empty()) [[unlikely]]
        return receive_several(connection, frame, rest);
    receive(connection, frame);
}

/// Requests that came as one message: each is handled as if it had come alone, and replies that are ready
/// then leave as one message. `frame` is the first one.
void Shard::receive_several(ConnectionId connection, wire::Frame& frame,
                            std::span<const std::byte> rest) {
    replies_.begin_message(connection);
    while (true) {
        // A request may close its connection; what is behind it then counts no more.
        Session* const session = sessions_.find(connection);
        if (session == nullptr || !session->known || !wire::is_request(frame.header.kind)) {
            refuse(connection, "several frames in one message that are not all pushes and pulls");
            break;
        }
        receive_request(*session, frame);
        if (rest.empty() || sessions_.find(connection) == nullptr) break;
        if (wire::decode_next(rest, frame) != Errc::kOk) {
            refuse(connection, "a malformed frame");
            break;
        }
    }
    replies_.end_message();
}

void Shard::receive(ConnectionId connection, wire::Frame& frame) {
    if (to_manager_.owns(connection)) return receive_from_manager(frame);
    Session* const session = sessions_.find(connection);
    if (session == nullptr) return replication_.receive(connection, frame);
    const Kind kind = frame.header.kind;
    if (!session->known) {
        if (kind == Kind::kHello) return hello(*session, frame);
        if (kind == Kind::kFollow) return follow(connection, frame);
        return refuse(connection, "a frame before the hello that names its worker");
    }
    if (wire::is_request(kind)) return receive_request(*session, frame);
    if (kind == Kind::kHello) return another_hello(*session, frame);
    if (kind == Kind::kScan) return scan(*session, frame);
    if (kind == Kind::kStats) return give_sign_of_life(connection, frame.header.request);
    if (kind == Kind::kLeave) return worker_gave_up(*session, frame.header.request);
    refuse(connection, "a frame that workers do not send to a shard");
}

void Shard::receive_request(Session& session, wire::Frame& frame) {
    replication_.note_request();
    const wire::FrameHeader& h = frame.header;
    // Also of a table that has not come yet: the push may wait for the view that does.
    const bool is_counted = h.kind == Kind::kPush && (h.flags & wire::kAggregate) == 0 &&
                            h.table < TableMessage::kTablesMax;
    if (is_counted) frame.number = session.order(h.table).arrived(h);
    Request request = request_of(session.connection, frame);
    admit(session, request);
}

/// A connection turns out to be no worker's.
void Shard::follow(ConnectionId connection, const wire::Frame& frame) {
    if (!replication_.follow(connection, frame)) return;
    (void)sessions_.close(connection);
    look_at_moves();
}

void Shard::hello(Session& session, const wire::Frame& frame) {
    const auto message = HelloMessage::decode(frame.values);
    if (!message) return refuse(session.connection, "a malformed hello");
    act_on(session,
           sessions_.hello(session, {frame.header.first, frame.header.request, message->pass}));
}

void Shard::act_on(const Session& session, Sessions::Hello verdict) {
    switch (verdict) {
        case Sessions::Hello::kWelcome:
            if (!session.is_proven) return;
            for (const ConnectionId older : sessions_.others(session)) {
                endpoint_->close(older);
                closed(older);
            }
            return;
        case Sessions::Hello::kNoSuchWorker: return refuse_worker(session.connection);
        case Sessions::Hello::kGone: {
            const ConnectionId late = session.connection;
            endpoint_->close(late);
            return closed(late);
        }
        case Sessions::Hello::kOld:
            return refuse(session.connection,
                          "a hello with the number of a worker that is connected already");
        case Sessions::Hello::kFalse:
            return refuse(session.connection, "a hello in the name of a worker that it is not");
    }
}

/// The manager says who will be in a view. Connections may have come before.
void Shard::receive_passes(std::span<const std::byte> body) {
    const auto message = PassesMessage::decode(body);
    if (!message) return end(Error(Errc::kProtocol, "the manager sent malformed passes"));
    for (const PassesMessage::Pass& pass : message->passes) {
        if (pass.is_shard) {
            replication_.receive_pass(pass.number, pass.pass);
            continue;
        }
        for (const Sessions::Judged& judged : sessions_.receive_pass(pass.number, pass.pass)) {
            const Session* const session = sessions_.find(judged.connection);
            if (session != nullptr) act_on(*session, judged.verdict);
        }
    }
}

/// The next push of a table has a time that is far from those before.
void Shard::another_hello(Session& session, const wire::Frame& frame) {
    const auto message = FarTimeMessage::decode(frame.values);
    if (!message || message->table >= tables_.size()) {
        return refuse(session.connection, "a frame that workers do not send to a shard");
    }
    session.order(message->table).base_time = message->time;
}

void Shard::receive_from_manager(const wire::Frame& frame) {
    switch (to_manager_.take(frame)) {
        case ManagerLink::Taken::kFrame: return control(frame);
        case ManagerLink::Taken::kOwn: return;
        case ManagerLink::Taken::kWrong:
            return end(Error(Errc::kProtocol, "the manager sent a frame out of order"));
    }
}

void Shard::control(const wire::Frame& frame) {
    if (phase_ == Phase::kThrown && frame.header.kind != Kind::kShutdown) return;
    switch (frame.header.kind) {
        case Kind::kAdmit: return admitted(frame.values);
        case Kind::kPasses: return receive_passes(frame.values);
        case Kind::kView: return receive_view(frame.values);
        case Kind::kCreateTable: return order_table(frame.header.request, frame.values);
        case Kind::kDropTable: return drop_table(frame.header.first);
        case Kind::kStats: return reply_to_manager(frame.header.request, Errc::kOk, stats());
        case Kind::kGet: return get(frame.header.request, frame.values);
        case Kind::kLeave:
            if (frame.header.status != Errc::kOk) return told_to_stay(frame.values);
            return manager_lost_worker(frame.header.first);
        case Kind::kFirstIteration: return reply_first_iterations(frame.values);
        case Kind::kStopped: return holdings_.let_go();
        case Kind::kWork: return end_iterations(frame.header.first);
        case Kind::kCheckpoint: return order_checkpoint(frame.values);
        case Kind::kShutdown:
            if (frame.header.status == Errc::kOk) return end({});
            return end(Error(frame.header.status,
                             decode_text(frame.values).value_or("the manager ended the job")));
        default:
            log(LogLevel::kWarning, "{}: ignored a frame of kind {} from the manager", name(),
                static_cast<int>(frame.header.kind));
    }
}

/// One that this shard has closed is in doubt until the endpoint says that it is closed.
void Shard::closed(ConnectionId connection, bool memory_in_doubt) {
    replies_.forget(connection);
    fetcher_.forget(connection);
    if (to_manager_.owns(connection)) {
        return to_manager_.closed() ? void() : lose_manager();
    }
    if (!replication_.closed(connection, memory_in_doubt)) {
        if (Session* const session = sessions_.find(connection)) forget_pushes(*session);
        const std::optional<uint32_t> worker = sessions_.close(connection);
        for (const auto& table : tables_) {
            if (table != nullptr) forget(table->deferred, connection);
        }
        forget(early_, connection);
        writes_.forget(connection);
        end_writes();
        // A connection may break between processes that live: the manager says who is dead.
        const bool is_over = worker && !sessions_.is_connected(*worker) &&
                             (manager_lost_ || sessions_.is_leaving(*worker));
        if (is_over) expect_no_more_parts_of(*worker);
    }
    end_if_all_are_gone();
}

/// For good.
void Shard::lose_manager() {
    manager_lost_ = true;
    if (phase_ == Phase::kThrown) return end({});
    const std::string is_gone = manager_is_gone(options_.link.manager.get());
    fail_checkpoint(Error(Errc::kPeerLost, "the manager is gone"));
    if (phase_ == Phase::kJoining) {
        return end(
            Error(Errc::kPeerLost,
                  is_gone + (options_.join
                                 ? "; is the job still running?"
                                 : fmt::format(", before the job began; look for {} output",
                                               manager_possessive(options_.link.manager.get())))));
    }
    const bool has_copies = std::ranges::any_of(view_.segments(), [](const ViewSegment& segment) {
        return segment.backup_count() > 0 || segment.has_learner();
    });
    if (has_copies) {
        const ManagerLife* const life = options_.link.manager.get();
        return end(Error(
            Errc::kPeerLost,
            fmt::format("{}, and without {} no server may answer for what has copies; "
                        "look for {} output{}{}",
                        is_gone, manager_pronoun(life), manager_possessive(life),
                        start_again_text(options_.checkpoint_folder), advice_on_managers(life))));
    }
    log(LogLevel::kWarning, "{}: {}; this shard serves until all workers are gone, too", name(),
        is_gone);
    for (const ViewWorker& worker : view_.workers()) {
        if (!sessions_.is_connected(worker.number)) expect_no_more_parts_of(worker.number);
    }
    end_if_all_are_gone();
}

void Shard::end_if_all_are_gone() {
    if (!manager_lost_ || !sessions_.empty() || phase_ != Phase::kServing) return;
    end(Error(Errc::kPeerLost, manager_is_gone(options_.link.manager.get()) +
                                   ", and so are all workers; look for their output" +
                                   start_again_text(options_.checkpoint_folder)));
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

void Shard::refuse_worker(ConnectionId connection) {
    refuse(connection, "a hello with the number of a worker that this job does not have");
}

void Shard::end(Status outcome) {
    if (phase_ == Phase::kOver) return;
    if (phase_ != Phase::kThrown || !outcome) outcome_ = std::move(outcome);
    phase_ = Phase::kOver;
}

}  // namespace weir
