// SPDX-License-Identifier: Apache-2.0
#include "lib/server/sessions.h"

#include <algorithm>
#include <limits>

namespace weir {

Sessions::Hello Sessions::hello(Session& session, uint64_t worker, uint64_t number) {
    const uint64_t limit = begun_ ? lost_.size() : std::numeric_limits<uint32_t>::max();
    if (worker >= limit) return Hello::kNoSuchWorker;
    const auto newest = newest_.find(static_cast<uint32_t>(worker));
    if (newest != newest_.end() &&
        (number < newest->second || (number == newest->second && is_connected(worker)))) {
        return Hello::kOld;
    }
    session.known = true;
    session.worker = static_cast<uint32_t>(worker);
    session.hello = number;
    newest_[session.worker] = number;
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

std::vector<transport::ConnectionId> Sessions::begin(uint32_t worker_count) {
    begun_ = true;
    lost_.assign(worker_count, false);
    leaving_.assign(worker_count, false);
    std::vector<transport::ConnectionId> not_of_the_job;
    for (const auto& [connection, session] : sessions_) {
        if (session.known && session.worker >= worker_count) not_of_the_job.push_back(connection);
    }
    return not_of_the_job;
}

std::optional<uint32_t> Sessions::close(transport::ConnectionId connection) {
    const auto found = sessions_.find(connection);
    if (found == sessions_.end()) return std::nullopt;
    const bool known = found->second.known;
    const uint32_t worker = found->second.worker;
    last_ = nullptr;
    sessions_.erase(found);
    if (!known || worker >= lost_.size()) return std::nullopt;
    return worker;
}

bool Sessions::is_connected(uint64_t worker) const noexcept {
    return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
        return entry.second.known && entry.second.worker == worker;
    });
}

}  // namespace weir
