// SPDX-License-Identifier: Apache-2.0
#include "lib/node/manager.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/log.h"
#include "lib/ring/plan.h"
#include "lib/ring/view_change.h"

namespace weir {
namespace {

using transport::Completion;
using transport::ConnectionId;
using transport::Event;
using wire::Kind;

constexpr uint64_t kShardsCloseNs = 2 * kSecond;  // for shards to close at the end

}  // namespace

Manager::Manager(ManagerOptions options, std::unique_ptr<transport::Endpoint> endpoint,
                 const Clock& clock)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      clock_(clock),
      outbox_(*endpoint_),
      started_ns_(clock.now_ns()),
      shards_(size_t{options_.server_count} * options_.shards_per_server),
      workers_(options_.worker_count) {}

size_t Manager::poll() {
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count))
        handle(completion);
    const uint64_t now_ns = clock_.now_ns();
    if (phase_ == Phase::kJoining && now_ns - started_ns_ > options_.join_timeout_ns) {
        end(Errc::kDeadline, missing());
    }
    if (phase_ == Phase::kEnding &&
        (shards_are_gone() || now_ns - ending_since_ns_ > kShardsCloseNs)) {
        phase_ = Phase::kOver;
    }
    const size_t sent = outbox_.flush();
    if (refusals_.pending()) refusals_.look();
    endpoint_->flush();
    return count + sent;
}

bool Manager::shards_are_gone() const {
    return std::none_of(peers_.begin(), peers_.end(), [](const auto& peer) {
        return peer.second.joined && peer.second.is.role == JoinMessage::Role::kShard;
    });
}

int Manager::arm() {
    return outbox_.empty() && phase_ != Phase::kOver ? endpoint_->arm() : -1;
}

void Manager::handle(const Completion& completion) {
    switch (completion.event) {
        case Event::kAccepted: peers_.try_emplace(completion.connection); break;
        case Event::kReceived: receive(completion.connection, completion.message); break;
        case Event::kClosed: lost(completion.connection); break;
        default: break;
    }
}

void Manager::receive(ConnectionId connection, std::span<const std::byte> message) {
    const auto found = peers_.find(connection);
    if (found == peers_.end()) return;  // refused earlier in this poll
    wire::Frame frame;
    if (wire::decode(message, frame) != Errc::kOk) return refuse(connection, "a malformed frame");
    const Kind kind = frame.header.kind;
    Peer& peer = found->second;
    if (kind == Kind::kJoin && !peer.joined) return join(connection, peer, frame);
    if (!peer.joined) return refuse(connection, "a frame before joining");
    if (peer.is.role == JoinMessage::Role::kShard) {
        if (kind == Kind::kReply) return table_made(peer.is.number, frame);
        return refuse(connection, "a frame that shards do not send");
    }
    const Asker asker{connection, frame.header.request, peer.is.number};
    switch (kind) {
        case Kind::kCreateTable: return create_table(asker, frame);
        case Kind::kOpenTable: return open_table(asker, frame);
        case Kind::kBarrier: return barrier(asker);
        case Kind::kWithdraw: return withdraw(asker, frame.header.first);
        case Kind::kStats: return reply(asker, Errc::kOk);  // a sign of life
        case Kind::kLeave: return leave(asker, frame);
        default: return refuse(connection, "a frame that workers do not send to a manager");
    }
}

void Manager::join(ConnectionId connection, Peer& peer, const wire::Frame& frame) {
    const auto message = JoinMessage::decode(frame.values);
    if (!message) return refuse(connection, "a malformed join");
    const bool is_shard = message->role == JoinMessage::Role::kShard;
    std::vector<Member>& members = is_shard ? shards_ : workers_;
    const char* const what = is_shard ? "shard" : "worker";
    if (phase_ != Phase::kJoining || message->number >= members.size()) {
        return refuse(connection,
                      fmt::format("a join as {} {} of rank {}, which this job of {} {}s does not "
                                  "expect",
                                  what, message->number, message->rank, members.size(), what));
    }
    Member& member = members[message->number];
    if (member.state != Member::State::kMissing) {
        return refuse(connection, fmt::format("a second join as {} {}: ranks {} and {}", what,
                                              message->number, member.rank, message->rank));
    }
    member = {connection, Member::State::kHere, message->address, message->rank, message->host};
    peer.joined = true;
    peer.is = *message;
    begin_if_complete();
}

