// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/raft_log.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/consensus/raft_values.h"

namespace weir::consensus {
namespace {

constexpr size_t kBatchEntriesMax = 256;

unsigned milliseconds(uint64_t time_ns) {
    return static_cast<unsigned>(std::max(time_ns / kMillisecond, uint64_t{1}));
}

std::vector<uint64_t> ids_of(const std::vector<Member>& members) {
    std::vector<uint64_t> ids;
    ids.reserve(members.size());
    for (const Member& member : members)
        ids.push_back(member.id);
    return ids;
}

}  // namespace

RaftLog::RaftLog(const ReplicatedLogOptions& options, std::unique_ptr<transport::Endpoint> endpoint,
                 const Clock& clock, Replicated& replicated)
    : clock_(clock),
      options_(options),
      replicated_(replicated),
      peers_(std::move(endpoint), clock, options.group, options.self, options.members,
             options.has_ended),
      io_(clock, options.seed, ids_of(options.members),
          [this](uint64_t receiver, const Message& message) {
              return peers_.send(receiver, encode_message(message));
          }) {
    machine_.version = 1;
    machine_.data = this;
    machine_.apply = [](raft_fsm* machine, const raft_buffer* entry, void** result) {
        *result = nullptr;
        return static_cast<RaftLog*>(machine->data)->apply(*entry);
    };
    machine_.snapshot = [](raft_fsm* machine, raft_buffer** buffers, unsigned* count) {
        return static_cast<RaftLog*>(machine->data)->take_snapshot(buffers, count);
    };
    machine_.restore = [](raft_fsm* machine, raft_buffer* snapshot) {
        return static_cast<RaftLog*>(machine->data)->restore(*snapshot);
    };
}

RaftLog::~RaftLog() {
    if (!is_open_) return;
    is_finished_ = true;  // nobody is called any more
    raft_close(&raft_, nullptr);
    raft_free(forgotten_);
}

void RaftLog::start() {
    const std::string address = raft_address(options_.self);
    WEIR_CHECK(raft_init(&raft_, io_.io(), &machine_, options_.self, address.c_str()) == 0);
    is_open_ = true;
    raft_set_election_timeout(&raft_, milliseconds(options_.election_ns));
    raft_set_heartbeat_timeout(&raft_, milliseconds(options_.heartbeat_ns));
    raft_set_install_snapshot_timeout(&raft_, milliseconds(4 * options_.election_ns));
    raft_set_snapshot_threshold(&raft_, options_.entries_per_snapshot);
    raft_set_snapshot_trailing(&raft_, options_.entries_kept);
    raft_set_pre_vote(&raft_, true);
    WEIR_CHECK(raft_start(&raft_) == 0);
    settle();
}

size_t RaftLog::poll() {
    if (is_finished_) return 0;
    // What has come is read before anybody is taken for silent.
    const size_t count = peers_.poll([this](uint64_t sender, std::span<const std::byte> message) {
        return is_finished_ || take(sender, message);
    });
    if (is_finished_) return count;
    if (count < Peers::kEventsMax) tick_if_due(clock_.now_ns());
    if (!is_finished_) submit();
    return count;
}

bool RaftLog::take(uint64_t sender, std::span<const std::byte> bytes) {
    std::optional<Message> message = decode_message(bytes);
    if (!message) return false;
    heard_ns_[sender] = clock_.now_ns();
    const bool is_right = io_.deliver(raft_, sender, *std::move(message));
    settle();
    return is_right;
}

void RaftLog::tick_if_due(uint64_t now_ns) {
    if (now_ns < next_tick_ns_) return;
    next_tick_ns_ = now_ns + std::max(options_.heartbeat_ns / 2, kMillisecond);
    io_.tick();
    settle();
    if (leads_in_term_ != 0 && !is_ready_ && !has_barrier_) begin_to_lead();
}

void RaftLog::settle() {
    io_.settle();
    if (is_finished_) return;
    if (!outcome_) {
        fail(outcome_);
    } else if (raft_state(&raft_) == RAFT_UNAVAILABLE) {
        fail(Error(Errc::kProtocol, fmt::format("this replica's log contradicts the leader's: {}",
                                                raft_errmsg(&raft_))));
    } else {
        notice_leadership();
    }
}

void RaftLog::fail(Status why) {
    stop_leading();
    outcome_ = std::move(why);
    is_finished_ = true;
}

void RaftLog::notice_leadership() {
    const uint64_t leads = raft_state(&raft_) == RAFT_LEADER ? raft_.current_term : 0;
    if (leads == leads_in_term_) return;
    if (leads_in_term_ != 0) stop_leading();
    leads_in_term_ = leads;
    if (leads != 0) begin_to_lead();
}

/// libraft takes no barrier while it still has a hand-over of an earlier term; it forgets that by and by.
/// Each tick tries again.
void RaftLog::begin_to_lead() {
    auto* const request = new Request{this, {}, {}, leads_in_term_};
    request->barrier.data = request;
    has_barrier_ = true;
    const int rv =
        raft_barrier(&raft_, &request->barrier, [](struct raft_barrier* barrier, int status) {
            const std::unique_ptr<Request> ended(static_cast<Request*>(barrier->data));
            if (ended->term == ended->log->leads_in_term_) ended->log->has_barrier_ = false;
            if (status == 0) ended->log->barrier_passed(ended->term);
        });
    if (rv != 0) {
        has_barrier_ = false;
        delete request;
    }
    settle();
}

void RaftLog::barrier_passed(uint64_t term) {
    if (is_finished_ || term != leads_in_term_ || raft_state(&raft_) != RAFT_LEADER) return;
    is_ready_ = true;
    submitted_ = raft_last_index(&raft_);
    is_within_ = true;
    replicated_.lead(term);
    is_within_ = false;
}

void RaftLog::stop_leading() {
    leads_in_term_ = 0;
    waiting_.clear();
    waiting_bytes_ = 0;
    if (!std::exchange(is_ready_, false)) return;
    is_within_ = true;
    replicated_.follow();
    is_within_ = false;
}

std::optional<uint64_t> RaftLog::propose(std::vector<std::byte> entry) {
    WEIR_CHECK(!is_within_ && !entry.empty() && entry.size() <= kEntryBytesMax);
    if (!is_ready_ || waiting_bytes_ + entry.size() > kWaitingBytesMax) return std::nullopt;
    waiting_bytes_ += entry.size();
    waiting_.push_back(std::move(entry));
    // Nothing but these is appended while this replica leads.
    return raft_last_index(&raft_) + waiting_.size();
}

bool RaftLog::may_submit() const noexcept {
    return is_ready_ && !is_handing_over_ && !waiting_.empty() && raft_.last_applied >= submitted_;
}

void RaftLog::submit() {
    if (!may_submit()) return;
    std::vector<raft_buffer> batch;
    while (!waiting_.empty() && batch.size() < kBatchEntriesMax) {
        batch.push_back(raft_copy(waiting_.front()));
        waiting_bytes_ -= waiting_.front().size();
        waiting_.pop_front();
    }
    auto* const request = new Request{this, {}, {}, leads_in_term_};
    request->apply.data = request;
    const int rv =
        raft_apply(&raft_, &request->apply, batch.data(), static_cast<unsigned>(batch.size()),
                   [](struct raft_apply* apply, int /*status*/, void* /*result*/) {
                       delete static_cast<Request*>(apply->data);
                   });
    if (rv == 0) {
        submitted_ = raft_last_index(&raft_);
    } else {
        for (const raft_buffer& buffer : batch)
            raft_free(buffer.base);
        delete request;
        fail(Error(Errc::kProtocol, fmt::format("the log takes nothing: {}", raft_errmsg(&raft_))));
    }
    settle();
}

int RaftLog::apply(const raft_buffer& entry) {
    if (is_finished_) return RAFT_SHUTDOWN;
    // A call of libraft may end its leadership and then apply what another leader has proposed.
    if (raft_state(&raft_) != RAFT_LEADER || raft_.current_term != leads_in_term_) stop_leading();
    is_within_ = true;
    replicated_.apply(raft_last_applied(&raft_) + 1, bytes_of(entry));
    is_within_ = false;
    return 0;
}

int RaftLog::take_snapshot(raft_buffer** buffers, unsigned* count) {
    is_within_ = true;
    const std::vector<std::byte> bytes = replicated_.snapshot();
    is_within_ = false;
    WEIR_CHECK(bytes.size() <= kSnapshotBytesMax);
    *buffers = static_cast<raft_buffer*>(raft_malloc(sizeof(raft_buffer)));
    WEIR_CHECK(*buffers != nullptr);
    **buffers = raft_copy(bytes);
    *count = 1;
    return 0;
}

int RaftLog::restore(raft_buffer& snapshot) {
    stop_leading();
    is_within_ = true;
    Status restored = replicated_.restore(bytes_of(snapshot));
    is_within_ = false;
    if (!restored) {
        outcome_ = std::move(restored);
        // libraft frees the bytes of a leader's snapshot, but not the list of its one buffer.
        forgotten_ = &snapshot;
        return RAFT_MALFORMED;
    }
    raft_free(snapshot.base);
    return 0;
}

Leadership RaftLog::leadership() const noexcept {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): these only read
    auto& raft = const_cast<struct raft&>(raft_);
    Leadership now{.term = raft.current_term, .leader = 0, .is_ready = is_ready_};
    if (is_finished_) return now;
    raft_id id = 0;
    const char* address = nullptr;
    raft_leader(&raft, &id, &address);
    now.leader = id;
    return now;
}

