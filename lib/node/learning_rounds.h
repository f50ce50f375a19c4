// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LearningRounds: how far servers are with the segments that they learn, as views say it.

#include <cstdint>
#include <map>

#include "lib/ring/moves.h"
#include "lib/ring/view.h"

namespace weir {

/// Of one server. A segment has come when its learner has all of it: no part of one counts.
struct LearningProgress {
    uint32_t copies = 0;   ///< segments that are yet to come, and of which it is to be a backup
    uint32_t moves = 0;    ///< those of which it is to be primary
    uint32_t sources = 0;  ///< shards from which all these come
    uint32_t waiting = 0;  ///< have come, and wait until a view makes it their primary or backup
    uint32_t taken = 0;    ///< have come in this round, and a view did so
    uint64_t since = 0;    ///< the view with which the round began

    [[nodiscard]] uint64_t to_come() const noexcept { return uint64_t{copies} + moves; }

    [[nodiscard]] uint64_t come() const noexcept { return uint64_t{waiting} + taken; }

    /// The server learns in view `epoch`, and the numbers fit each other.
    [[nodiscard]] bool is_sound(uint64_t epoch) const noexcept;

    friend bool operator==(const LearningProgress&, const LearningProgress&) = default;
};

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