void Manager::begin_if_complete() {
    const auto here = [](const Member& m) { return m.state == Member::State::kHere; };
    if (!std::all_of(shards_.begin(), shards_.end(), here) ||
        !std::all_of(workers_.begin(), workers_.end(), here)) {
        return;
    }
    Result<View> first = make_first_view();
    if (!first) return end(first.code(), first.error().message());
    phase_ = Phase::kRunning;
    view_ = std::move(*first);
    const size_t body_bytes_max =
        endpoint_->capabilities().message_bytes_max - wire::kHeaderBytesMin;
    const auto bodies = encode_parts(whole_view(view_), body_bytes_max);
    for (const auto& [connection, peer] : peers_) {
        if (!peer.joined) continue;
        for (const std::vector<std::byte>& body : bodies)
            outbox_.send(connection, wire::header_of(Kind::kView), body);
    }
}

/// The servers and workers get the numbers with which they joined.
Result<View> Manager::make_first_view() const {
    std::vector<NewServer> servers(options_.server_count);
    for (size_t i = 0; i < shards_.size(); ++i) {
        NewServer& server = servers[i / options_.shards_per_server];
        server.rank = shards_[i].rank;
        server.host = shards_[i].host;
        server.addresses.push_back(shards_[i].address);
    }
    WEIR_ASSIGN(const View ring, first_view(servers, points_for(shards_.size())));
    ViewData data = ring.data();
    for (const Member& worker : workers_)
        data.workers.push_back({data.next_worker++, worker.rank, 1});
    return View::make(std::move(data));
}

std::string Manager::shard_name(size_t shard) const {
    const size_t shards = options_.shards_per_server;
    return fmt::format("shard {} of server {}", shard % shards, shard / shards);
}

std::string Manager::missing() const {
    std::string text;
    size_t named = 0;
    const auto add = [&](size_t rank, const std::string& what) {
        ++named;
        if (named <= 8) text += fmt::format("{}rank {} ({})", text.empty() ? "" : ", ", rank, what);
    };
    for (size_t i = 0; i < shards_.size(); ++i) {
        if (shards_[i].state != Member::State::kMissing) continue;
        const size_t server = i / options_.shards_per_server;
        add(server < options_.server_ranks.size() ? options_.server_ranks[server] : server,
            shard_name(i));
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
        if (workers_[i].state != Member::State::kMissing) continue;
        add(i < options_.worker_ranks.size() ? options_.worker_ranks[i] : i,
            fmt::format("worker {}", i));
    }
    if (named > 8) text += fmt::format(" and {} more", named - 8);
    return fmt::format(
        "{} did not join within {} s; look for its output, or raise WEIR_JOIN_TIMEOUT_S", text,
        options_.join_timeout_ns / kSecond);
}

void Manager::create_table(const Asker& asker, const wire::Frame& frame) {
    auto message = TableMessage::decode(frame.values);
    if (!message || message->name.empty()) {
        return refuse(asker.connection, "a malformed table schema");
    }
    const auto same_name = [&](const TableEntry& e) { return e.message.name == message->name; };
    if (auto at = std::find_if(tables_.begin(), tables_.end(), same_name); at != tables_.end()) {
        at->askers.push_back(asker);
        return answer_table(*at);  // the worker compares the schemas
    }
    if (tables_.size() == TableMessage::kTablesMax) {
        return reply(asker, Errc::kBusy,
                     encode_text(fmt::format("the job has {} tables, which is the most; use fewer",
                                             tables_.size())));
    }
    message->table = static_cast<uint32_t>(tables_.size());
    TableEntry& entry = tables_.emplace_back();
    entry.message = std::move(*message);
    entry.askers.push_back(asker);
    wire::FrameHeader header = wire::header_of(Kind::kCreateTable);
    header.request = entry.message.table;
    const std::vector<std::byte> body = entry.message.encode();
    for (const Member& shard : shards_) {
        if (shard.state == Member::State::kHere) {
            outbox_.send(shard.connection, header, body);
            entry.asked.push_back(true);
        } else {
            entry.asked.push_back(false);
            fail_table_without(entry, entry.asked.size() - 1);
        }
    }
    answer_table(entry);
}

void Manager::open_table(const Asker& asker, const wire::Frame& frame) {
    const auto message = TableMessage::decode(frame.values);
    if (!message) return refuse(asker.connection, "a malformed table name");
    for (TableEntry& entry : tables_) {
        if (entry.message.name != message->name) continue;
        entry.askers.push_back(asker);
        return answer_table(entry);
    }
    reply(asker, Errc::kNotFound);
}

void Manager::table_made(uint32_t shard, const wire::Frame& frame) {
    if (frame.header.request >= tables_.size()) return;
    TableEntry& entry = tables_[frame.header.request];
    if (!entry.asked[shard]) return;  // it has answered before
    entry.asked[shard] = false;
    if (frame.header.status != Errc::kOk) {
        std::string why = decode_text(frame.values).value_or("");
        if (why.empty()) {
            why = fmt::format("{}: {}", shard_name(shard), to_string(frame.header.status));
        }
        fail_table(entry, frame.header.status, std::move(why));
    }
    answer_table(entry);
}

