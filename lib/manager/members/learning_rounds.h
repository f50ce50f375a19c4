// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LearningRounds: how far servers are with the segments that they learn, as views say it.

#include <cstdint>
#include <map>

#include "lib/ring/moves.h"
#include "lib/ring/view.h"
#include "lib/wire/job_status.h"

namespace weir {

/// A server's round begins with the view that makes it a learner of something, and ends with the
/// one in which it is a learner of nothing. What it has learned and lost again, because it was taken
/// back or has no place in its memory, has not come.
///
/// Thread: one
class LearningRounds {
public:
    /// `after` follows `before`, which was the last one.
    void follow(const View& before, const View& after);

    /// By server: those that learn something in `view`, the last one. `complete` has reports of
    /// learners of that view, by the first positions of their segments.
    [[nodiscard]] std::map<uint32_t, LearningProgress> progress(
        const View& view, const std::map<uint64_t, LearnerReport>& complete) const;

private:
    struct Round {
        uint64_t since = 0;
        std::map<uint64_t, uint32_t> taken = {};  ///< by their first positions: the shards
    };

    void note_taken(const ViewLearner& learner, const ViewSegment& after, const View& view);

    std::map<uint32_t, Round> rounds_;  // by server
};

}  // namespace weir
