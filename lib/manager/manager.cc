// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/manager.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/lease_line.h"
#include "lib/ring/plan.h"
#include "lib/store/rules/rule_codec.h"
#include "lib/wire/fault.h"

namespace weir {
namespace {

using transport::Completion;
using transport::ConnectionId;
using transport::Event;
using wire::Kind;

constexpr uint64_t kShardsCloseNs = 2 * kSecond;  // for shards to close at the end
constexpr uint64_t kUnheardNs = 10 * kSecond;     // for members to join a job that has ended before
constexpr uint64_t kFirstCopiesNs = 10 * kSecond;
constexpr size_t kEarlyTablesMax = 1024;

/// The rank of the first process that joins later.
uint32_t first_free_rank(const ManagerOptions& options) {
    uint32_t free = 0;
    for (const auto* const ranks : {&options.server_ranks, &options.worker_ranks}) {
        for (const uint32_t rank : *ranks)
            free = std::max(free, rank + 1);
    }
    return free;
}

/// Says once how far the job outlives the death of a server, where that is less than one may think.
void say_what_copies_protect(const ManagerOptions& options) {
    const auto is_elsewhere = [](uint32_t rank) { return rank != 0; };
    const bool servers_are_elsewhere = std::ranges::any_of(options.server_ranks, is_elsewhere);
    if (options.replicas > 0) {
        if (servers_are_elsewhere) return;
        log(LogLevel::kInfo,
            "`replicas` {}: all servers are in one process, so copies protect nothing when it "
            "dies: its death ends this job; start each server as a rank of its own",
            options.replicas);
    } else if (servers_are_elsewhere || std::ranges::any_of(options.worker_ranks, is_elsewhere)) {
        log(LogLevel::kInfo,
            "no parameter has a copy (`replicas` 0): the death of a server ends this job");
    }
}

}  // namespace

Manager::Manager(ManagerOptions options, std::unique_ptr<transport::Endpoint> endpoint,
                 const Clock& clock)
    : options_(std::move(options)),
      endpoint_(std::make_unique<MemberLinks>(std::move(endpoint), clock, options_.lease_ns)),
      clock_(clock),
      outbox_(*endpoint_),
      started_ns_(clock.now_ns()),
      joiners_(first_free_rank(options_)),
      checkpoints_(options_.checkpoints, outbox_, clock) {
    if (!options_.resume) return;
    tables_.resume(*options_.resume, options_.checkpoints.resumed_folder);
    checkpoints_.resume_from(*options_.resume);
}

size_t Manager::poll() {
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count))
        handle(completion);
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns - polled_ns_ > options_.lease_ns / 2) {
        awake_since_ns_ = now_ns;
        is_catching_up_ = phase_ == Phase::kRunning;
    }
    // All that has come is read; or somebody sends without end.
    if (count == 0 || now_ns - awake_since_ns_ > options_.lease_ns / 2) is_catching_up_ = false;
    polled_ns_ = now_ns;
    // What comes without end must not keep those who say nothing from being looked for.
    if (count == 0) all_read_ns_ = now_ns;
    const bool is_all_read =
        now_ns - std::max(all_read_ns_, awake_since_ns_) > options_.lease_ns / 2 || count == 0;
    if (phase_ == Phase::kJoining && now_ns - started_ns_ > options_.join_timeout_ns) {
        end(Errc::kDeadline, missing());
    }
    size_t checkpointed = 0;
    if (phase_ == Phase::kRunning) {
        if (is_all_read) {
            lose_silent_workers(now_ns);
            look_for_silence(now_ns);
        }
        look_at_question(now_ns);
        if (!fenced_.empty()) give_up_fenced(now_ns);
        if (apart_until_ns_ && now_ns >= *apart_until_ns_) {
            apart_until_ns_.reset();
            membership_->try_those_apart();
            has_news_ = true;
        }
        if (!joiners_.servers().empty()) turn_away_late_servers(now_ns);
        checkpointed = go_on_with_checkpoints(now_ns);
        const bool is_measured = counters_.ends(now_ns);
        if (is_measured) join_measured_servers();
        if (has_news_ && !loss_ && !is_catching_up_) act();
        if (lacks_first_copies_) look_for_first_copies(now_ns);
        if (!status_askers_.empty()) {  // with what has just been decided
            if (is_measured) ask_for_held(now_ns);
            send_status(now_ns);
        }
        if (key_reads_.is_reading()) go_on_reading(now_ns);
    }
    if (phase_ == Phase::kEnding) {
        const uint64_t for_ns = now_ns - ending_since_ns_;
        const bool waits = unheard_count_ > 0 && for_ns <= kUnheardNs;
        if (!waits && (shards_are_gone() || for_ns > kShardsCloseNs)) phase_ = Phase::kOver;
    }
    const size_t sent = outbox_.flush();
    if (refusals_.pending()) refusals_.look();
    endpoint_->flush();
    return count + sent + checkpointed;
}

