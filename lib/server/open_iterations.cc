// SPDX-License-Identifier: Apache-2.0
#include "lib/server/open_iterations.h"

namespace weir {

std::optional<IterationProgress::Failure> OpenIterations::arrived(uint64_t iteration,
                                                                  const Part& part, Errc status) {
    if (status != Errc::kOk) state_.fail(iteration, {status, part.worker});
    const std::optional<Failure> failure = state_.failure_for(iteration, part.worker);
    if (!failure) open(iteration).parts.push_back(part);
    state_.arrived(iteration, part.worker);
    return failure;
}

}  // namespace weir
