// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobEvent: what has happened in a running job beside the work itself.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace weir {

class View;

struct JobEvent {
    enum class Kind : uint8_t {
        kServerJoined,
        kServerLeft,  ///< it had handed over what it held
        kServerLost,  ///< it died, or was out of reach; others hold what it held
        kWorkerJoined,
        kWorkerLeft,
        kWorkerLost,  ///< it died, was out of reach, or gave up
        kCheckpoint,  ///< one was completed
        kCheckpointFailed,
        kManagerLeads  ///< another one of several than before, as far as the client has heard
    };

    Kind kind = Kind::kServerJoined;
    /// Of the server, worker or checkpoint, 0: of a checkpoint that failed before it had one; the rank of the
    /// manager.
    uint64_t number = 0;
    std::chrono::nanoseconds age{};  ///< when it was taken: since it happened
    std::string why = {};            ///< a checkpoint failed; else empty
};

/// What came and went between two views, with age 0. Views do not say why a worker is gone: it has
/// left.
[[nodiscard]] std::vector<JobEvent> events_between(const View& before, const View& after);

}  // namespace weir
