// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which shards should become backups, for plan().

#include <cstdint>
#include <span>
#include <vector>

#include "lib/ring/balance.h"
#include "lib/ring/plan.h"
#include "lib/ring/view.h"

namespace weir {

/// As plan() has them.
struct BackupRules {
    std::span<const uint32_t> live;
    std::span<const uint32_t> full;
    const ServersApart& apart;
    uint32_t count = 0;  ///< of each segment
};

/// Names a learner for every stretch that lacks a backup, or has one that is leaving, and that gets
/// no other learner. The least loaded shards get more, those first that follow the primary already.
/// Servers that are `full` keep what they have, and get nothing; none gets a copy from one that it is
/// `apart` from.
void place_backups(const View& view, const Balance& balance, const BackupRules& rules,
                   std::vector<LearnerNaming>& learners);

}  // namespace weir
