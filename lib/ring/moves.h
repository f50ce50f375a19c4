// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The views that a plan leads through. Each function makes the next epoch's view out of one.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/ring/plan.h"

namespace weir {

/// A learner has everything of a segment: its memory has the last chunk and all that was
/// acknowledged. `named` is the epoch that named it.
struct LearnerReport {
    uint64_t first = 0;
    uint32_t shard = 0;
    uint64_t named = 0;
    friend bool operator==(const LearnerReport&, const LearnerReport&) = default;
};

/// The view in which `server` is there and holds nothing yet.
///
/// Errors: Errc::kInvalidArgument naming what is wrong with the server, or the limit that is
///         reached
[[nodiscard]] Result<View> with_server(const View& view, const NewServer& server);

/// The view without `servers`, dead or holding nothing. The first backup of each segment takes its
/// primary's place; a segment of which no copy is left is lost; a learner of a segment with a new
/// primary is named anew. One that was to be primary becomes a backup first, if the segment has lost
/// one.
[[nodiscard]] View without_servers(const View& view, std::span<const uint32_t> servers);

/// The view in which a shard of `servers`, which are in the view, is primary of each segment that has
/// none: of a job that stores nothing yet, so that who gets a segment has all of it. As evenly as whole
/// segments allow.
[[nodiscard]] View with_primaries(const View& view, std::span<const uint32_t> servers);

/// The view in which the shards that are reported are backups, or learners, no more: they cannot
/// follow. Reports that do not fit the view count for nothing. Nothing is returned if none is left.
[[nodiscard]] std::optional<View> without_learners(const View& view,
                                                   std::span<const LearnerReport> reports);

/// The view in which the segments are cut and the learners named. The plan is of this very view.
[[nodiscard]] View begin_moves(const View& view, const Plan& plan);

/// Those of `reports` that may be finished now, in an order for finish_moves().
///
/// A server that has the only copy of nothing yet, like one that has just joined, gets all such
/// segments that it learns in one view: until then, its death loses nothing. So its reports of them
/// wait for each other; if it is `full` they do not, because what it still learns will be given up.
/// They come first, so that finish_moves() leaves none of them out.
[[nodiscard]] std::vector<LearnerReport> reports_to_finish(const View& view,
                                                           std::span<const LearnerReport> reports,
                                                           std::span<const uint32_t> full);

/// The view in which the learners that are reported take their roles. No server both loses a
/// primary role by it and gets one: a report that would lead to that is left out, and has its turn
/// when this is called again for the next view. Reports that do not fit the view count for
/// nothing. Nothing is returned if none is left.
[[nodiscard]] std::optional<View> finish_moves(const View& view,
                                               std::span<const LearnerReport> reports);

}  // namespace weir
