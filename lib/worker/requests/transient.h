// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Transient: replies which mean that a shard has done nothing, for a reason that passes.

#include <optional>

#include "lib/base/result.h"

namespace weir {

/// Not an Error: a call never ends with it. Its request goes on until the deadline of the call.
enum class Transient {
    kAgain,        ///< one before it was not executed: send it again at once
    kUnknownList,  ///< send it again at once, with its keys
    kBusy,         ///< send it again after a pause
    kStaleEpoch,   ///< the shard has a later view: wait for that one
};

/// Nothing if the reply is final: done, or refused for good.
[[nodiscard]] constexpr std::optional<Transient> transient(Errc status) noexcept {
    switch (status) {
        case Errc::kAgain: return Transient::kAgain;
        case Errc::kUnknownList: return Transient::kUnknownList;
        case Errc::kBusy: return Transient::kBusy;
        case Errc::kStaleEpoch: return Transient::kStaleEpoch;
        default: return std::nullopt;
    }
}

}  // namespace weir
