// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// SIGUSR1 as a request for a checkpoint. It may come to all processes of a job; it ends none of them.

#include <string_view>

namespace weir::tools {

/// Why a process does not write one.
inline constexpr std::string_view kNoManagerHere =
    "this process has no manager, and writes no checkpoint at it; send it to rank 0, "
    "or, of several managers, to the rank of any that lives";

/// From now on SIGUSR1 is only remembered. Only the first call has an effect. Thread: any
void remember_checkpoint_signals();

/// This process writes no checkpoint at the signal: from now on the first one gets this text, on
/// stderr.
///
/// why:    static text without a line end
/// Thread: any
void refuse_checkpoint_signals(std::string_view why);

/// Whether the signal has come since the last call. Thread: any
[[nodiscard]] bool take_checkpoint_signal() noexcept;

}  // namespace weir::tools
