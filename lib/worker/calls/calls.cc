// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/calls/calls.h"

#include <fmt/core.h>

namespace weir {

Status Calls::take(Id id) {
    Call* const call = calls_.find(id);
    if (call == nullptr) {
        return Error(Errc::kBusy,
                     fmt::format("more than {} calls are open; wait for some of them", kCountMax));
    }
    Status status = std::move(call->status);
    call->stop_watching();
    release_if_over(id, *call);
    return status;
}

}  // namespace weir
