// SPDX-License-Identifier: Apache-2.0
/// \file
/// Who joins a running job, leaves it or dies; and what Membership decides about it.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/counted.h"
#include "lib/base/log.h"
#include "lib/manager/manager.h"
#include "lib/node/lost_ranges.h"
#include "lib/wire/work_share.h"

namespace weir {
namespace {

using wire::Kind;

constexpr double kMiB = 1024.0 * 1024.0;
/// Before servers that did not reach each other are tried again.
constexpr uint64_t kApartNs = 10 * kSecond;

}  // namespace

/// Errors: for the peer, why it cannot join
Status Manager::ask_to_join(ConnectionId connection, Peer& peer) {
    if (phase_ == Phase::kJoining) {
        return Error(Errc::kUnavailable, "the job has not begun yet; try again in a while");
    }
    if (phase_ != Phase::kRunning) return Error(Errc::kUnavailable, "the job is over");
    if (loss_) return *loss_;
    if (peer.is.role == JoinMessage::Role::kWorker) {
        if (is_stop_asked_) return Error(Errc::kUnavailable, kIsBeingStopped);
        WEIR_ASSIGN(const Joiners::Worker worker, joiners_.add_worker(connection, peer.is));
        peer.state = Peer::State::kAsking;
        has_news_ = true;
        return membership_->join_worker(worker.ticket, {worker.rank, worker.has_iterations});
    }
    const auto is_same = [&](const auto& shard) { return shard.second.joiner == peer.is.joiner; };
    if (std::ranges::any_of(shards_, is_same)) {
        return Error(Errc::kAlreadyExists,
                     "the server that asks to join with this number is in the job already");
    }
    WEIR_TRY(check_plugins(peer.is));
    WEIR_ASSIGN(const Joiners::Server* const server,
                joiners_.add_shard(connection, peer.is, clock_.now_ns()));
    peer.state = Peer::State::kAsking;
    if (server != nullptr) measure_joiners();
    return {};
}

/// Before servers join, all others say how much they hold.
void Manager::measure_joiners() {
    if (!counters_.is_asking()) counters_.ask(live_shards(), clock_.now_ns());
}

void Manager::join_measured_servers() {
    std::vector<uint64_t> known;
    std::vector<std::pair<uint64_t, Error>> refused;
    for (const Joiners::Server& server : joiners_.servers()) {
        if (!server.is_complete || server.is_known) continue;
        Status joined = check_room(server);
        if (joined) joined = membership_->join_server(server.ticket, server.is);
        if (joined) {
            known.push_back(server.ticket);
        } else {
            refused.emplace_back(server.ticket, joined.error());
        }
    }
    has_news_ = true;
    for (const uint64_t ticket : known)
        joiners_.mark_known(ticket);
    for (const auto& [ticket, why] : refused)
        turn_away_joiner(ticket, why);
}

/// Whether a server has room for what it would come to hold: its share of all that is held now.
Status Manager::check_room(const Joiners::Server& server) const {
    if (server.pool_bytes == 0) return {};
    uint64_t held_bytes = 0;
    for (const auto& [shard, counters] : counters_.counters())
        held_bytes += counters.table_bytes;
    double weights = server.is.weight;
    for (const ViewServer& other : membership_->view().servers()) {
        if (!membership_->is_leaving(other.number)) weights += other.weight;
    }
    const double share = server.is.weight / weights;
    const double needed_bytes = static_cast<double>(held_bytes) * share * (1 + kShareTolerance);
    if (needed_bytes <= static_cast<double>(server.pool_bytes)) return {};
    return Error(
        Errc::kNoMemory,
        fmt::format("this server has room for {:.0f} MiB, but it would hold {:.0f} MiB, {:.0f} % "
                    "of all parameters: let it run where there is more memory, or give it a lower "
                    "weight",
                    static_cast<double>(server.pool_bytes) / kMiB, needed_bytes / kMiB,
                    share * 100));
}

void Manager::turn_away_late_servers(uint64_t now_ns) {
    if (now_ns < options_.join_timeout_ns) return;
    const Joiners::Server* const late =
        joiners_.incomplete_since(now_ns - options_.join_timeout_ns);
    if (late == nullptr) return;
    const auto missing = std::ranges::count(late->shards, ConnectionId{0});
    turn_away_joiner(
        late->ticket,
        Error(Errc::kDeadline,
              fmt::format("{} of the {} shards of this server did not ask "
                          "to join within {} s",
                          missing, late->shards.size(), options_.join_timeout_ns / kSecond)));
}

/// A process that asked to join is gone, before it was admitted. A server goes with any of its
/// shards.
void Manager::stop_asking(ConnectionId connection) {
    const uint64_t ticket = joiners_.ticket_of(connection);
    if (ticket != 0)
        turn_away_joiner(ticket, Error(Errc::kPeerLost, "another shard of this server is gone"));
}

/// All connections of a joiner, a server or a worker.
void Manager::turn_away_joiner(uint64_t ticket, const Error& why) {
    if (membership_) membership_->withdraw(ticket);
    std::vector<ConnectionId> connections;
    if (auto server = joiners_.take_server(ticket)) connections = std::move(server->shards);
    if (const auto worker = joiners_.take_worker(ticket)) connections = {worker->connection};
    for (const ConnectionId connection : connections) {
        if (peers_.contains(connection)) turn_away(connection, why);
    }
}

void Manager::turn_away(ConnectionId connection, const Error& why) {
    const std::string text = why.message();
    refusals_.log(
        LogLevel::kInfo, fmt::format("joiner: {}", text),
        fmt::format("manager: {} cannot join the job: {}", endpoint_->peer_name(connection), text));
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = why.code();
    outbox_.send(connection, header, encode_text(text));
    lost(connection);
    endpoint_->close(connection);
}

void Manager::receive_from_shard(ConnectionId connection, uint32_t shard,
                                 const wire::Frame& frame) {
    if (phase_ != Phase::kRunning) return;
    Status taken;
    switch (frame.header.kind) {
        case Kind::kReply:
            if (ShardCounters::is_answer(frame.header)) {
                taken = counters_.take(shard, frame);
            } else if (const Status made = tables_.made(shard, name_of_shard(shard), frame);
                       !made && shards_.contains(shard)) {
                return remove_server(shards_.at(shard).server, made.error());
            }
            break;
        case Kind::kGet: taken = key_reads_.take(shard, frame); break;
        case Kind::kDropTable: tables_.dropped(shard, frame.header.first); break;
        case Kind::kStopped: taken = membership_->stopped(shard, frame.header.first); break;
        case Kind::kComplete: {
            const auto message = CompleteMessage::decode(frame.values);
            if (!message) return refuse(connection, "a malformed report of a learner");
            const LearnerReport report{message->first, message->shard, message->named};
            if (frame.header.status == Errc::kOk) {
                taken = membership_->learner_complete(shard, report);
                break;
            }
            if (frame.header.status == Errc::kPeerLost) {
                taken = note_apart(shard, report);
                break;
            }
            taken = membership_->learner_refused(shard, report);
            if (!taken || membership_->view().shard(report.shard) == nullptr) break;
            refusals_.log(LogLevel::kWarning, fmt::format("full {}", report.shard),
                          fmt::format("{} has no memory for what it is to take over: it keeps what "
                                      "it has, and others keep that or get it",
                                      name_of_shard(report.shard)));
            break;
        }
        case Kind::kFirstIteration: {
            const auto message = FirstIterationMessage::decode(frame.values);
            if (!message) return refuse(connection, "a malformed first iteration");
            taken =
                membership_->first_iteration(shard, message->epoch, message->table, message->first);
            break;
        }
        case Kind::kCheckpoint: taken = take_checkpoint_report(shard, frame); break;
        case Kind::kShutdown: {  // code of the program has thrown there
            const auto why = decode_text(frame.values);
            if (!why || frame.header.status == Errc::kOk)
                return refuse(connection, "a malformed report of an exception");
            return end(frame.header.status, *why);
        }
        default: return refuse(connection, "a frame that shards do not send");
    }
    forget_refused_tables();
    has_news_ = true;
    if (!taken) refuse(connection, "what it cannot mean: " + taken.error().text());
}

/// Two servers do not reach each other, though this manager hears both. Answers do not wait for a copy of
/// one on the other any more, and after a while it is tried again.
Status Manager::note_apart(uint32_t shard, const LearnerReport& report) {
    WEIR_TRY(membership_->learner_unreachable(shard, report));
    apart_until_ns_ = clock_.now_ns() + kApartNs;
    if (membership_->view().shard(report.shard) == nullptr) return {};
    refusals_.log(
        LogLevel::kWarning, fmt::format("apart {} {}", shard, report.shard),
        fmt::format(
            "{} cannot reach {}, which has or learns copies of what it holds, though both "
            "reach this manager: see to the network between them, or to a host on which one "
            "of the two does not run for long; until then others get these copies, if "
            "there are servers for them, or nobody; it is tried again after {} s",
            name_of_shard(shard), name_of_shard(report.shard), kApartNs / kSecond));
    return {};
}

void Manager::leave(const Asker& asker, const wire::Frame& frame) {
    auto message = LeaveMessage::decode(frame.values);
    if (!message) return refuse(asker.connection, "a malformed leave");
    answer(outbox_, asker, Errc::kOk);
    const auto worker = workers_.find(asker.worker);
    if (worker == workers_.end()) return;  // it has left before
    if (phase_ != Phase::kRunning) return void(workers_.erase(worker));
    if (message->status != Errc::kOk) return lose_worker(asker.worker, std::move(*message));
    if (!worker->second.has_given_back) ++left_count_;
    workers_.erase(worker);
    std::vector<ViewWithdrawal> withdrawn;
    for (const LeaveMessage::Withdrawn& one : message->withdrawn)
        withdrawn.push_back({asker.worker, one.table, one.first_iteration, one.last_iteration});
    membership_->worker_left(asker.worker, withdrawn);
    has_news_ = true;
    barrier_.remove(asker.worker);
    work_.remove(asker.worker);
    settle_barrier();
    settle_work();
    end_if_no_worker_is_left();
}

/// A shard's connection is closed. Its server goes with it.
void Manager::lose_shard(uint32_t number) {
    const auto shard = shards_.find(number);
    if (shard == shards_.end()) return;  // it has ended
    const std::string text =
        fmt::format("{} is lost: it died, or the network to it is cut", name_of_shard(number));
    log(LogLevel::kWarning, "{}", text);
    remove_server(shard->second.server, Error(Errc::kPeerLost, text));
}

/// The server is dead, or of no use. Shards of it that are still there are told to end.
/// `told`: what people are to hear of it, if it is more than that.
void Manager::remove_server(uint32_t server, const Error& why, const std::string& told) {
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = why.code();
    const std::vector<std::byte> body = encode_text(why.message());
    uint64_t process = 0;
    std::erase_if(shards_, [&](const auto& entry) {
        if (entry.second.server != server) return false;
        process = entry.second.process;
        endpoint_->refuse_leases(process);
        removed_[server].rank = entry.second.rank;
        removed_[server].joined_later = entry.second.joiner != 0;
        removed_[server].shards.push_back(entry.first);
        if (peers_.contains(entry.second.connection))
            outbox_.send(entry.second.connection, header, body);
        counters_.forget_shard(entry.first);
        key_reads_.forget_shard(entry.first);
        return true;
    });
    checkpoints_.lose_shards(why);
    silent_.erase(server);
    if (options_.replicas > 0 && endpoint_->lease_end_ns(process) > clock_.now_ns()) {
        fenced_[server] = process;  // it may still answer: nobody may take over from it yet
    } else {
        membership_->server_died(server);
    }
    has_news_ = true;
    removed_[server].why = told;
    const View& view = membership_->view();
    const bool adds_to_loss =
        loss_ && std::ranges::any_of(view.segments(), [&](const ViewSegment& segment) {
            const ViewShard* const primary = view.shard(segment.primary);
            return primary != nullptr && primary->server == server;
        });
    dead_servers_.push_back({server, removed_[server].rank, adds_to_loss});
    if (!loss_) return;
    for (const uint32_t shard : removed_[server].shards)
        tell_workers_of(shard);
    forget_removed();
}

/// Who waits for a shard of a removed server waits no longer, once it is known what is lost with it.
void Manager::forget_removed() {
    std::erase_if(removed_, [&](const auto& entry) {
        if (!loss_ && membership_->view().server(entry.first) != nullptr) return false;
        if (!loss_) {
            log(LogLevel::kInfo, "the job goes on without server {} (rank {}{}): nothing is lost",
                entry.first, entry.second.rank, entry.second.joined_later ? kJoinedLater : "");
        }
        for (const uint32_t shard : entry.second.shards)
            tables_.forget_shard(shard, loss_ ? Status(*loss_) : Status());
        return true;
    });
    forget_refused_tables();
}

/// `why.status` is kOk if it died.
void Manager::lose_worker(uint32_t number, LeaveMessage why) {
    const auto worker = workers_.find(number);
    if (worker == workers_.end()) return;
    const Worker lost = worker->second;
    workers_.erase(worker);
    barrier_.remove(number);
    const bool is_missed = work_.remove(number);
    has_news_ = true;
    if (lost.is_on_the_way) {
        membership_->worker_left(number, {});
    } else {
        const bool gave_up = why.status != Errc::kOk;
        gave_up ? membership_->worker_gave_up(number) : membership_->worker_died(number);
        lost_workers_.add(number, lost.rank, std::move(why));
        const bool stops = options_.on_worker_loss == OnWorkerLoss::kStop ||
                           (options_.on_worker_loss == OnWorkerLoss::kReassign && gave_up);
        is_stopping_ |= stops;
        if (stops) tell_shards_of(number);
    }
    if (is_missed) end_round();
    settle_barrier();
    settle_work();
    end_if_no_worker_is_left();
}

/// A connection between a worker and a shard may break while both live: only the manager says who
/// is dead.
void Manager::tell_shards_of(uint32_t worker) {
    wire::FrameHeader header = wire::header_of(Kind::kLeave);
    header.first = worker;
    for (const auto& [number, shard] : shards_)
        outbox_.send(shard.connection, header);
}

/// Calls that need what it held end.
void Manager::tell_workers_of(uint32_t shard) {
    wire::FrameHeader header = wire::header_of(Kind::kLeave);
    header.first = shard;
    const std::vector<std::byte> body = encode_text(lost_parameters_);
    for (const auto& [number, worker] : workers_)
        outbox_.send(worker.connection, header, body);
}

/// The death of a worker breaks the barrier, unless the job goes on without it. If it goes on with
/// the work taken anew, who waits has to take it.
void Manager::settle_barrier() {
    if (is_stopping_) return barrier_.settle(lost_workers_.error(checkpoints_.resume_advice()));
    const bool is_reassigning =
        options_.on_worker_loss == OnWorkerLoss::kReassign && work_.is_over();
    barrier_.settle(is_reassigning ? Status(reassigned()) : Status());
}

Status Manager::leave_server(uint32_t server) {
    if (!membership_) return Error(Errc::kUnavailable, "the job has not begun yet");
    WEIR_TRY(membership_->leave_server(server));
    checkpoints_.lose_shards(  // its time may be short
        Error(Errc::kBusy, fmt::format("server {} leaves; ask again when it has", server)));
    has_news_ = true;
    return {};
}

void Manager::act() {
    has_news_ = false;
    for (const MembershipAction& action : membership_->decide()) {
        if (loss_) break;
        std::visit([&](const auto& what) { carry_out(what); }, action);
    }
    forget_removed();
    // A server came or died before the first table: that waits for the copies once more.
    if (lacks_first_copies_ || membership_->is_at_rest() || !membership_->can_lose_nothing())
        return;
    lacks_first_copies_ = true;
    begun_ns_ = clock_.now_ns();
}

void Manager::carry_out(const SendView& action) {
    const size_t body_bytes_max =
        endpoint_->capabilities().message_bytes_max - wire::kHeaderBytesMin;
    const auto bodies = encode_parts(*action.change, body_bytes_max);
    const auto send = [&](ConnectionId connection) {
        for (const std::vector<std::byte>& body : bodies)
            outbox_.send(connection, wire::header_of(Kind::kView), body);
    };
    for (const uint32_t number : action.shards) {
        if (const auto shard = shards_.find(number); shard != shards_.end())
            send(shard->second.connection);
    }
    for (const uint32_t number : action.workers) {
        if (const auto worker = workers_.find(number); worker != workers_.end())
            send(worker->second.connection);
    }
}

void Manager::carry_out(const ReleaseLosers& action) {
    wire::FrameHeader header = wire::header_of(Kind::kStopped);
    header.first = action.epoch;
    for (const uint32_t number : action.shards) {
        if (const auto shard = shards_.find(number); shard != shards_.end())
            outbox_.send(shard->second.connection, header);
    }
}

void Manager::carry_out(const AskFirstIteration& action) {
    size_t i = 0;
    do {
        AskFirstIterationMessage message;
        message.epoch = action.epoch;
        const size_t end = std::min(i + AskFirstIterationMessage::kTablesMax, action.tables.size());
        message.tables.assign(action.tables.begin() + static_cast<ptrdiff_t>(i),
                              action.tables.begin() + static_cast<ptrdiff_t>(end));
        const std::vector<std::byte> body = message.encode();
        for (const uint32_t number : action.shards) {
            if (const auto shard = shards_.find(number); shard != shards_.end())
                outbox_.send(shard->second.connection, wire::header_of(Kind::kFirstIteration),
                             body);
        }
        i = end;
    } while (i < action.tables.size());
}

/// Its shards get the tables and passes before the view: who has a view has its tables, and knows who its
/// members are.
void Manager::carry_out(const AdmitServer& action) {
    const auto server = joiners_.take_server(action.ticket);
    if (!server) return;
    log(LogLevel::kInfo, "server {} (rank {}) joins the job, with {}", action.server,
        server->is.rank, counted(server->shards.size(), "shard"));
    for (uint32_t i = 0; i < server->shards.size(); ++i) {
        const ShardPeer shard{action.first_shard + i, server->shards[i]};
        shards_[shard.number] = {shard.connection,
                                 action.server,
                                 server->is.rank,
                                 server->is.host,
                                 server->is.addresses[i],
                                 server->joiner,
                                 endpoint_->process_of(shard.connection),
                                 server->host_name};
        const PassesMessage::Pass pass = pass_of(true, shard.number, shard.connection);
        for (const auto& [number, other] : shards_) {
            if (number != shard.number) send_passes(other.connection, std::span(&pass, 1));
        }
        admit(shard.connection, shard.number, server->is.rank);
        send_all_passes(shard.connection);
        tables_.send_all(shard);
        checkpoints_.tell(shard);
        end_iterations(shard.connection);
    }
}

/// From now on barriers wait for it.
void Manager::carry_out(const AdmitWorker& action) {
    const auto worker = joiners_.take_worker(action.ticket);
    if (!worker) return;
    log(LogLevel::kInfo, "worker {} (rank {}) joins the job", action.worker, worker->rank);
    workers_[action.worker] = {worker->connection, worker->rank, true};
    barrier_.add(action.worker);
    work_.add(action.worker);
    const PassesMessage::Pass pass = pass_of(false, action.worker, worker->connection);
    for (const auto& [number, shard] : shards_)
        send_passes(shard.connection, std::span(&pass, 1));
    admit(worker->connection, action.worker, worker->rank);
}

void Manager::admit(ConnectionId connection, uint32_t number, uint32_t rank) {
    Peer& peer = peers_.at(connection);
    peer.state = Peer::State::kMember;
    peer.is.number = number;
    peer.is.rank = rank;
    outbox_.send(connection, wire::header_of(Kind::kAdmit), AdmitMessage{number, rank}.encode());
}

/// Of a member that is here.
PassesMessage::Pass Manager::pass_of(bool is_shard, uint32_t number,
                                     ConnectionId connection) const {
    return {is_shard, number, peers_.at(connection).is.pass};
}

void Manager::send_passes(ConnectionId shard, std::span<const PassesMessage::Pass> passes) {
    const size_t room = endpoint_->capabilities().message_bytes_max - wire::kHeaderBytesMin;
    const size_t count_max = room / PassesMessage::kPassBytes;
    for (; !passes.empty(); passes = passes.subspan(std::min(count_max, passes.size()))) {
        const auto some = passes.first(std::min(count_max, passes.size()));
        outbox_.send(shard, wire::header_of(Kind::kPasses),
                     PassesMessage{{some.begin(), some.end()}}.encode());
    }
}

void Manager::send_all_passes(ConnectionId shard) {
    std::vector<PassesMessage::Pass> passes;
    for (const auto& [number, other] : shards_)
        passes.push_back(pass_of(true, number, other.connection));
    for (const auto& [number, worker] : workers_)
        passes.push_back(pass_of(false, number, worker.connection));
    send_passes(shard, passes);
}

void Manager::carry_out(const RefuseJoin& action) {
    turn_away_joiner(action.ticket, action.why);
}

/// Who was told to leave, by a signal perhaps, hears of it: one of its shards does.
void Manager::carry_out(const KeepServer& action) {
    const std::string text = action.why.message();
    log(LogLevel::kWarning, "{}", text);
    const auto shard = std::ranges::find_if(
        shards_, [&](const auto& entry) { return entry.second.server == action.server; });
    if (shard == shards_.end()) return;
    wire::FrameHeader header = wire::header_of(Kind::kLeave);
    header.status = action.why.code();
    outbox_.send(shard->second.connection, header, encode_text(text));
}

void Manager::carry_out(const EndServer& action) {
    log(LogLevel::kInfo, "server {} has handed over all that it held, and ends", action.server);
    std::erase_if(shards_, [&](const auto& entry) {
        if (entry.second.server != action.server) return false;
        outbox_.send(entry.second.connection, wire::header_of(Kind::kShutdown));
        tables_.forget_shard(entry.first);
        counters_.forget_shard(entry.first);
        key_reads_.forget_shard(entry.first);
        return true;
    });
    forget_refused_tables();
}

/// There is no view any more in which the job could go on, and who waits for one, or for a copy, would
/// wait for ever. So all calls of all workers end, and the job when they have gone.
void Manager::carry_out(const LostSegments& action) {
    lost_parameters_ = fmt::format(
        "{:.3g} % of the parameters are lost, because nobody else has them{}; start the job "
        "again{}",
        action.share * 100, tables_.count() == 0 ? " (the job had no tables yet)" : "",
        checkpoints_.resume_advice());
    if (tables_.count() > 0) {
        lost_parameters_ +=
            fmt::format("; lost: {}", lost_ranges(action.positions, tables_.made_tables()));
    }
    log(LogLevel::kDebug, "lost: {}",
        lost_ranges(action.positions, tables_.made_tables(), kAllLostNames));
    std::string servers;
    for (const uint32_t server : action.servers) {
        const Removed& removed = removed_[server];
        servers += fmt::format("{}server {} (rank {}{})", servers.empty() ? "" : ", ", server,
                               removed.rank, removed.joined_later ? kJoinedLater : "");
        for (const uint32_t shard : removed.shards)
            tell_workers_of(shard);
        const auto dead = std::ranges::find(dead_servers_, server, &JobStatus::DeadServer::number);
        if (dead != dead_servers_.end()) dead->held_parameters = true;
    }
    const bool is_one = action.servers.size() == 1;
    std::string why = is_one ? removed_[action.servers.front()].why : std::string();
    if (why.empty())
        why = is_one ? "it died, or the network to it is cut"
                     : "they died, or the network to them is cut";
    loss_ = Error(Errc::kPeerLost, fmt::format("{} {} gone; {}; {}", servers, is_one ? "is" : "are",
                                               why, lost_parameters_));
    checkpoints_.end(*loss_);
    log(LogLevel::kWarning, "{}", loss_->text());
    const std::vector<Joiners::Server> joining = joiners_.servers();
    for (const Joiners::Server& server : joining)
        turn_away_joiner(server.ticket, *loss_);
    const std::vector<Joiners::Worker> workers = joiners_.workers();
    for (const Joiners::Worker& worker : workers)
        turn_away_joiner(worker.ticket, *loss_);
    settle_work();
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = loss_->code();
    for (const auto& [number, worker] : workers_)
        outbox_.send(worker.connection, header, encode_text(loss_->text()));
}

std::vector<ShardPeer> Manager::live_shards() const {
    std::vector<ShardPeer> live;
    live.reserve(shards_.size());
    for (const auto& [number, shard] : shards_)
        live.push_back({number, shard.connection});
    return live;
}

JobShards Manager::job_shards() const {
    JobShards shards{.live = live_shards()};
    for (const auto& [server, removed] : removed_)
        shards.lost.insert(shards.lost.end(), removed.shards.begin(), removed.shards.end());
    return shards;
}

std::string Manager::name_of_shard(uint32_t shard) const {
    const ViewShard* const is = membership_->view().shard(shard);
    const auto here = shards_.find(shard);
    const bool joined_later = here != shards_.end() && here->second.joiner != 0;
    return is != nullptr ? weir::shard_name(membership_->view(), *is, joined_later)
                         : fmt::format("shard {}", shard);
}

}  // namespace weir
