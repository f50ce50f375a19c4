// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// SIGUSR1 as a request for a checkpoint.

namespace weir::tools {

/// From now on SIGUSR1 is only remembered. Only the first call has an effect. Thread: any
void remember_checkpoint_signals();

/// Whether the signal has come since the last call. Thread: any
[[nodiscard]] bool take_checkpoint_signal() noexcept;

}  // namespace weir::tools
