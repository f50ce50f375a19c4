// SPDX-License-Identifier: Apache-2.0
/// \file
/// A worker that waits for another one does so for as long as that one computes. After half a minute it
/// says once whom it waits for: the reply to a request for a sign of life names them.

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include "lib/base/counted.h"
#include "lib/base/log.h"
#include "lib/worker/core/watch.h"

namespace weir {
namespace {

using OpenIteration = StatsMessage::OpenIteration;

/// What a request waits for: the first one that is open, since they are closed in order. nullptr if no
/// worker is late.
const OpenIteration* awaited(const Content& content, const StatsMessage& sign) {
    const bool is_barrier = content.kind == wire::Kind::kBarrier;
    if (!is_barrier && content.iteration == 0) return nullptr;
    const auto found = std::ranges::find_if(sign.open, [&](const OpenIteration& open) {
        if (open.late_count == 0) return false;
        if (is_barrier) return open.iteration == OpenIteration::kBarrier;
        return open.table == content.table && open.iteration <= content.iteration;
    });
    return found == sign.open.end() ? nullptr : &*found;
}

std::string names_of_late(const OpenIteration& open, const View& view) {
    std::string names;
    for (const uint32_t number : open.late) {
        const ViewWorker* const worker = view.worker(number);
        names += fmt::format("{}worker {}", names.empty() ? "" : ", ", number);
        if (worker != nullptr) names += fmt::format(" (rank {})", worker->rank);
    }
    if (open.late_count > open.late.size())
        names += fmt::format(" and {}", counted(open.late_count - open.late.size(), "other"));
    return names;
}

}  // namespace

/// `sign`: of the peer with that number
void Watch::tell_of_long_wait(uint32_t number, const StatsMessage& sign, uint64_t now_ns) {
    requests_.for_each([&](uint64_t, ClientRequest& request) {
        const Call* const call = request.peer == number ? calls_.find(request.call) : nullptr;
        if (call == nullptr || call->has_ended()) return;
        const Call* const told = calls_.find(told_wait_);
        if (told != nullptr && !told->has_ended()) return;  // mostly the same wait
        const uint64_t waited_ns = now_ns - std::min(now_ns, call->begun_ns);
        if (waited_ns < long_wait_ns_) return;
        const Content& content = request.content();
        const OpenIteration* const open = awaited(content, sign);
        if (open == nullptr) return;
        const std::string what =
            open->iteration == OpenIteration::kBarrier
                ? "at a barrier, to which others have not come"
                : fmt::format("for parts of iteration {} of {} that others have not pushed",
                              open->iteration, tables_.text(content.table));
        log(LogLevel::kWarning, "{} has waited for {} s {}: {}", standing_.name(),
            waited_ns / kSecond, what, names_of_late(*open, peers_.view()));
        told_wait_ = request.call;
        long_wait_ns_ = 2 * waited_ns;
    });
}

}  // namespace weir
