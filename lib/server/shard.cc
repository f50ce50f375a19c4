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
using Phase = ShardStanding::Phase;

constexpr size_t kReportBytesMax = 2048;  // of what threw, for the manager

Shard::Shard(ShardOptions options, std::unique_ptr<transport::Endpoint> endpoint,
             const Clock& clock, Memory& memory, const RuleRegistry& rules)
    : standing_(std::move(options)),
      endpoint_(std::move(endpoint)),
      clock_(clock),
      memory_(memory),
      lists_(memory_, options_.list_cache_bytes),
      pass_(options_.secret_seed ? mix64(*options_.secret_seed) : secret_seed()),
      to_manager_(*endpoint_, clock_, options_.manager_address, options_.link),
      sessions_(options_.waiting_bytes_max),
      replication_(*this, *endpoint_, clock_, standing_.view(), tables_, lists_,
                   {options_.lease, options_.lending, options_.change_bytes_max, pass_}, refusals_),
      replies_(*endpoint_, clock_, replication_.streams(), options_.lease),
      checkpoint_(tables_, replication_.holdings(), options_.disk),
      room_{standing_, tables_,    replication_, replies_, counters_,
            sessions_, *endpoint_, to_manager_,  refusals_},
      waiting_(room_, lists_, memory_),
      parts_(room_, waiting_),
      functions_(room_, rules),
      reads_(room_, waiting_, parts_, functions_),
      pushes_(room_, checkpoint_, waiting_, reads_, functions_),
      members_(room_, waiting_, parts_),
      connections_(room_, waiting_, reads_, pushes_, members_),
      requests_(room_, waiting_, parts_, reads_, pushes_, connections_),
      orders_(room_, {memory_, lists_, rules}, checkpoint_, parts_, reads_, pushes_, members_,
              requests_),
      checkpoints_(room_, checkpoint_, waiting_, parts_, orders_) {
    memory_.add(waiting_.fetcher().spares());
    memory_.add(lists_);
    replication_.set_number(options_.number);
    if (Status begun = to_manager_.connect(); !begun) standing_.end(std::move(begun));
}

Shard::~Shard() {
    replication_.streams().end();  // they close their connections
    to_manager_.end();
    endpoint_.reset();  // it may still be reading into or out of the members' memory
}

/// An exception is the program's: Weir throws std::bad_alloc alone, which ends this shard (Runtime).
size_t Shard::poll() {
    if (standing_.phase() == Phase::kThrown) [[unlikely]]
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
    if (standing_.phase() == Phase::kOver) return;
    const Error why(
        Errc::kException,
        fmt::format("{} ({}); the job ends, because the request would throw again wherever "
                    "it came again; mend what threw, and start the job again{}",
                    what, name(), resume_if_there(options_.checkpoint_folder)));
    log(LogLevel::kError, "{}", why.text());
    standing_.throw_out(why);
    if (standing_.phase() == Phase::kOver) return;
    handle_of_manager(std::span(completions_).first(completion_count_).subspan(handled_count_));
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = why.code();
    to_manager_.send(header, encode_text(why.text().substr(0, kReportBytesMax)));
    endpoint_->flush();
}

size_t Shard::wait_for_the_end() {
    const size_t count = endpoint_->poll(completions_);
    handle_of_manager(std::span(completions_).first(count));
    const size_t done = count + (to_manager_.must_poll() ? poll_link() : 0);
    if (done > 0) endpoint_->flush();
    if (done == 0) look_for_silence();
    return done;
}

/// All that a shard which has thrown still listens to.
void Shard::handle_of_manager(std::span<const Completion> completions) {
    for (const Completion& completion : completions) {
        if (to_manager_.owns(completion.connection)) handle(completion);
    }
}

