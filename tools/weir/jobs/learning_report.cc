// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/learning_report.h"

#include <fmt/core.h>

#include "lib/base/counted.h"

namespace weir::tools {

std::string learning_text(const JobStatus::Server& server) {
    if (!server.learning) return {};
    const LearningProgress& is = *server.learning;
    std::string text =
        is.to_come() == 0
            ? fmt::format("server {} has all that it learns", server.number)
            : fmt::format("server {} learns {} ({} new {}, {} that {}) from {}", server.number,
                          counted(is.to_come(), "segment"), is.copies,
                          is.copies == 1 ? "copy" : "copies", is.moves,
                          is.moves == 1 ? "moves" : "move", counted(is.sources, "shard"));
    text += fmt::format(": {} of {} have come since view {}", is.come(), is.come() + is.to_come(),
                        is.since);
    if (is.waiting > 0)
        text += fmt::format("; {} of these {} to be taken over", is.waiting,
                            is.waiting == 1 ? "waits" : "wait");
    return text + "\n";
}

nlohmann::ordered_json learning_json(const JobStatus::Server& server) {
    if (!server.learning) return nullptr;
    const LearningProgress& is = *server.learning;
    return {{"segments_to_learn", is.to_come()},
            {"copies_to_learn", is.copies},
            {"moves_to_learn", is.moves},
            {"from_shards", is.sources},
            {"segments_come", is.come()},
            {"segments_waiting", is.waiting},
            {"since_view", is.since}};
}

}  // namespace weir::tools
