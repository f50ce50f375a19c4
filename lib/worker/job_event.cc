// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/job_event.h"

#include "lib/ring/view.h"

namespace weir {

std::vector<JobEvent> events_between(const View& before, const View& after) {
    using What = JobEvent::Kind;
    std::vector<JobEvent> events;
    for (const ViewServer& server : before.servers()) {
        if (after.server(server.number) != nullptr) continue;
        const bool has_left = before.holds_nothing(server.number);
        events.push_back({has_left ? What::kServerLeft : What::kServerLost, server.number, {}});
    }
    for (const ViewServer& server : after.servers()) {
        if (before.server(server.number) == nullptr)
            events.push_back({What::kServerJoined, server.number, {}});
    }
    for (const ViewWorker& worker : before.workers()) {
        if (after.worker(worker.number) == nullptr)
            events.push_back({What::kWorkerLeft, worker.number, {}});
    }
    for (const ViewWorker& worker : after.workers()) {
        if (before.worker(worker.number) == nullptr)
            events.push_back({What::kWorkerJoined, worker.number, {}});
    }
    return events;
}

}  // namespace weir
