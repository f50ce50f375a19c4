// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobEvents: what a client has seen of others in its job, until somebody asks.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/worker/job_event.h"

namespace weir {

/// Thread: the client's
class JobEvents {
public:
    static constexpr size_t kCountMax = 1024;  ///< beyond it, the oldest is forgotten

    explicit JobEvents(const Clock& clock) noexcept : clock_(clock) {}

    void note(JobEvent event) {
        events_.emplace_back(clock_.now_ns(), std::move(event));
        if (events_.size() > kCountMax) events_.pop_front();
    }

    /// All since the last call, oldest first, with their ages.
    [[nodiscard]] std::vector<JobEvent> take() {
        std::vector<JobEvent> events;
        for (auto& [at_ns, event] : std::exchange(events_, {})) {
            event.age = std::chrono::nanoseconds(clock_.now_ns() - at_ns);
            events.push_back(std::move(event));
        }
        return events;
    }

private:
    const Clock& clock_;
    std::deque<std::pair<uint64_t, JobEvent>> events_;  ///< and when
};

}  // namespace weir
