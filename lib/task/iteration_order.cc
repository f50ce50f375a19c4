// SPDX-License-Identifier: Apache-2.0
#include "lib/task/iteration_order.h"

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {

Status IterationOrder::begin(uint64_t iteration) {
    if (iteration <= last_) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("iteration {} begins after iteration {}: iterations count from 1 "
                                 "and only upwards",
                                 iteration, last_));
    }
    last_ = iteration;
    drop_finished();
    return {};
}

void IterationOrder::add(TaskId task) {
    WEIR_CHECK(last_ > 0 && task.client == graph_.client());
    tasks_.push_back({last_, task});
}

bool IterationOrder::may_begin(uint64_t iteration, Consistency consistency) {
    drop_finished();
    const uint64_t finished = consistency.finished_before(iteration);
    for (const Entry& entry : tasks_) {
        if (entry.iteration > finished) return true;
        if (!graph_.is_finished(entry.task)) return false;
    }
    return true;
}

std::vector<TaskId> IterationOrder::dependencies(uint64_t iteration, Consistency consistency) {
    drop_finished();
    const uint64_t finished = consistency.finished_before(iteration);
    std::vector<TaskId> tasks;
    for (const Entry& entry : tasks_) {
        if (entry.iteration > finished) break;
        tasks.push_back(entry.task);
    }
    return tasks;
}

void IterationOrder::drop_finished() {
    std::erase_if(tasks_, [this](const Entry& entry) {
        return graph_.is_finished(entry.task) && !graph_.has_failed(entry.task);
    });
}

}  // namespace weir
