// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/raft_io.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lib/consensus/raft_values.h"

namespace weir::consensus {

RaftIo::RaftIo(const Clock& clock, uint64_t seed, std::vector<uint64_t> members, Send send)
    : clock_(clock), random_(seed), members_(std::move(members)), send_(std::move(send)) {
    io_.version = 2;
    io_.impl = this;
    io_.init = [](raft_io*, raft_id, const char*) { return 0; };
    io_.close = [](raft_io* io, raft_io_close_cb done) {
        of(io).settle();
        done(io);
    };
    // Every replica is new, and begins with the members. So there is nothing to bootstrap or to recover.
    io_.load = [](raft_io* io, raft_term* term, raft_id* vote, raft_snapshot** snapshot,
                  raft_index* first, raft_entry** entries, size_t* entry_count) {
        *term = 1;
        *vote = 0;
        *snapshot = nullptr;
        *first = 1;
        *entries = raft_first_entry(of(io).members_);
        *entry_count = 1;
        return 0;
    };
    io_.start = [](raft_io* io, unsigned /*ms*/, raft_io_tick_cb on_tick,
                   raft_io_recv_cb on_receive) {
        of(io).tick_ = on_tick;
        of(io).receive_ = on_receive;
        return 0;
    };
    io_.set_term = [](raft_io*, raft_term) { return 0; };
    io_.set_vote = [](raft_io*, raft_id) { return 0; };
    // It never fails at once: libraft would free the entries twice that it answers to.
    io_.send = [](raft_io* io, raft_io_send* request, const raft_message* message,
                  raft_io_send_cb done) {
        of(io).send(request, message, done);
        return 0;
    };
    io_.append = [](raft_io* io, raft_io_append* request, const raft_entry entries[],
                    unsigned count, raft_io_append_cb done) {
        for (const raft_entry& entry : std::span(entries, count))
            of(io).state_.terms.push_back(entry.term);
        of(io).ended_.emplace_back([=] { done(request, 0); });
        return 0;
    };
    io_.truncate = [](raft_io* io, raft_index index) {
        of(io).state_.truncate(index);
        return 0;
    };
    io_.snapshot_put = [](raft_io* io, unsigned kept, raft_io_snapshot_put* request,
                          const raft_snapshot* snapshot, raft_io_snapshot_put_cb done) {
        of(io).state_.put_snapshot(snapshot_of(*snapshot), kept);
        of(io).ended_.emplace_back([=] { done(request, 0); });
        return 0;
    };
    io_.snapshot_get = [](raft_io* io, raft_io_snapshot_get* request,
                          raft_io_snapshot_get_cb done) {
        return of(io).get_snapshot(request, done);
    };
    io_.time = [](raft_io* io) -> raft_time { return of(io).clock_.now_ns() / kMillisecond; };
    io_.random = [](raft_io* io, int min, int max) {
        const auto range = static_cast<uint64_t>(std::max(max - min, 1));
        return min + static_cast<int>(of(io).random_.below(range));
    };
    io_.async_work = [](raft_io* io, raft_io_async_work* request, raft_io_async_work_cb done) {
        const int rv = request->work(request);
        of(io).ended_.emplace_back([=] { done(request, rv); });
        return 0;
    };
}

void RaftIo::send(raft_io_send* request, const raft_message* message, raft_io_send_cb done) {
    std::optional<Message> ours = message_of(*message);
    if (ours && std::holds_alternative<Vote>(*ours))
        std::get<Vote>(*ours).current = static_cast<const struct raft*>(io_.data)->current_term;
    if (ours && std::holds_alternative<Appended>(*ours)) {
        Appended& appended = std::get<Appended>(*ours);
        if (appended.rejected == 0) appended.last = std::min(appended.last, covered_);
    }
    const bool is_sent = ours && send_(message->server_id, *ours);
    const bool is_snapshot = message->type == RAFT_IO_INSTALL_SNAPSHOT;
    const int outcome = is_sent || !is_snapshot ? 0 : RAFT_NOCONNECTION;
    // Of a TakeOver libraft does not want to know.
    if (done != nullptr) ended_.emplace_back([=] { done(request, outcome); });
}

int RaftIo::get_snapshot(raft_io_snapshot_get* request, raft_io_snapshot_get_cb done) {
    const std::optional<Snapshot>& snapshot = state_.snapshot;
    if (!snapshot) return RAFT_NOTFOUND;
    raft_snapshot* const copy = raft_copy(*snapshot, raft_members(members_));
    ended_.emplace_back([=] { done(request, copy, 0); });
    return 0;
}

bool RaftIo::is_credible(const raft& raft, const Append& append) const {
    if (append.term == raft.current_term && raft.state == RAFT_LEADER) return false;
    const auto contradicts = [&](uint64_t index, uint64_t term) {
        const uint64_t known = index <= raft.commit_index ? state_.term_of(index) : 0;
        return known != 0 && known != term;
    };
    if (contradicts(append.before, append.before_term)) return false;
    uint64_t index = append.before;
    return std::ranges::none_of(
        append.entries, [&](const Entry& entry) { return contradicts(++index, entry.term); });
}

bool RaftIo::is_credible(const raft& raft, const Install& install) const {
    if (install.term == raft.current_term && raft.state == RAFT_LEADER) return false;
    const Snapshot& snapshot = install.snapshot;
    const uint64_t known = snapshot.index <= raft.commit_index ? state_.term_of(snapshot.index) : 0;
    return known == 0 || known == snapshot.term;
}

void RaftIo::begin_at_snapshot(Append& append) const {
    const std::optional<Snapshot>& snapshot = state_.snapshot;
    if (!snapshot || append.before >= snapshot->index) return;
    if (state_.term_of(append.before) != 0) return;
    const uint64_t covered = snapshot->index - append.before;
    append.entries.erase(append.entries.begin(),
                         append.entries.begin() + static_cast<std::ptrdiff_t>(std::min<uint64_t>(
                                                      covered, append.entries.size())));
    append.before = snapshot->index;
    append.before_term = snapshot->term;
}

bool RaftIo::deliver(const raft& raft, uint64_t sender, Message message) {
    auto* const append = std::get_if<Append>(&message);
    const auto* const install = std::get_if<Install>(&message);
    if (append != nullptr && !is_credible(raft, *append)) return false;
    if (install != nullptr && !is_credible(raft, *install)) return false;
    if (append != nullptr) {
        begin_at_snapshot(*append);
        covered_ = append->before + append->entries.size();
        append->committed = std::min(append->committed, covered_);
    }
    if (install != nullptr) covered_ = install->snapshot.index;
    // In a trial libraft does not go to a later term for the answer. It does for a question, to which its own
    // log, never empty, makes it say no.
    if (const auto* const vote = std::get_if<Vote>(&message);
        vote != nullptr && !vote->is_granted && vote->current > raft.current_term &&
        raft.state == RAFT_CANDIDATE)
        message = AskVote{vote->current, 0, 0, false, false};
    raft_message theirs{};
    if (!to_raft(message, sender, members_, theirs)) return false;
    const std::string address = raft_address(sender);
    theirs.server_address = address.c_str();
    receive_(&io_, &theirs);
    return true;
}

void RaftIo::settle() {
    while (!ended_.empty()) {
        const std::function<void()> tell = std::move(ended_.front());
        ended_.pop_front();
        tell();
    }
}

}  // namespace weir::consensus