size_t Shard::work() {
    functions_.begin_poll();
    const size_t count = endpoint_->poll(
        std::span(completions_).first(replication_.messages_per_poll(completions_.size())));
    completion_count_ = count;
    handled_count_ = 0;
    for (size_t i = 0; i < count; ++i) {
        handled_count_ = i + 1;  // also if this one throws
        if (i + 1 < count) prefetch_rows(completions_[i + 1]);
        handle(completions_[i]);
    }
    size_t done = count;
    if (waiting_.fetcher().waiting()) done += requests_.run_fetched();
    if (reads_.has_waiting()) done += reads_.post_waiting();
    if (orders_.is_making()) {
        (void)orders_.go_on_making();
        ++done;
    }
    if (standing_.is_moving()) done += move_on();
    if (waiting_.must_retry()) done += requests_.retry();
    done += replies_.flush();
    if (to_manager_.must_poll()) done += poll_link();
    if (refusals_.pending()) refusals_.look();
    if (done > 0) endpoint_->flush();
    if (waiting_.has_refused()) [[unlikely]]
        requests_.close_refused();
    if (standing_.is_moving()) {
        const size_t behind = work_behind();
        if (behind > 0) endpoint_->flush();
        done += behind;
    }
    if (orders_.has_erasable()) [[unlikely]]
        done += orders_.vacuum_some();
    if (done == 0 && sessions_.empty()) look_for_silence();
    return done;
}

/// Workers end by their deadlines when the manager is stopped, or its host is gone. A server that nobody
/// uses any more ends, too.
void Shard::look_for_silence() {
    const ManagerLife* const life = options_.link.manager.get();
    if (standing_.phase() == Phase::kJoining || life == nullptr || !life->is_silent) return;
    if (standing_.phase() == Phase::kThrown) return standing_.end({});
    standing_.end(Error(Errc::kPeerLost, manager_is_silent(life) + "; no worker is left"));
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
    if (standing_.phase() == Phase::kThrown) return kMillisecond;
    const bool waits_for_others = (replies_.needs_lease() && (replies_.waits_for_lease() ||
                                                              orders_.has_unreported_drops())) ||
                                  checkpoints_.is_active();
    if (waits_for_others) return kMillisecond;
    const uint64_t look_ns =
        sessions_.empty() ? kSecond : ~uint64_t{0};  // whether the manager is silent
    const uint64_t due_ns = replication_.due_ns();
    if (due_ns == ~uint64_t{0}) return look_ns;
    const uint64_t now_ns = clock_.now_ns();
    return due_ns > now_ns ? std::min(look_ns, due_ns - now_ns) : 0;
}

int Shard::arm() {
    if (standing_.phase() == Phase::kThrown)
        return to_manager_.due_ns() != 0 ? endpoint_->arm() : -1;
    const bool nothing_waits =
        !replies_.must_flush() && to_manager_.due_ns() != 0 && !waiting_.fetcher().waiting() &&
        !waiting_.must_retry() && !reads_.has_waiting() && !replication_.must_poll() &&
        !checkpoints_.has_work() && !orders_.is_making() && !orders_.may_vacuum();
    return nothing_waits ? endpoint_->arm() : -1;
}

void Shard::handle(const Completion& completion) {
    switch (completion.event) {
        case Event::kReceived: return receive(completion.connection, completion.message);
        case Event::kRead: return waiting_.fetcher().ended(completion.context, completion.status);
        case Event::kWritten: return reads_.written(completion.context, completion.status);
        case Event::kAccepted: return sessions_.open(completion.connection);
        case Event::kConnected:
            if (replication_.streams().connected(completion.connection)) return;
            if (to_manager_.owns(completion.connection) && to_manager_.connected())
                to_manager_.send(wire::header_of(Kind::kJoin),
                                 standing_.join_message(endpoint_->address(), pass_).encode());
            return;
        case Event::kClosed: return closed(completion);
        case Event::kImmediate:
            refuse(completion.connection, "an immediate, which shards do not take");
            if (to_manager_.owns(completion.connection)) closed(completion);
            return;
    }
}

void Shard::receive(ConnectionId connection, std::span<const std::byte> message) {
    Request frame;  // mostly it is one
    std::span<const std::byte> rest = message;
    const bool is_well_formed = wire::decode_next(rest, frame) == Errc::kOk &&
                                (rest.empty() || !to_manager_.owns(connection));
    if (!is_well_formed) {
        return to_manager_.owns(connection)
                   ? standing_.end(Error(Errc::kProtocol, fmt::format("the manager sent {}",
                                                                      wire::fault_of(message))))
                   : refuse(connection, wire::fault_of(message));
    }
    if (!rest.empty()) [[unlikely]]
        return receive_several(connection, frame, rest);
    receive(connection, frame);
}

/// Requests that came as one message: each is handled as if it had come alone, and replies that are ready
/// then leave as one message. `frame` is the first one.
void Shard::receive_several(ConnectionId connection, Request& frame,
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
        frame = Request();
        if (wire::decode_next(rest, frame) != Errc::kOk) {
            refuse(connection, "a malformed frame");
            break;
        }
    }
    replies_.end_message();
}

