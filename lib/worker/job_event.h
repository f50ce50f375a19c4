// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobEvent: what has happened in a running job beside the work itself.

#include <chrono>
#include <cstdint>
#include <vector>

namespace weir {

class View;

struct JobEvent {
    enum class Kind : uint8_t {
        kServerJoined,
        kServerLeft,  ///< it had handed over what it held
        kServerLost,  ///< it died, or was out of reach; others hold what it held
        kWorkerJoined,
        kWorkerGone,  ///< it has left, or is lost
        kCheckpoint   ///< one was completed
    };

    Kind kind = Kind::kServerJoined;
    uint64_t number = 0;             ///< of the server, worker or checkpoint
    std::chrono::nanoseconds age{};  ///< when it was taken: since it happened
};

/// What came and went between two views, with age 0.
[[nodiscard]] std::vector<JobEvent> events_between(const View& before, const View& after);

}  // namespace weir
