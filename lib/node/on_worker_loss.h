// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OnWorkerLoss: what a job does when one of its workers dies or gives up.

#include <cstdint>

namespace weir {

enum class OnWorkerLoss : uint8_t {
    kStop,      ///< who waits for it gets an error that names it
    kContinue,  ///< the others go on without it, and nobody waits for it any more
    /// The others take its work over, too: all take the work anew; see Client::take_work(). Of one
    /// that gives up with an error, as kStop.
    kReassign,
};

}  // namespace weir
