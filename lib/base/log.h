// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Log: one line of text per event, to whatever sink the program installed (stderr in `weir`,
/// nothing in a library user's process until it asks). Never called on the warm data path.

#include <functional>
#include <string_view>

#include <fmt/core.h>

namespace weir {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

/// Receives finished lines without a newline. Thread: any, one call at a time.
using LogSink = std::function<void(LogLevel, std::string_view line)>;

/// The process's sink: the one thing that is not per client, as stderr is not. Thread: any.
void set_log_sink(LogSink sink, LogLevel at_least = LogLevel::kInfo);

/// A sink that writes "weir: warning: ..." lines to stderr.
[[nodiscard]] LogSink stderr_log_sink();

[[nodiscard]] bool log_enabled(LogLevel level) noexcept;
void log_line(LogLevel level, std::string_view line);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weir
