// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What should move: plan(), a pure function; and first_view(), the view of a job's start.

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/ring/view.h"

namespace weir {

/// A server that is to join: ViewServer and its shards without their numbers.
struct NewServer {
    uint32_t rank = 0;
    uint64_t host = 0;
    uint32_t weight = 1;
    std::vector<std::string> addresses = {};  ///< of its shards, at least one
};

/// Pairs of servers that do not reach each other; of each the lower number first.
using ServersApart = std::set<std::pair<uint32_t, uint32_t>>;

struct LearnerNaming {
    uint64_t first = 0;  ///< of the segment, after all cuts
    uint32_t shard = 0;
    uint32_t replaces = kNoShard;  ///< as in ViewLearner
    friend bool operator==(const LearnerNaming&, const LearnerNaming&) = default;
};

/// What leads from a view to the next one, and where it ends. All lists ascend.
struct Plan {
    std::vector<uint64_t> cuts;           ///< a new segment begins at each of these positions
    std::vector<uint64_t> cancelled;      ///< first positions of segments that lose their learner
    std::vector<LearnerNaming> learners;  ///< who is to learn which segment

    /// The part of the ring that new learners are to be primary of.
    double moved = 0;
    /// The smallest and the largest share of a shard of a live server once all learners are
    /// complete; 1 is exactly what its weight says.
    double share_min = 0;
    double share_max = 0;

    /// Nothing is to be done.
    [[nodiscard]] bool empty() const noexcept {
        return cuts.empty() && cancelled.empty() && learners.empty();
    }
};

/// How far a shard's share may be from what its weight says before something moves.
inline constexpr double kShareTolerance = 0.05;

/// What should move so that only `live` servers hold something, each shard within kShareTolerance
/// of its share, and every segment has `backup_count` backups.
///
/// Who is in the view but not live is leaving: it still answers, and hands over all that it holds.
/// The dead are taken out before, by without_servers(). Only shards below their tolerance get
/// something, besides what leavers give away; they are filled up to their share. The richest give
/// first, whole segments if there are any of a good size. A segment that has a learner counts for
/// the learner and stays as it is; if the learner is leaving, it is given up. Lost segments stay.
///
/// Servers that are `full` have no memory for more: they keep what they hold, and get nothing; what
/// they are learning is given up.
///
/// Of two servers that are `apart` none learns from the other. What would move between them stays, and
/// copies are made on others.
///
/// With ViewLimits::kSegmentsMax segments nothing can be cut. Then whole segments move: leavers
/// still come to hold nothing, but shares may be beyond the tolerance, as share_min and share_max
/// say.
///
/// With backups nothing is cut either, so that all copies of a segment are of the same positions:
/// shares may be beyond the tolerance by a segment. A segment that has fewer backups than it should
/// is not moved before it has them.
///
/// Backups are not yet promoted in place of a move: a server that has a backup of a segment does
/// not become its primary. With backups and few servers, shares may therefore be beyond the
/// tolerance, and a leaver whose segments all live servers have copies of keeps them.
///
/// Backups are on other servers than the primary and each other, on other hosts while there are
/// enough, and a shard's segments share few partners. What cannot be placed now (there are too few
/// servers, or the segment has a learner already) is left to the next plan.
[[nodiscard]] Plan plan(const View& view, std::span<const uint32_t> live, uint32_t backup_count,
                        std::span<const uint32_t> full = {}, const ServersApart& apart = {});

/// How many segments each of `shard_count` shards begins with: 16, and fewer if those of all were
/// more than half of ViewLimits::kSegmentsMax, which leaves room for cuts.
[[nodiscard]] uint32_t points_for(size_t shard_count) noexcept;

/// Epoch 1: the ring among `servers`, which get numbers in this order. The same servers make the
/// same ring everywhere. Each shard has `points_per_shard` segments of one length, one in each of
/// as many laps around the ring. There are no backups and no workers yet.
///
/// Errors: Errc::kInvalidArgument if there is no server, or one without a shard or weight; or if
///         the points are 0 or more than ViewLimits::kSegmentsMax in all
[[nodiscard]] Result<View> first_view(std::span<const NewServer> servers,
                                      uint32_t points_per_shard);

}  // namespace weir
