// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Retry: which answers end a request, and which only mean that it has to be sent again.

#include "lib/base/result.h"

namespace weir {

/// An answer that is transient never reaches the caller: the request goes on until the deadline
/// of its call.
enum class Retry {
    kNever,  ///< the answer is final: done, or refused for good
    kNow,    ///< send it again at once
    kLater   ///< send it again after a pause, since nothing has changed yet
};

[[nodiscard]] constexpr Retry retry_after(Errc answer) noexcept {
    switch (answer) {
        case Errc::kAgain:
        case Errc::kUnknownList: return Retry::kNow;
        case Errc::kBusy:
        case Errc::kStaleEpoch: return Retry::kLater;
        default: return Retry::kNever;
    }
}

}  // namespace weir
