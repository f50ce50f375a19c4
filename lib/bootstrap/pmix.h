// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bootstrap over PMIx (mpirun, srun --mpi=pmix), where the library was there at build time.

#include <memory>

#include "lib/base/clock.h"
#include "lib/bootstrap/bootstrap.h"

namespace weir::boot {

/// Whether this build can do it.
[[nodiscard]] bool have_pmix() noexcept;

/// Greets the PMIx server that the environment names. One per process: PMIx is a process-wide
/// thing. Errors:  kUnavailable without PMIx in this build; kDeadline; kPeerLost with what PMIx
/// says
[[nodiscard]] Result<std::unique_ptr<Bootstrap>> open_pmix(const Clock& clock,
                                                           uint64_t deadline_ns);

}  // namespace weir::boot