bool Manager::shards_are_gone() const {
    return std::ranges::none_of(peers_, [](const auto& entry) {
        const Peer& peer = entry.second;
        return peer.state == Peer::State::kMember && peer.is.role == JoinMessage::Role::kShard;
    });
}

int Manager::arm() {
    const bool may_act = has_news_ && !loss_ && phase_ == Phase::kRunning;
    const bool has_work = !outbox_.empty() || may_act;
    return !has_work && phase_ != Phase::kOver ? endpoint_->arm() : -1;
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
    if (wire::decode(message, frame) != Errc::kOk)
        return refuse(connection, wire::fault_of(message));
    Peer& peer = found->second;
    switch (peer.state) {
        case Peer::State::kStranger:
            if (frame.header.kind == Kind::kJoin) return join(connection, peer, frame);
            return refuse(connection, "a frame before joining");
        case Peer::State::kAsking: return refuse(connection, "a frame before it has joined");
        case Peer::State::kMember: break;
    }
    if (peer.is.role == JoinMessage::Role::kOperator)
        return receive_from_operator({connection, frame.header.request, 0}, frame);
    if (peer.is.role == JoinMessage::Role::kShard)
        return receive_from_shard(connection, peer.is.number, frame);
    receive_from_worker({connection, frame.header.request, peer.is.number}, frame);
}

void Manager::receive_from_worker(const Asker& asker, const wire::Frame& frame) {
    switch (frame.header.kind) {
        case Kind::kAdmit: {
            const auto worker = workers_.find(asker.worker);
            if (worker != workers_.end()) worker->second.is_on_the_way = false;
            return;
        }
        case Kind::kHeld: {
            if (!frame.values.empty())
                return refuse(asker.connection, "a malformed count of rows that are held back");
            const auto worker = workers_.find(asker.worker);
            if (worker != workers_.end()) worker->second.rows_held = frame.header.first;
            return;
        }
        case Kind::kCreateTable: return create_table(asker, frame);
        case Kind::kOpenTable: return open_table(asker, frame);
        case Kind::kRule: return describe_rule(asker, frame);
        case Kind::kDropTable: return drop_table(asker, frame);
        case Kind::kBarrier: barrier_.arrive(asker); return settle_barrier();
        case Kind::kWithdraw: return withdraw(asker, frame.header.first);
        case Kind::kWork: return ask_for_work(asker, frame);
        case Kind::kCheckpoint: return ask_for_checkpoint(asker, frame);
        case Kind::kStats: return answer(outbox_, asker, Errc::kOk, barrier_.late().encode());
        case Kind::kLeave: return leave(asker, frame);
        default: return refuse(asker.connection, "a frame that workers do not send to a manager");
    }
}

void Manager::join(ConnectionId connection, Peer& peer, const wire::Frame& frame) {
    auto message = JoinMessage::decode(frame.values);
    if (!message) return refuse(connection, "a malformed join");
    peer.is = std::move(*message);
    if (peer.is.role == JoinMessage::Role::kOperator) return accept_operator(connection, peer);
    if (peer.is.joiner != 0) {
        const Status asked = ask_to_join(connection, peer);
        return asked ? void() : turn_away(connection, asked.error());
    }
    if (phase_ == Phase::kEnding && unheard_count_ > 0) {
        --unheard_count_;
        return turn_away(connection, Error(outcome_.code(), outcome_.error().text()));
    }
    const bool is_shard = peer.is.role == JoinMessage::Role::kShard;
    const char* const what = is_shard ? "shard" : "worker";
    const uint32_t number = peer.is.number;
    const size_t expected = is_shard ? size_t{options_.server_count} * options_.shards_per_server
                                     : options_.worker_count;
    if (phase_ != Phase::kJoining || number >= expected) {
        return refuse(connection,
                      fmt::format("a join as {} {} of rank {}, which this job of {} {}s does not "
                                  "expect",
                                  what, number, peer.is.rank, expected, what));
    }
    const auto shard = shards_.find(number);
    const auto worker = workers_.find(number);
    const bool is_taken = is_shard ? shard != shards_.end() : worker != workers_.end();
    if (is_taken) {
        return refuse(
            connection,
            fmt::format("a second join as {} {}: ranks {} and {}", what, number,
                        is_shard ? shard->second.rank : worker->second.rank, peer.is.rank));
    }
    peer.state = Peer::State::kMember;
    if (is_shard) {
        shards_[number] = {connection,
                           number / options_.shards_per_server,
                           peer.is.rank,
                           peer.is.host,
                           peer.is.address,
                           0,
                           endpoint_->process_of(connection),
                           peer.is.host_name};
    } else {
        workers_[number] = {connection, peer.is.rank};
    }
    begin_if_complete();
}

