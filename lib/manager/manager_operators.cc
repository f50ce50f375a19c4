// SPDX-License-Identifier: Apache-2.0
/// \file
/// Commands of people: they connect as any other peer does, and ask for the state of the job, for
/// values, or for a server to leave. A manager that does not lead asks as they do for a checkpoint.

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/log.h"
#include "lib/manager/manager.h"

namespace weir {

using wire::Kind;

void Manager::accept_operator(ConnectionId connection, Peer& peer) {
    if (operator_count_ == kOperatorsMax) {
        return turn_away(connection, Error(Errc::kBusy,
                                           "too many commands are at work; try again "
                                           "in a while"));
    }
    ++operator_count_;
    peer.state = Peer::State::kMember;
}

void Manager::receive_from_operator(const Asker& asker, const wire::Frame& frame) {
    const Kind kind = frame.header.kind;
    const bool asks_for_checkpoint =
        kind == Kind::kCheckpoint &&
        (frame.header.first == static_cast<uint64_t>(CheckpointAsk::kBegin) ||
         frame.header.first == static_cast<uint64_t>(CheckpointAsk::kWrite));
    const bool stops =
        kind == Kind::kShutdown && frame.values.empty() &&
        (frame.header.first == wire::kAsksToStop || frame.header.first == wire::kStopsNow);
    const bool is_known = kind == Kind::kStats || kind == Kind::kLeave || kind == Kind::kGet;
    if (!is_known && !asks_for_checkpoint && !stops)
        return refuse(asker.connection, "a frame that commands do not send to a manager");
    const bool ends_unserved = kind == Kind::kLeave && frame.values.size() > sizeof(uint64_t);
    if (ends_unserved && !is_ending()) return end_unserved(asker, frame);
    if (phase_ == Phase::kJoining) {
        return answer(outbox_, asker, Errc::kUnavailable,
                      encode_text("the job has not begun yet: not all of its processes are here"));
    }
    if (phase_ != Phase::kRunning) {
        const Error over = job_is_over();
        return answer(outbox_, asker, over.code(), encode_text(over.text()));
    }
    if (asks_for_checkpoint) return ask_for_checkpoint(asker, frame);
    if (stops) return stop(asker, frame);
    if (kind == Kind::kGet) return get(asker, frame);
    kind == Kind::kStats ? ask_for_status(asker) : leave_server(asker, frame);
}

/// A worker that is asked to end does so when it can, with what its program saves then. A checkpoint is
/// begun before that, because its work may take longer than whoever stops the job has time.
void Manager::stop(const Asker& asker, const wire::Frame& frame) {
    answer(outbox_, asker, Errc::kOk);
    if (frame.header.first == wire::kStopsNow)
        return end(Errc::kTerminated, "stopped by `weir stop`, before its workers had ended");
    if (std::exchange(is_stop_asked_, true)) return;
    log(LogLevel::kInfo, "`weir stop` ends the job: its workers are told to end");
    if (!checkpoints_.options().folder.empty()) (void)checkpoints_.want();
    const std::vector<Joiners::Worker> joining = joiners_.workers();
    for (const Joiners::Worker& worker : joining)
        turn_away_joiner(worker.ticket, Error(Errc::kUnavailable, kIsBeingStopped));
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.first = wire::kAsksToStop;
    for (const auto& [number, worker] : workers_)
        outbox_.send(worker.connection, header);
}

void Manager::get(const Asker& asker, const wire::Frame& frame) {
    const auto message = GetMessage::decode(frame.values);
    if (!message) return refuse(asker.connection, "a malformed question for keys");
    const Result<TableSchema> schema = tables_.made_table(message->table);
    const Status begun =
        schema ? key_reads_.begin(asker, *schema, message->keys, clock_.now_ns()) : schema.error();
    if (!begun) answer(outbox_, asker, begun.code(), encode_text(begun.error().text()));
}

void Manager::go_on_reading(uint64_t now_ns) {
    const View& view = membership_->view();
    const auto primary_of = [&](uint64_t position) -> std::optional<ShardPeer> {
        const auto shard = shards_.find(view.owner(position));
        if (shard == shards_.end()) return std::nullopt;
        return ShardPeer{shard->first, shard->second.connection};
    };
    key_reads_.go_on(now_ns, primary_of, loss_.has_value(),
                     endpoint_->capabilities().message_bytes_max);
}

/// Errc::kUnavailable: in order. Else what ended the job early.
Error Manager::job_is_over() const {
    if (outcome_) return {Errc::kUnavailable, "the job is over"};
    return {outcome_.code(), "the job is over: " + outcome_.error().text()};
}

void Manager::leave_server(const Asker& asker, const wire::Frame& frame) {
    Status accepted;
    const bool asks_itself = !frame.values.empty();
    if (loss_) {
        accepted = *loss_;
    } else if (asks_itself && options_.is_being_stopped && options_.is_being_stopped()) {
        accepted = Error(Errc::kCancelled,
                         "the whole job is being stopped: this server stays until "
                         "the workers have ended");
    } else if (const Result<uint32_t> server = server_to_leave(frame); !server) {
        accepted = server.error();
    } else {
        const bool is_first = !membership_->is_leaving(*server);
        accepted = leave_server(*server);
        if (accepted && is_first)
            log(LogLevel::kInfo, "server {} is to leave, and hands over what it holds", *server);
    }
    answer(outbox_, asker, accepted.code(),
           accepted ? std::vector<std::byte>() : encode_text(accepted.error().text()));
}

/// The program of a server's process ends it, though others may need it. The only manager goes with its process.
/// Why a worker gave up counts for more: its program may end because of that.
void Manager::end_unserved(const Asker& asker, const wire::Frame& frame) {
    answer(outbox_, asker, Errc::kOk);
    const auto says = [](uint32_t rank) {
        return fmt::format("rank {} left before the job was over: did it call serve()?", rank);
    };
    const bool is_alone = !options_.managers;
    if (phase_ == Phase::kJoining) {  // nobody has anything yet
        const uint64_t server = frame.header.first;
        const uint32_t rank =
            server < options_.server_ranks.size() ? options_.server_ranks[server] : 0;
        const size_t expected =
            size_t{options_.server_count} * options_.shards_per_server + options_.worker_count;
        unheard_count_ = expected - std::min(expected, shards_.size() + workers_.size());
        return end(Errc::kPeerLost, says(rank));
    }
    const Result<uint32_t> server = server_to_leave(frame);
    if (!server) return;
    const auto shard = std::ranges::find_if(
        shards_, [&](const auto& one) { return one.second.server == *server; });
    const uint32_t rank = shard == shards_.end() ? 0 : shard->second.rank;
    if (is_alone && (rank == 0 || shard == shards_.end())) {
        const Error lost = lost_workers_.error(checkpoints_.resume_advice());
        return end(Errc::kPeerLost, lost.text().empty() ? says(rank) : lost.text());
    }
    if (shard == shards_.end()) return;
    log(LogLevel::kWarning, "{}", says(rank));
    remove_server(*server, Error(Errc::kPeerLost, says(rank)), says(rank));
}

/// By its number, in `first`. In the body, which only a server that asks itself sends, is the number
/// with which it has joined the running job; 0 if it began with the job.
Result<uint32_t> Manager::server_to_leave(const wire::Frame& frame) const {
    ByteReader reader(frame.values);
    const uint64_t joiner = frame.values.empty() ? 0 : reader.number<uint64_t>();
    const uint64_t number = frame.header.first;
    if (joiner != 0) {
        for (const auto& [shard, is] : shards_) {
            if (is.joiner == joiner) return is.server;
        }
        return Error(Errc::kNotFound, "this server has not joined the job, or has left it");
    }
    if (number < membership_->view().data().next_server) return static_cast<uint32_t>(number);
    return Error(
        Errc::kNotFound,
        fmt::format("this job has had no server {}; `weir status` lists its servers", number));
}

void Manager::ask_for_status(const Asker& asker) {
    if (status_askers_.size() == 2 * kOperatorsMax)
        return answer(outbox_, asker, Errc::kBusy, encode_text("too many questions at a time"));
    status_askers_.push_back(asker);
    if (status_askers_.size() > 1) return;  // one answer for all
    measure_joiners();
    are_shards_heard_ = false;
}

/// The shards have answered, or did not in time. Where rows go through filters, the workers are asked as well: they
/// alone know what these hold back.
void Manager::ask_for_held(uint64_t now_ns) {
    are_shards_heard_ = true;
    held_asked_ns_ = now_ns;
    asks_for_held_ = std::ranges::any_of(counters_.counters(), [](const auto& counters) {
        return counters.second.filters.rows_pushed > 0;
    });
    for (auto& [number, worker] : workers_) {
        worker.rows_held.reset();
        if (asks_for_held_) outbox_.send(worker.connection, wire::header_of(Kind::kHeld));
    }
}

/// A worker that computes does not answer, and is not waited for.
void Manager::send_status(uint64_t now_ns) {
    constexpr uint64_t kWorkersNs = 50 * kMillisecond;
    const bool lacks_some = asks_for_held_ && std::ranges::any_of(workers_, [](const auto& worker) {
                                return !worker.second.rows_held;
                            });
    const bool waits_for_workers = lacks_some && now_ns - held_asked_ns_ < kWorkersNs;
    if (!are_shards_heard_ || counters_.is_asking() || waits_for_workers) return;
    const std::vector<std::byte> status = make_status().encode();
    for (const Asker& asker : std::exchange(status_askers_, {}))
        answer_in_parts(outbox_, asker, status, endpoint_->capabilities().message_bytes_max);
}

namespace {

void note_moves(const MoveProgress& progress, JobStatus& status) {
    status.segments_to_move = progress.segments_to_move;
    status.segments_complete = progress.segments_complete;
    status.segments_moved = progress.segments_moved;
    status.share_to_move = progress.share_to_move;
    status.share_complete = progress.share_complete;
    status.share_moved = progress.share_moved;
    status.copies_made = progress.copies_made;
}

void note_copies(const ViewSegment& segment, std::map<uint32_t, JobStatus::Shard>& shards,
                 JobStatus& status) {
    for (const uint32_t backup : segment.backups) {
        if (const auto at = shards.find(backup); at != shards.end()) ++at->second.backups;
    }
    if (segment.backup_count() >= status.replicas) return;
    ++status.segments_to_copy;
    const bool is_move = segment.learner.replaces == segment.primary;
    if (segment.has_learner() && !is_move) ++status.segments_copying;
}

}  // namespace

JobStatus Manager::make_status() const {
    const View& view = membership_->view();
    JobStatus status;
    status.epoch = view.epoch();
    status.joining_servers = static_cast<uint32_t>(joiners_.servers().size());
    status.joining_workers = static_cast<uint32_t>(joiners_.workers().size());
    status.tables = static_cast<uint32_t>(tables_.count());
    note_moves(membership_->progress(), status);
    std::ranges::copy_if(dead_servers_, std::back_inserter(status.dead), [&](const auto& dead) {
        return !fenced_.contains(dead.number);  // nobody has taken over from those yet
    });
    status.replicas = options_.replicas;
    status.lease_ms = options_.lease_ns / kMillisecond;
    status.segments = view.segments().size();
    status.checkpoints = checkpoint_state();
    if (options_.managers) status.managers = options_.managers();
    status.losers.assign(membership_->losers().begin(), membership_->losers().end());
    std::map<uint32_t, JobStatus::Shard> shards;
    for (const ViewShard& shard : view.shards())
        shards[shard.number].number = shard.number;
    for (size_t i = 0; i < view.segments().size(); ++i) {
        const uint32_t primary = view.segments()[i].primary;
        const double share = static_cast<double>(position_count(view.data().segments, i)) * 0x1p-64;
        if (loss_ && !shards_.contains(primary)) status.share_lost += share;
        note_copies(view.segments()[i], shards, status);
        const auto at = shards.find(primary);
        if (at == shards.end()) continue;
        ++at->second.segments;
        at->second.share += share;
    }
    for (const auto& [number, counters] : counters_.counters()) {
        const auto at = shards.find(number);
        if (at == shards.end()) continue;
        at->second.answered = true;
        at->second.keys = counters.keys_held;
        at->second.bytes = counters.table_bytes;
        at->second.pushes = counters.pushes;
        at->second.pulls = counters.pulls;
        status.filters.add(counters.filters);
    }
    const std::map<uint32_t, uint64_t> silent_ns = silent_servers(clock_.now_ns());
    const std::map<uint32_t, LearningProgress> learning = membership_->learning();
    for (const ViewServer& server : view.servers()) {
        JobStatus::Server& entry = status.servers.emplace_back();
        const auto silent = silent_ns.find(server.number);
        entry = {server.number, server.rank, server.weight, membership_->is_leaving(server.number),
                 silent == silent_ns.end() ? 0 : silent->second / kMillisecond};
        note_process(entry);
        const auto learns = learning.find(server.number);
        if (learns != learning.end()) entry.learning = learns->second;
        for (const ViewShard& shard : view.shards()) {
            if (shard.server == server.number) entry.shards.push_back(shards[shard.number]);
        }
    }
    for (const ViewWorker& worker : view.workers()) {
        const std::span<const uint32_t> pieces = work_.share_of(worker.number);
        status.workers.push_back({.number = worker.number,
                                  .rank = worker.rank,
                                  .has_work = work_.has_share(worker.number),
                                  .pieces = {pieces.begin(), pieces.end()}});
        note_process(status.workers.back());
    }
    status.work = {options_.on_worker_loss, work_.round(), work_.piece_count(),
                   work_.description()};
    status.open = open_iterations();
    return status;
}

/// When it was heard of, and its lease of work.
void Manager::note_process(JobStatus::Worker& worker) const {
    const auto found = workers_.find(worker.number);
    if (found == workers_.end()) return;
    const uint64_t now_ns = clock_.now_ns();
    worker.rows_held = found->second.rows_held.value_or(JobStatus::kUnknown);
    const uint64_t heard_ns = endpoint_->heard_ns(endpoint_->process_of(found->second.connection));
    const uint64_t end_ns = work_lease_end_ns(found->second);
    if (heard_ns <= now_ns) worker.heard_ms = (now_ns - heard_ns) / kMillisecond;
    if (end_ns != 0) worker.lease_left_ms = end_ns > now_ns ? (end_ns - now_ns) / kMillisecond : 0;
}

/// All shards of a server have its process's host and lease.
void Manager::note_process(JobStatus::Server& server) const {
    const auto shard = std::ranges::find_if(
        shards_, [&](const auto& one) { return one.second.server == server.number; });
    if (shard == shards_.end()) return;
    server.host = shard->second.host_name;
    server.joiner = shard->second.joiner;
    const uint64_t now_ns = clock_.now_ns();
    const uint64_t heard_ns = endpoint_->heard_ns(shard->second.process);
    const uint64_t end_ns = endpoint_->lease_end_ns(shard->second.process);
    if (heard_ns <= now_ns) server.heard_ms = (now_ns - heard_ns) / kMillisecond;
    if (end_ns > now_ns) server.lease_left_ms = (end_ns - now_ns) / kMillisecond;
}

/// Of all shards together.
std::vector<JobStatus::OpenIteration> Manager::open_iterations() const {
    const View& view = membership_->view();
    std::map<std::pair<uint32_t, uint64_t>, JobStatus::OpenIteration> by_table;
    for (const auto& [number, counters] : counters_.counters()) {
        if (view.shard(number) == nullptr) continue;
        for (const StatsMessage::OpenIteration& open : counters.open) {
            if (open.table >= tables_.size() || tables_.name(open.table).empty()) continue;
            JobStatus::OpenIteration& all = by_table[{open.table, open.iteration}];
            all.late.insert(all.late.end(), open.late.begin(), open.late.end());
            all.late_count = std::max(all.late_count, open.late_count);
        }
    }
    std::vector<JobStatus::OpenIteration> list;
    for (auto& [which, open] : by_table) {
        std::ranges::sort(open.late);
        open.late.erase(std::unique(open.late.begin(), open.late.end()), open.late.end());
        open.late_count = std::max(open.late_count, static_cast<uint32_t>(open.late.size()));
        open.table = tables_.name(which.first);
        open.iteration = which.second;
        list.push_back(std::move(open));
    }
    return list;
}

JobStatus::Checkpoints Manager::checkpoint_state() const {
    const Checkpoints::Report report = checkpoints_.report();
    return {report.is_on,
            report.is_under_way,
            report.last_number,
            report.last_age_ns / kMillisecond,
            report.last_duration_ns / kMillisecond,
            checkpoints_.options().resumed_from.value_or(0),
            report.last_failure,
            membership_->is_at_rest() ? 0 : report.rest_wait_ns / kMillisecond};
}

}  // namespace weir
