// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SIGINT and SIGTERM as a wish to end soon: the first is remembered, the second ends the process.

#include <string_view>

#include "lib/base/result.h"

namespace weir::tools {

/// From now on the first SIGINT or SIGTERM is only remembered, and `says` goes to stderr behind the
/// signal's name; the next one ends the process at once, as it would have before. A signal that was
/// ignored stays ignored. The calls after the first one do nothing.
/// says: static text without a line end. Thread: any
void remember_stop_signals(std::string_view says);

/// The signal that came, or 0. Thread: any
[[nodiscard]] int stop_signal() noexcept;

/// "SIGINT", "SIGTERM", or "a signal".
[[nodiscard]] std::string_view signal_name(int signal) noexcept;

/// 130 and 143, as a shell has it of programs that a signal ends.
[[nodiscard]] int stop_exit_code(int signal) noexcept;

/// The error that ends a job early for all, by `signal`.
[[nodiscard]] Error stopped_by(int signal, std::string_view what_ended);

/// The signal of a stopped_by() that came back from another rank, perhaps with more words; else 0.
[[nodiscard]] int signal_of(const Error& error) noexcept;

}  // namespace weir::tools
