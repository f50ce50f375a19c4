// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LrSolver::Totals: the sums over all workers after a pass.

#include "lib/apps/lr/lr_solver.h"

namespace weir::apps {

struct LrSolver::Totals {
    double objective = 0;
    double entry_count = 0;           ///< non-zeros in the columns whose weight is not 0
    double left_out_count = 0;        ///< features that the pass has left out
    double woken_count = 0;           ///< features that were at rest until it moved them
    PassHistory::System system = {};  ///< of the step along the history
};

}  // namespace weir::apps
