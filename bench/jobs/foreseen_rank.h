// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// foreseen_rank: the rank of a bench process, which must know it before its job starts threads.

#include <cstdint>
#include <optional>

#include "lib/base/config.h"
#include "lib/base/result.h"

namespace weir::bench {

/// The rank that this process will have in its job, from the flags or from the launcher's
/// environment variables (PMIX_RANK, PMI_RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK). Empty if none
/// of them gives it. Job::start() asks the launcher itself, and its answer decides.
/// Errors: as Config::number(); kInvalidArgument for a launcher's variable that is no number
[[nodiscard]] Result<std::optional<uint32_t>> foreseen_rank(const Config& config);

}  // namespace weir::bench
