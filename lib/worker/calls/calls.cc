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

bool Calls::is_referenced(std::span<const std::byte> memory) noexcept {
    bool found = false;
    calls_.for_each([&](Id, const Call& call) {
        for (const std::shared_ptr<CallRows>& rows : call.rows)
            found = found || rows->is_referenced(memory);
    });
    return found;
}

}  // namespace weir