void Manager::fail_table(TableEntry& entry, Errc status, std::string why) {
    if (entry.status != Errc::kOk) return;
    entry.status = status;
    entry.why = std::move(why);
}

void Manager::fail_table_without(TableEntry& entry, size_t shard) {
    fail_table(entry, Errc::kPeerLost,
               fmt::format("{} (rank {}) died, or the network to it is cut; a table needs all "
                           "servers of the job: start the job again",
                           shard_name(shard), shards_[shard].rank));
}

void Manager::answer_table(TableEntry& entry) {
    if (std::find(entry.asked.begin(), entry.asked.end(), true) != entry.asked.end()) return;
    const std::vector<std::byte> body =
        entry.status == Errc::kOk ? entry.message.encode() : encode_text(entry.why);
    for (const Asker& asker : std::exchange(entry.askers, {}))
        reply(asker, entry.status, body);
}

void Manager::barrier(const Asker& asker) {
    Member& worker = workers_[asker.worker];
    if (worker.state != Member::State::kHere) {
        return reply(asker, Errc::kUnavailable, encode_text("this worker has left the job"));
    }
    if (worker.at_barrier) {
        return reply(
            asker, Errc::kInvalidArgument,
            encode_text("this worker waits at a barrier already; wait for that call first"));
    }
    worker.at_barrier = asker;
    end_barrier_if_complete();
}

/// The worker's deadline for the barrier is over. It does not count as waiting until it sends
/// another kBarrier.
void Manager::withdraw(const Asker& asker, uint64_t request) {
    Member& worker = workers_[asker.worker];
    if (worker.at_barrier && worker.at_barrier->request == request) leave_barrier(worker);
    reply(asker, Errc::kOk);
}

void Manager::leave_barrier(Member& worker) {
    if (!worker.at_barrier) return;
    const Asker asker = *std::exchange(worker.at_barrier, std::nullopt);
    reply(asker, Errc::kCancelled, encode_text("this worker's call has ended"));
}

/// Opens the barrier once every worker that is still in the job waits at it; fails it if a worker
/// is lost. It looks at each worker and does not count arrivals: a worker that came to the
/// barrier and then left the job must not stand in for one that has yet to come.
void Manager::end_barrier_if_complete() {
    const bool broken = std::any_of(workers_.begin(), workers_.end(), [](const Member& m) {
        return m.state == Member::State::kLost;
    });
    const bool all_wait = std::all_of(workers_.begin(), workers_.end(), [](const Member& m) {
        return m.state != Member::State::kHere || m.at_barrier.has_value();
    });
    if (!broken && !all_wait) return;
    const Status status = broken ? Status(lost_workers()) : Status();
    const std::vector<std::byte> body =
        broken ? encode_text(status.error().text()) : std::vector<std::byte>{};
    for (Member& worker : workers_) {
        if (!worker.at_barrier) continue;
        const Asker asker = *std::exchange(worker.at_barrier, std::nullopt);
        reply(asker, status.code(), body);
    }
}

void Manager::leave(const Asker& asker, const wire::Frame& frame) {
    auto message = LeaveMessage::decode(frame.values);
    if (!message) return refuse(asker.connection, "a malformed leave");
    Member& member = workers_[asker.worker];
    const bool done = message->status == Errc::kOk;
    member.state = done ? Member::State::kLeft : Member::State::kLost;
    member.end = std::move(*message);
    leave_barrier(member);
    reply(asker, Errc::kOk);
    if (!done) return lose_worker(asker.worker);
    tell_shards_of(asker.worker);
    end_barrier_if_complete();
    end_if_no_worker_is_left();
}

void Manager::lost(ConnectionId connection) {
    outbox_.forget(connection);
    const auto found = peers_.find(connection);
    if (found == peers_.end()) return;
    const Peer peer = std::move(found->second);
    peers_.erase(found);
    if (!peer.joined || phase_ == Phase::kEnding) return;
    const bool is_shard = peer.is.role == JoinMessage::Role::kShard;
    Member& member = (is_shard ? shards_ : workers_)[peer.is.number];
    if (phase_ == Phase::kJoining) {  // it may join again
        member.state = Member::State::kMissing;
        return;
    }
    if (member.state != Member::State::kHere) return;  // it has left, or is lost already
    member.state = Member::State::kLost;
    log(LogLevel::kWarning, "{} (rank {}) is lost: it died, or the network to it is cut",
        is_shard ? shard_name(peer.is.number) : fmt::format("worker {}", peer.is.number),
        peer.is.rank);
    if (is_shard) {
        tell_workers_of(peer.is.number);
        for (TableEntry& entry : tables_) {
            if (!entry.asked[peer.is.number]) continue;
            entry.asked[peer.is.number] = false;
            fail_table_without(entry, peer.is.number);
            answer_table(entry);
        }
    } else {
        member.at_barrier.reset();  // its connection is closed: no reply
        lose_worker(peer.is.number);
    }
}