bool RaftLog::hand_over(uint64_t replica) {
    WEIR_CHECK(!is_within_);
    const bool is_other = replica != options_.self &&
                          std::ranges::any_of(options_.members, [&](const Member& member) {
                              return member.id == replica;
                          });
    if (!is_ready_ || is_handing_over_ || !is_other) return false;
    is_handing_over_ = true;
    transfer_.data = this;
    const int rv = raft_transfer(&raft_, &transfer_, replica, [](struct raft_transfer* transfer) {
        static_cast<RaftLog*>(transfer->data)->is_handing_over_ = false;
    });
    if (rv != 0) is_handing_over_ = false;
    settle();
    return rv == 0;
}

size_t RaftLog::heard_count() const {
    const uint64_t now_ns = clock_.now_ns();
    const auto count = std::ranges::count_if(
        heard_ns_, [&](const auto& heard) { return now_ns - heard.second < kHeardNs; });
    return 1 + static_cast<size_t>(count);
}

int RaftLog::arm() {
    const bool is_due = clock_.now_ns() >= next_tick_ns_ || may_submit();
    return is_due && !is_finished_ ? -1 : peers_.arm();
}

uint64_t RaftLog::sleep_ns_max() const noexcept {
    const uint64_t now_ns = clock_.now_ns();
    return next_tick_ns_ > now_ns ? next_tick_ns_ - now_ns : 0;
}

}  // namespace weir::consensus
