// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OnWorkerLoss: what a job does when one of its workers dies or gives up.

#include <cstdint>

namespace weir {

enum class OnWorkerLoss : uint8_t {
    kStop,      ///< who waits for it gets an error that names it
    kContinue,  ///< the others go on without it, and nobody waits for it any more
};

}  // namespace weir
