// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bootstrap over PMIx (mpirun, srun --mpi=pmix), in builds that found the library.

#include <memory>

#include "lib/base/clock.h"
#include "lib/bootstrap/bootstrap.h"

namespace weir::boot {

/// Whether this build has PMIx.
[[nodiscard]] bool have_pmix() noexcept;

/// Connects to the PMIx server that the environment names. Once per process, as PMIx has one
/// state per process.
/// Errors:  kUnavailable without PMIx in this build; kDeadline; kPeerLost with what PMIx says
[[nodiscard]] Result<std::unique_ptr<Bootstrap>> open_pmix(const Clock& clock,
                                                           uint64_t deadline_ns);

}  // namespace weir::boot
