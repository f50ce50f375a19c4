// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where the ranks of a bench run: what has to be known before a job starts its threads.

#include <cstdint>
#include <optional>

#include "lib/base/config.h"
#include "lib/base/result.h"

namespace weir::tools {

/// The rank that this process will have in its job, by flags or by what its launcher has put into
/// the environment (PMIX_RANK, PMI_RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK); nothing if none says.
/// Job::start() asks the launcher itself; what it hears is what counts.
/// Errors: as Config::number(); kInvalidArgument for a launcher's variable that is no number
[[nodiscard]] Result<std::optional<uint32_t>> foreseen_rank(const Config& config);

}  // namespace weir::tools