void Manager::begin_if_complete() {
    const size_t shards = size_t{options_.server_count} * options_.shards_per_server;
    if (shards_.size() < shards || workers_.size() < options_.worker_count) return;
    Result<View> first = make_first_view();
    if (!first) return end(first.code(), first.error().message());
    phase_ = Phase::kRunning;
    membership_.emplace(std::move(*first),
                        MembershipOptions{.backup_count = options_.replicas,
                                          .on_worker_loss = options_.on_worker_loss});
    has_news_ = true;
    lacks_first_copies_ = options_.replicas > 0;
    begun_ns_ = clock_.now_ns();
    for (const auto& [number, shard] : shards_)
        send_all_passes(shard.connection);
    say_what_copies_protect(options_);
    for (const auto& [number, worker] : workers_) {
        barrier_.add(number);
        work_.add(number);
    }
    checkpoints_.start(live_shards());
}

/// The servers and workers get the numbers with which they joined.
Result<View> Manager::make_first_view() const {
    std::vector<NewServer> servers(options_.server_count);
    for (const auto& [number, shard] : shards_) {
        NewServer& server = servers[shard.server];
        server.rank = shard.rank;
        server.host = shard.host;
        server.addresses.push_back(shard.address);
    }
    const uint32_t points = options_.points > 0 ? options_.points : points_for(shards_.size());
    WEIR_ASSIGN(const View ring, first_view(servers, points));
    ViewData data = ring.data();
    for (const auto& [number, worker] : workers_)
        data.workers.push_back({data.next_worker++, worker.rank, 1});
    return View::make(std::move(data));
}

