// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LostWorkers: the workers that died or gave up, and why, for the error that the others get.

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/messages.h"
#include "lib/wire/work_message.h"

namespace weir {

/// Thread: the manager's
class LostWorkers {
public:
    /// More are counted, but not remembered.
    static constexpr size_t kRememberedMax = LostWorkersMessage::kWorkersMax;

    /// `why.status` is kOk if nobody knows.
    void add(uint32_t worker, uint32_t rank, LeaveMessage why);

    /// Those that are remembered.
    [[nodiscard]] LostWorkersMessage numbers() const;

    /// Says which workers are lost and why. A worker that gave up only because it lost another one
    /// (kPeerLost) is named only if no lost worker has another reason; those that gave up for the same
    /// reason are named together. If a signal stopped one of them, that is the whole reason: stopping
    /// one stops them all, and nothing went wrong.
    /// `with_what`: ", with --resume ...", how to start the job again; empty: there is no checkpoint
    [[nodiscard]] Error error(std::string_view with_what = {}) const;

private:
    struct Worker {
        uint32_t number;
        uint32_t rank;
        LeaveMessage end;
    };

    std::vector<Worker> workers_;
    size_t count_ = 0;
};

}  // namespace weir
