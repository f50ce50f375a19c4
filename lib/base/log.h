// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Log: one line of text per event, given to the sink that the program installed. Until it installs
/// one, warnings and errors go to stderr. Never called on the warm data path.

#include <functional>
#include <string_view>

#include <fmt/core.h>

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

/// Formats a line and gives it to the sink, if the sink takes this level. Thread: any.
template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

/// While it lives, log() writes nothing in this thread. For one that goes through what another says.
class QuietLog {
public:
    explicit QuietLog(bool is_quiet) noexcept;
    QuietLog(const QuietLog&) = delete;
    QuietLog& operator=(const QuietLog&) = delete;
    ~QuietLog();

private:
    bool was_quiet_;
};

}  // namespace weir
