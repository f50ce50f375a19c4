// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The log of the process: one line of text per event, given to the sink that the program installed.
/// Until it installs one, warnings and errors go to stderr.

#include <cstdint>
#include <functional>
#include <string_view>

namespace weir {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

/// Receives one finished line without its newline. Thread: any, one call at a time.
using LogSink = std::function<void(LogLevel, std::string_view line)>;

/// Installs the sink for lines of level `at_least` and above, instead of stderr_log_sink(); an empty
/// one ends logging. The sink belongs to the process, not to a client. Thread: any.
void set_log_sink(LogSink sink, LogLevel at_least = LogLevel::kInfo);

/// A sink that writes "weir: warning: ..." lines to stderr.
[[nodiscard]] LogSink stderr_log_sink();

[[nodiscard]] bool log_enabled(LogLevel level) noexcept;
/// Gives `line` to the sink, whatever its level. Thread: any.
void log_line(LogLevel level, std::string_view line);

}  // namespace weir
