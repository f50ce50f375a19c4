// SPDX-License-Identifier: Apache-2.0
#include "lib/server/open_iterations.h"

namespace weir {

std::optional<Iterations::Failure> OpenIterations::arrived(uint64_t iteration, const Part& part,
                                                           Errc status) {
    if (status != Errc::kOk) state_.fail(iteration, {status, part.worker});
    const std::optional<Failure> failure = state_.failure_for(iteration, part.worker);
    if (!failure) open(iteration).parts.push_back(part);
    state_.arrived(iteration, part.worker);
    return failure;
}

bool OpenIterations::replace(uint64_t iteration, const Part& again) noexcept {
    if (iteration < state_.first_open() || iteration > state_.last_open()) return false;
    for (Part& part : open(iteration).parts) {
        if (part.worker != again.worker || part.time != again.time || part.first != again.first) {
            continue;
        }
        part.connection = again.connection;
        part.request = again.request;
        return true;
    }
    return false;
}

}  // namespace weir
