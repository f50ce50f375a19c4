// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir bench elastic`: pushes while servers join and leave.

#include <optional>

#include "bench/jobs/elastic/elastic_moves.h"
#include "bench/jobs/work.h"
#include "lib/base/config.h"
#include "lib/job/job.h"
#include "lib/worker/client.h"

namespace weir::bench {

/// All workers call it. The first one makes servers join and leave, and reports; it leaves `moves`
/// behind, whose servers end with the job.
/// Errors: a push that failed; kProtocol if a push was lost or counted twice
[[nodiscard]] Status bench_elastic(Client& client, const BenchFlags& flags, const JobShape& shape,
                                   const Config& config, std::optional<ElasticMoves>& moves);

}  // namespace weir::bench