/// A connection between a worker and a shard may break while both live: only the manager says who
/// is dead, or has left.
void Manager::tell_shards_of(uint32_t worker) {
    wire::FrameHeader header = wire::header_of(Kind::kLeave);
    header.first = worker;
    for (const Member& shard : shards_) {
        if (shard.state == Member::State::kHere) outbox_.send(shard.connection, header);
    }
}

void Manager::tell_workers_of(uint32_t shard) {
    wire::FrameHeader header = wire::header_of(Kind::kLeave);
    header.first = shard;
    for (const auto& [connection, peer] : peers_) {
        if (peer.joined && peer.is.role == JoinMessage::Role::kWorker) {
            outbox_.send(connection, header);
        }
    }
}

void Manager::lose_worker(uint32_t worker) {
    tell_shards_of(worker);
    end_barrier_if_complete();
    end_if_no_worker_is_left();
}

void Manager::end_if_no_worker_is_left() {
    const auto gone = [](const Member& m) {
        return m.state == Member::State::kLeft || m.state == Member::State::kLost;
    };
    if (phase_ != Phase::kRunning || !std::all_of(workers_.begin(), workers_.end(), gone)) return;
    const bool done = std::any_of(workers_.begin(), workers_.end(),
                                  [](const Member& m) { return m.state == Member::State::kLeft; });
    if (done) return end(Errc::kOk, "all workers have left");
    const Error why = lost_workers();
    end(why.code(), why.code() == Errc::kPeerLost
                        ? fmt::format("no worker finished its work: {}", why.text())
                        : why.text());
}

/// Says which workers are lost and why. A worker that gave up only because it lost another one
/// (kPeerLost) is named only if no lost worker has another reason. If a signal stopped one of
/// them, that is the whole reason: stopping one stops them all, and nothing went wrong.
Error Manager::lost_workers() const {
    const auto stopped = std::find_if(workers_.begin(), workers_.end(), [](const Member& worker) {
        return worker.state == Member::State::kLost && was_stopped(worker.end.status);
    });
    if (stopped != workers_.end()) return {stopped->end.status, stopped->end.why};
    std::string causes;
    std::string echo;
    size_t named = 0;
    for (size_t i = 0; i < workers_.size(); ++i) {
        const Member& worker = workers_[i];
        if (worker.state != Member::State::kLost) continue;
        const std::string text =
            fmt::format("worker {} (rank {}) {}", i, worker.rank,
                        worker.end.status == Errc::kOk ? "died, or the network to it is cut"
                                                       : "gave up: " + worker.end.why);
        if (worker.end.status == Errc::kPeerLost) {
            if (echo.empty()) echo = text;
        } else if (++named <= 4) {
            causes += (named == 1 ? "" : "; ") + text;
        }
    }
    if (named > 4) causes += fmt::format("; and {} more", named - 4);
    return {Errc::kPeerLost, named == 0 ? echo : causes};
}

void Manager::end(Errc status, const std::string& why) {
    phase_ = Phase::kEnding;
    ending_since_ns_ = clock_.now_ns();
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = status;
    const std::vector<std::byte> body = encode_text(why);
    bool anybody_hears = false;
    for (const auto& [connection, peer] : peers_) {
        if (!peer.joined) continue;
        outbox_.send(connection, header, body);
        anybody_hears = true;
    }
    if (status != Errc::kOk && !anybody_hears) log(LogLevel::kWarning, "the job ends: {}", why);
    log(LogLevel::kDebug, "job over: {}", why);  // workers and shards report an error
}

void Manager::reply(const Asker& to, Errc status, std::span<const std::byte> body) {
    wire::FrameHeader header = wire::header_of(Kind::kReply);
    header.request = to.request;
    header.status = status;
    outbox_.send(to.connection, header, body);
}

void Manager::refuse(ConnectionId connection, std::string_view why) {
    const auto peer = peers_.find(connection);
    const bool joined = peer != peers_.end() && peer->second.joined;
    refusals_.log(LogLevel::kWarning,
                  fmt::format("{}: {}", joined ? "member" : "unknown peer", why),
                  fmt::format("manager: closing the connection to {}: it sent {}",
                              endpoint_->peer_name(connection), why));
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = Errc::kRefused;
    outbox_.send(connection, header, encode_text(why));
    lost(connection);
    endpoint_->close(connection);
}

}  // namespace weir
