// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OnWorkerLoss: what a job does when one of its workers dies or gives up.

#include <cstdint>
#include <string_view>

namespace weir {

enum class OnWorkerLoss : uint8_t {
    kStop,      ///< who waits for it gets an error that names it
    kContinue,  ///< the others go on without it, and nobody waits for it any more
    /// The others take its work over, too: all take the work anew; see Client::take_work(). Of one
    /// that gives up with an error, as kStop.
    kReassign,
};

/// As --on-worker-loss says it.
[[nodiscard]] constexpr std::string_view to_string(OnWorkerLoss what) noexcept {
    switch (what) {
        case OnWorkerLoss::kStop: return "stop";
        case OnWorkerLoss::kContinue: return "continue";
        case OnWorkerLoss::kReassign: return "reassign";
    }
    return "unknown";
}

}  // namespace weir
