// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/job_event.h"

#include "lib/ring/view.h"

namespace weir {

std::vector<JobEvent> events_between(const View& before, const View& after) {
    std::vector<JobEvent> events;
    for (const ViewServer& server : before.servers()) {
        if (after.server(server.number) != nullptr) continue;
        const bool has_left = before.holds_nothing(server.number);
        events.push_back({has_left ? JobEvent::Kind::kServerLeft : JobEvent::Kind::kServerLost,
                          server.number,
                          {}});
    }
    for (const ViewServer& server : after.servers()) {
        if (before.server(server.number) == nullptr)
            events.push_back({JobEvent::Kind::kServerJoined, server.number, {}});
    }
    for (const ViewWorker& worker : before.workers()) {
        if (after.worker(worker.number) == nullptr)
            events.push_back({JobEvent::Kind::kWorkerLeft, worker.number, {}});
    }
    for (const ViewWorker& worker : after.workers()) {
        if (before.worker(worker.number) == nullptr)
            events.push_back({JobEvent::Kind::kWorkerJoined, worker.number, {}});
    }
    return events;
}

}  // namespace weir