std::string Manager::missing() const {
    std::string text;
    size_t named = 0;
    const auto add = [&](size_t rank, const std::string& what) {
        ++named;
        if (named <= 8) text += fmt::format("{}rank {} ({})", text.empty() ? "" : ", ", rank, what);
    };
    const uint32_t per_server = options_.shards_per_server;
    for (uint32_t i = 0; i < options_.server_count * per_server; ++i) {
        if (shards_.contains(i)) continue;
        const uint32_t server = i / per_server;
        add(server < options_.server_ranks.size() ? options_.server_ranks[server] : server,
            fmt::format("shard {} of server {}", i % per_server, server));
    }
    for (uint32_t i = 0; i < options_.worker_count; ++i) {
        if (workers_.contains(i)) continue;
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
    if (!membership_) {
        return answer(outbox_, asker, Errc::kUnavailable, encode_text("the job has not begun yet"));
    }
    if (loss_) return answer(outbox_, asker, loss_->code(), encode_text(loss_->text()));
    if (waits_for_first_copies())
        return early_tables_.push_back({asker, std::move(*message), false});
    if (!may_share(asker)) return;
    add_made_table(tables_.create(asker, std::move(*message), job_shards()));
}

bool Manager::waits_for_first_copies() const {
    return lacks_first_copies_ &&
           (early_tables_.size() < kEarlyTablesMax || membership_->has_vacancies());
}

/// A push to a table that was made before all shards have copies could be lost with one server, though it was
/// acknowledged. So the first tables wait for the copies, which have no rows yet; not for ever, as there may
/// be none to be had.
void Manager::look_for_first_copies(uint64_t now_ns) {
    const bool may_wait = now_ns - begun_ns_ < kFirstCopiesNs || membership_->has_vacancies();
    if (!loss_ && !membership_->is_at_rest() && may_wait) return;
    lacks_first_copies_ = false;
    for (EarlyTable& early : std::exchange(early_tables_, {})) {
        const Asker& asker = early.asker;
        if (loss_) {
            answer(outbox_, asker, loss_->code(), encode_text(loss_->text()));
        } else if (may_share(asker)) {
            add_made_table(early.is_opened
                               ? tables_.open(asker, early.table.name, job_shards())
                               : tables_.create(asker, std::move(early.table), job_shards()));
        }
    }
}

/// `made`: the number of a table that the shards make now.
void Manager::add_made_table(std::optional<uint32_t> made) {
    if (!made) return;
    hold_moves();
    membership_->add_table(*made);
    has_news_ = true;
}

/// After everything that may have refused or dropped tables.
void Manager::forget_refused_tables() {
    for (const uint32_t table : tables_.take_refused())
        membership_->remove_table(table);
}

void Manager::open_table(const Asker& asker, const wire::Frame& frame) {
    if (frame.values.empty()) return list_tables(asker, frame.header.first);
    const auto message = TableMessage::decode(frame.values);
    if (!message) return refuse(asker.connection, "a malformed table name");
    if (!may_share(asker)) return;
    if (loss_) return answer(outbox_, asker, loss_->code(), encode_text(loss_->text()));
    if (waits_for_first_copies()) return early_tables_.push_back({asker, *message, true});
    add_made_table(tables_.open(asker, message->name, job_shards()));
}

void Manager::list_tables(const Asker& asker, uint64_t first) {
    const size_t bytes_max = endpoint_->capabilities().message_bytes_max - wire::kHeaderBytesMin;
    answer(outbox_, asker, Errc::kOk, tables_.list(first, bytes_max).encode());
}

/// Whether a server that joins has loaded what the others have.
Status Manager::check_plugins(const JoinMessage& join) const {
    const auto its =
        join.plugins.empty() ? std::optional(PluginList()) : PluginList::decode(join.plugins);
    if (!its) return Error(Errc::kProtocol, "a malformed list of plugins");
    const std::string how = its->difference(fmt::format("this server ({})", join.host_name),
                                            options_.plugins, "each server of the job");
    if (how.empty()) return {};
    return Error(Errc::kInvalidArgument, how);
}

void Manager::describe_rule(const Asker& asker, const wire::Frame& frame) {
    const auto name = decode_text(frame.values);
    if (!name) return refuse(asker.connection, "a malformed name of a rule");
    const Result<const RuleEntry*> rule =
        options_.rules == nullptr ? Error(Errc::kNotFound, "") : options_.rules->find(*name);
    if (!rule) return answer(outbox_, asker, Errc::kNotFound);
    answer(outbox_, asker, Errc::kOk, encode_text(encode_rule(**rule)));
}

/// Also by a worker whose share is void: it may be done with the tables of an earlier one.
void Manager::drop_table(const Asker& asker, const wire::Frame& frame) {
    const auto message = TableMessage::decode(frame.values);
    if (!message) return refuse(asker.connection, "a malformed table name");
    if (loss_) return answer(outbox_, asker, loss_->code(), encode_text(loss_->text()));
    const std::optional<uint32_t> dropped = tables_.drop(asker, message->name, job_shards());
    if (dropped) {
        checkpoints_.leave_out(*dropped);
        key_reads_.forget_table(*dropped);
    }
    forget_refused_tables();
}

void Manager::lost(ConnectionId connection) {
    outbox_.forget(connection);
    checkpoints_.forget(connection);
    const auto found = peers_.find(connection);
    if (found == peers_.end()) return;
    const Peer peer = std::move(found->second);
    peers_.erase(found);
    if (peer.is.role == JoinMessage::Role::kOperator) {
        if (peer.state == Peer::State::kMember) --operator_count_;
        std::erase_if(status_askers_, [&](const Asker& a) { return a.connection == connection; });
        key_reads_.forget(connection);
        return;
    }
    if (phase_ == Phase::kEnding) return;
    if (peer.state == Peer::State::kAsking) return stop_asking(connection);
    if (peer.state != Peer::State::kMember) return;
    const bool is_shard = peer.is.role == JoinMessage::Role::kShard;
    if (phase_ == Phase::kJoining) {  // it may join again
        is_shard ? shards_.erase(peer.is.number) : workers_.erase(peer.is.number);
    } else if (is_shard) {
        lose_shard(peer.is.number);
    } else if (const auto worker = workers_.find(peer.is.number); worker != workers_.end()) {
        if (loss_) {  // all workers end then
            log(LogLevel::kInfo, "worker {} (rank {}) has ended", worker->first,
                worker->second.rank);
        } else {
            log(LogLevel::kWarning,
                "worker {} (rank {}) is lost: it died, or the network to it is cut", worker->first,
                worker->second.rank);
        }
        lose_worker(peer.is.number, {});
    }
}

/// A worker that computes says nothing, but the life line of its process holds. If that breaks and is
/// not made anew, nobody knows whether the process lives. When another manager begins to lead, all
/// break: also that of a process which is stopped or starved, and which nothing has happened to.
void Manager::lose_silent_workers(uint64_t now_ns) {
    constexpr uint64_t kLeasesAfterChange = 10;
    for (const auto& [number, worker] : workers_) {
        const uint64_t since_ns = endpoint_->silent_since_ns(worker.connection);
        const uint64_t most_ns =
            options_.lease_ns * (since_ns == led_since_ns_ ? kLeasesAfterChange : 1);
        if (since_ns != 0 && now_ns - since_ns > most_ns) {
            log(LogLevel::kWarning,
                "worker {} (rank {}) is out of reach for {} ms ({}WEIR_LEASE_MS) and counts as "
                "lost",
                number, worker.rank, most_ns / kMillisecond,
                since_ns == led_since_ns_ ? "since another manager leads; ten times " : "");
        } else if (const uint64_t end_ns = work_lease_end_ns(worker);
                   end_ns != 0 && now_ns > end_ns) {
            log(LogLevel::kWarning,
                "worker {} (rank {}) has shown no sign of life for {} s (`work_lease`) and counts "
                "as lost",
                number, worker.rank, lease_of_manager_ns(options_.work_lease_ns) / kSecond);
        } else {
            continue;
        }
        return endpoint_->close(worker.connection);  // it is lost when that is told
    }
}

/// Its process may be stopped, or its host hang, and the others would wait for its part of the work.
/// 0: they do, without end, or nobody can tell when it was heard of.
uint64_t Manager::work_lease_end_ns(const Worker& worker) const {
    if (options_.work_lease_ns == 0 || options_.on_worker_loss != OnWorkerLoss::kReassign) return 0;
    const uint64_t heard_ns = endpoint_->heard_ns(endpoint_->process_of(worker.connection));
    if (heard_ns == ~uint64_t{0}) return 0;
    return std::max(heard_ns, awake_since_ns_) + lease_of_manager_ns(options_.work_lease_ns);
}

void Manager::end_if_no_worker_is_left() {
    if (phase_ != Phase::kRunning || !workers_.empty()) return;
    if (loss_) return end(loss_->code(), loss_->text());
    if (left_count_ != 0) return end(Errc::kOk, "all workers have left");
    const Error why = lost_workers_.error(checkpoints_.resume_advice());
    end(why.code(), why.code() == Errc::kPeerLost
                        ? fmt::format("no worker finished its work: {}", why.text())
                        : why.text());
}

void Manager::end(Errc status, const std::string& why) {
    checkpoints_.end(Error(Errc::kUnavailable, "the job is over: " + why));
    phase_ = Phase::kEnding;
    if (status != Errc::kOk) outcome_ = Error(status, why);
    ending_since_ns_ = clock_.now_ns();
    wire::FrameHeader header = wire::header_of(Kind::kShutdown);
    header.status = status;
    const std::vector<std::byte> body = encode_text(why);
    bool anybody_hears = false;
    std::vector<ConnectionId> joining;
    for (const auto& [connection, peer] : peers_) {
        if (peer.state == Peer::State::kAsking) joining.push_back(connection);
        if (peer.state != Peer::State::kMember) continue;
        outbox_.send(connection, header, body);
        anybody_hears = true;
    }
    for (const ConnectionId connection : joining)
        turn_away(connection, Error(Errc::kUnavailable, "the job is over: " + why));
    if (status != Errc::kOk && !anybody_hears) log(LogLevel::kWarning, "the job ends: {}", why);
    log(LogLevel::kDebug, "job over: {}", why);  // workers and shards report an error
}

void Manager::refuse(ConnectionId connection, std::string_view why) {
    const auto peer = peers_.find(connection);
    const bool joined = peer != peers_.end() && peer->second.state == Peer::State::kMember;
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
