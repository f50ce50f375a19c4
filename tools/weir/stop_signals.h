// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SIGINT and SIGTERM as requests to stop: the first is remembered, the same one again ends the
/// process.

#include <cstdint>
#include <string_view>

#include "lib/base/result.h"

namespace weir::tools {

/// Of --grace: below the KillWait of Slurm, which is 30.
inline constexpr uint32_t kGraceSeconds = 25;

/// From now on the first SIGINT or SIGTERM is only remembered, and its name and `says` are
/// written to stderr. A second SIGINT ends the process at once, and so does another SIGTERM a second
/// or more after the first: until then it is the same request, which wrappers such as timeout(1)
/// send twice (of SIGINT, for a tenth of a second). A signal that was ignored stays ignored. Only
/// the first call has an effect.
///
/// says:   static text without a line end; empty: nothing is written
/// Thread: any
void remember_stop_signals(std::string_view says);

/// From now on a SIGTERM that is remembered ends the process after so many seconds, with 143, if it
/// has not ended in order; 0: never. Who sends it, such as a batch system, kills after a while.
/// Thread: any
void limit_grace(uint32_t seconds) noexcept;

/// From now on it may take as long as it takes. Thread: any
void lift_grace() noexcept;

/// Whether a SIGTERM was remembered so many seconds ago; 0: never. For processes that can end in order
/// before limit_grace() would end them. Thread: any
[[nodiscard]] bool is_grace_over(uint32_t seconds) noexcept;

/// Says that the process ends because of that, and what it leaves undone. Returns its exit code.
int ended_by_grace(const Error& undone);

/// `weir stop` ends the job: from now on as if SIGTERM had come to all its ranks. Thread: any
void note_stop_command() noexcept;

/// The remembered signal, or 0. Thread: any
[[nodiscard]] int stop_signal() noexcept;

/// Whether a signal was remembered so long ago (a second) that the other ranks have it, too, if it
/// was sent to all of them. A server asks to leave only then: rank 0 refuses that if it has the
/// signal itself, because the whole job is being stopped. Thread: any
[[nodiscard]] bool stop_signal_has_settled() noexcept;

/// "SIGINT", "SIGTERM", or "a signal"; "`weir stop`" in place of SIGTERM, if that came.
[[nodiscard]] std::string_view signal_name(int signal) noexcept;

/// 128 + the signal's number (130, 143), as a shell reports a program that a signal ended.
[[nodiscard]] int stop_exit_code(int signal) noexcept;

/// The error that ends a job early for all ranks because of `signal`. Its code, which other ranks
/// get with it, says which signal it was.
[[nodiscard]] Error stopped_by(int signal, std::string_view what_ended);

/// The signal of an error made by stopped_by(), on this or another rank; 0 for other errors.
[[nodiscard]] int signal_of(const Error& error) noexcept;

}  // namespace weir::tools
