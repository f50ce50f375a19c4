// SPDX-License-Identifier: Apache-2.0
#include "lib/server/sessions.h"

#include <algorithm>

namespace weir {

Sessions::Hello Sessions::hello(Session& session, uint64_t worker, uint64_t number) {
    const bool is_known = find_worker(worker) != nullptr;
    if (is_gone(worker)) return Hello::kGone;
    if (worker > kWorkerMax || is_beyond(worker)) return Hello::kNoSuchWorker;
    if (!is_known && workers_.size() >= member_count_ + kEarlyWorkersMax)
        return Hello::kNoSuchWorker;
    Worker& its = workers_[static_cast<uint32_t>(worker)];
    if (its.has_said_hello &&
        (number < its.newest || (number == its.newest && is_connected(worker)))) {
        return Hello::kOld;
    }
    its.has_said_hello = true;
    its.newest = number;
    session.known = true;
    session.is_member = its.is_member;
    session.worker = static_cast<uint32_t>(worker);
    session.hello = number;
    return Hello::kWelcome;
}

std::vector<transport::ConnectionId> Sessions::others(const Session& session) const {
    std::vector<transport::ConnectionId> found;
    for (const auto& [connection, other] : sessions_) {
        if (other.known && other.worker == session.worker && &other != &session)
            found.push_back(connection);
    }
    return found;
}

std::vector<transport::ConnectionId> Sessions::take_view(std::span<const ViewWorker> workers,
                                                         uint32_t next_worker) {
    next_worker_ = next_worker;
    for (auto& [number, worker] : workers_)
        worker.is_member = false;
    for (const ViewWorker& worker : workers)
        workers_[worker.number].is_member = true;
    const auto is_no_worker = [&](uint32_t worker) { return is_beyond(worker) || is_gone(worker); };
    std::erase_if(workers_, [&](const auto& entry) { return is_no_worker(entry.first); });
    member_count_ = workers.size();
    std::vector<transport::ConnectionId> gone;
    for (auto& [connection, session] : sessions_) {
        if (!session.known) continue;
        session.is_member = is_member(session.worker);
        if (is_no_worker(session.worker)) gone.push_back(connection);
    }
    return gone;
}

std::optional<uint32_t> Sessions::close(transport::ConnectionId connection) {
    const auto found = sessions_.find(connection);
    if (found == sessions_.end()) return std::nullopt;
    const bool known = found->second.known;
    const uint32_t worker = found->second.worker;
    last_ = nullptr;
    sessions_.erase(found);
    if (!known) return std::nullopt;
    if (is_member(worker)) return worker;
    // Whoever makes up numbers of workers leaves nothing behind.
    if (!is_connected(worker)) workers_.erase(worker);
    return std::nullopt;
}

bool Sessions::is_connected(uint64_t worker) const noexcept {
    return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
        return entry.second.known && entry.second.worker == worker;
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
