// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/plan.h"

#include <algorithm>

#include "lib/ring/balance.h"
#include "lib/ring/place_backups.h"

namespace weir {

Plan plan(const View& view, std::span<const uint32_t> live, uint32_t backup_count,
          std::span<const uint32_t> full, const ServersApart& apart) {
    Balance balance(view, live, backup_count, full);
    balance.run();
    const std::span<const ViewSegment> segments = view.segments();
    Plan result;
    for (const uint32_t i : balance.cancelled())
        result.cancelled.push_back(segments[i].first);
    uint128 moved = 0;
    for (const Balance::Stretch& stretch : balance.stretches()) {
        const ViewSegment& segment = segments[stretch.segment];
        if (stretch.first != segment.first) result.cuts.push_back(stretch.first);
        if (!stretch.is_moved) continue;
        const ViewShard& gainer = view.shards()[stretch.holder];
        const uint32_t loser = view.shard(segment.primary)->server;
        if (apart.contains(std::minmax(gainer.server, loser))) continue;
        moved += stretch.size;
        result.learners.push_back({stretch.first, gainer.number, segment.primary});
    }
    place_backups(view, balance, {live, full, apart, backup_count}, result.learners);
    std::ranges::sort(result.cuts);
    std::ranges::sort(result.learners, {}, &LearnerNaming::first);
    constexpr double kExact = Balance::kExact;
    result.moved = static_cast<double>(moved) * 0x1p-64;
    result.share_min = static_cast<double>(balance.ratio_min()) / kExact;
    result.share_max = static_cast<double>(balance.ratio_max()) / kExact;
    return result;
}

}  // namespace weir
