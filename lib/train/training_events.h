// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TrainingEvents: what happens in the job while it trains, on the time scale of the passes.

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "lib/worker/client.h"

namespace weir {

struct TrainingEvent {
    double seconds = 0;  ///< on the time scale of the training
    JobEvent::Kind kind = JobEvent::Kind::kCheckpoint;
    uint64_t number = 0;   ///< as JobEvent::number
    std::string why = {};  ///< as JobEvent::why
};

/// The time scale leaves out what lies between two rounds of work: what happens there is shown in the
/// first pass of the second one.
///
/// Thread: the client's
class TrainingEvents {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// A pass has ended, so many seconds after the first one began.
    void note_pass(double seconds, Time now = std::chrono::steady_clock::now());

    void add(const JobEvent& event, Time now);

    /// Takes the client's, unless they were taken just now. An error means that there are none.
    void collect(Client& client, bool is_last);

    /// Ascending. Those before the first pass began, as while the files were read, are at 0; those of
    /// workers that left after the last one had ended are left out.
    [[nodiscard]] std::vector<TrainingEvent> placed() const;

private:
    [[nodiscard]] double seconds_at(Time time) const;

    std::vector<std::pair<Time, double>> passes_;  ///< when each ended
    std::vector<std::pair<Time, JobEvent>> events_;
    Time collected_{};
};

}  // namespace weir
