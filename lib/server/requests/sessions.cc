// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/sessions.h"

#include <algorithm>

namespace weir {

Sessions::Hello Sessions::hello(Session& session, const Claim& claim) {
    if (is_gone(claim.worker)) return Hello::kGone;
    if (claim.worker > kWorkerMax || is_beyond(claim.worker)) return Hello::kNoSuchWorker;
    const auto worker = static_cast<uint32_t>(claim.worker);
    const auto found = workers_.find(worker);
    const bool is_provable = found != workers_.end() && found->second.pass.has_value();
    if (!is_provable) {
        const auto unproven = std::ranges::count_if(sessions_, [](const auto& entry) {
            return entry.second.known && !entry.second.is_proven;
        });
        if (is_member(worker) || static_cast<size_t>(unproven) >= kUnprovenMax)
            return Hello::kNoSuchWorker;
    }
    session.worker = worker;
    session.hello = claim.number;
    session.pass = claim.pass;
    const Hello verdict = is_provable ? prove(session, found->second) : Hello::kWelcome;
    session.known = verdict == Hello::kWelcome;
    return verdict;
}

/// Its pass is known.
Sessions::Hello Sessions::prove(Session& session, Worker& worker) {
    if (session.pass != *worker.pass) return Hello::kFalse;
    if (worker.has_said_hello &&
        (session.hello < worker.newest ||
         (session.hello == worker.newest && is_connected(session.worker)))) {
        return Hello::kOld;
    }
    worker.has_said_hello = true;
    worker.newest = session.hello;
    session.is_proven = true;
    session.is_member = worker.is_member;
    return Hello::kWelcome;
}

std::vector<Sessions::Judged> Sessions::receive_pass(uint32_t worker, uint64_t pass) {
    if (is_gone(worker)) return {};
    Worker& its = workers_[worker];
    if (its.pass) return {};
    its.pass = pass;
    std::vector<Judged> judged;
    for (auto& [connection, session] : sessions_) {
        if (session.known && !session.is_proven && session.worker == worker)
            judged.push_back({connection, prove(session, its)});
    }
    for (Judged& one : judged) {
        Session& session = sessions_.at(one.connection);
        if (one.verdict != Hello::kWelcome || session.hello == its.newest) continue;
        session.is_proven = session.is_member = false;
        one.verdict = Hello::kOld;
    }
    return judged;
}

std::vector<transport::ConnectionId> Sessions::others(const Session& session) const {
    std::vector<transport::ConnectionId> found;
    for (const auto& [connection, other] : sessions_) {
        if (other.is_proven && other.worker == session.worker && &other != &session)
            found.push_back(connection);
    }
    return found;
}

std::vector<transport::ConnectionId> Sessions::apply_view(std::span<const ViewWorker> workers,
                                                          uint32_t next_worker) {
    next_worker_ = next_worker;
    for (auto& [number, worker] : workers_)
        worker.is_member = false;
    for (const ViewWorker& worker : workers)
        workers_[worker.number].is_member = true;
    const auto is_no_worker = [&](uint32_t worker) { return is_beyond(worker) || is_gone(worker); };
    std::erase_if(workers_, [&](const auto& entry) { return is_no_worker(entry.first); });
    std::vector<transport::ConnectionId> gone;
    for (auto& [connection, session] : sessions_) {
        if (!session.known) continue;
        session.is_member = session.is_proven && is_member(session.worker);
        const bool is_false = !session.is_proven && is_member(session.worker);
        if (is_false || is_no_worker(session.worker)) gone.push_back(connection);
    }
    return gone;
}

std::optional<uint32_t> Sessions::close(transport::ConnectionId connection) {
    const auto found = sessions_.find(connection);
    if (found == sessions_.end()) return std::nullopt;
    const bool is_proven = found->second.is_proven;
    const uint32_t worker = found->second.worker;
    last_ = nullptr;
    sessions_.erase(found);
    return is_proven && is_member(worker) ? std::optional(worker) : std::nullopt;
}

bool Sessions::is_connected(uint64_t worker) const noexcept {
    return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
        return entry.second.is_proven && entry.second.worker == worker;
    });
}

void Sessions::leaves(uint64_t worker) noexcept {
    if (is_member(worker)) workers_[static_cast<uint32_t>(worker)].is_leaving = true;
}

void Sessions::gives_up(uint64_t worker) noexcept {
    if (is_member(worker)) workers_[static_cast<uint32_t>(worker)].has_given_up = true;
}

void Sessions::lose(uint64_t worker) noexcept {
    if (is_member(worker)) workers_[static_cast<uint32_t>(worker)].is_lost = true;
}

}  // namespace weir