void Shard::receive(ConnectionId connection, Request& frame) {
    if (to_manager_.owns(connection)) return receive_from_manager(frame);
    Session* const session = sessions_.find(connection);
    if (session == nullptr) return replication_.receive(connection, frame);
    const Kind kind = frame.header.kind;
    if (!session->known) {
        if (kind == Kind::kHello) return connections_.hello(*session, frame);
        if (kind == Kind::kFollow) return follow(connection, frame);
        return refuse(connection, "a frame before the hello that names its worker");
    }
    if (wire::is_request(kind)) return receive_request(*session, frame);
    if (kind == Kind::kHello) return connections_.far_time(*session, frame);
    if (kind == Kind::kScan) {
        const std::string_view wrong = reads_.scan(*session, frame);
        return wrong.empty() ? void() : refuse(connection, wrong);
    }
    if (kind == Kind::kStats) return give_sign_of_life(connection, frame.header.request);
    if (kind == Kind::kLeave) return members_.gave_up(*session, frame.header.request);
    refuse(connection, "a frame that workers do not send to a shard");
}

void Shard::receive_request(Session& session, Request& request) {
    replication_.note_request();
    const wire::FrameHeader& h = request.header;
    // Also of a table that has not come yet: the push may wait for the view that does.
    const bool is_counted = h.kind == Kind::kPush && (h.flags & wire::kAggregate) == 0 &&
                            h.table < TableMessage::kTablesMax;
    if (is_counted) request.number = session.order(h.table).arrived(h);
    request.connection = session.connection;
    requests_.accept(session, request);
}

/// A connection turns out to be no worker's.
void Shard::follow(ConnectionId connection, const wire::Frame& frame) {
    if (!replication_.follow(connection, frame)) return;
    (void)sessions_.close(connection);
    look_at_moves();
}

void Shard::closed(const Completion& completion) {
    if (!to_manager_.owns(completion.connection))
        return connections_.closed(completion.connection, completion.memory_in_doubt);
    if (!to_manager_.closed()) lose_manager();
}

// What is done beside requests, while something moves or is replicated.

void Shard::look_at_moves() noexcept {
    const bool needed_lease = replies_.needs_lease();
    replies_.look_at_streams(replication_.look_at_backups());
    if (replies_.needs_lease() && !needed_lease) reads_.want_replies();
    standing_.set_moving(replication_.is_active() || replies_.is_active() ||
                         orders_.has_unreported_drops() || checkpoints_.is_active());
}

/// Whether what was done up to now may be reported.
bool Shard::has_lease() {
    if (replies_.may_send()) return true;
    refusals_.log(
        LogLevel::kWarning, "lease",
        fmt::format(
            "{}: the lease of this server has ended, so its answers wait: {} does "
            "not answer, or cannot be reached, or this host or the manager's is so busy that "
            "one of the two processes did not run for that long",
            name(), manager_name(options_.link.manager.get())));
    return false;
}

/// Sends the replies that are due, if there is a lease.
size_t Shard::release_replies() {
    if (!replies_.has_due() && !orders_.has_unreported_drops()) return 0;
    if (!has_lease()) return 0;
    const size_t released = replies_.release();
    orders_.report_drops();
    return released;
}

size_t Shard::move_on() {
    size_t done = replication_.poll();
    done += release_replies();
    done += replication_.hand_over();
    pushes_.look_for_room();
    look_at_moves();
    return done;
}

/// What nobody waits for, when the replies of a poll are on their way.
size_t Shard::work_behind() {
    return (checkpoints_.is_active() ? checkpoints_.step() : 0) + replication_.work_behind();
}

// What Replication asks for.

void Shard::refuse(ConnectionId connection, std::string_view why) {
    connections_.refuse(connection, why);
}

void Shard::close(ConnectionId connection) {
    connections_.close(connection);
}

void Shard::send_to_shard(ConnectionId connection, wire::FrameHeader& header) {
    replies_.send_at_once(connection, header);
}

void Shard::send_to_manager(const wire::FrameHeader& header, std::span<const std::byte> body) {
    wire::FrameHeader sent = header;
    to_manager_.send(sent, body);
}

}  // namespace weir
