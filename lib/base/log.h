// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// log(): formats a line for the log of the process (log_sink.h). Never called on the warm data path.

#include <utility>

#include <fmt/core.h>

#include "lib/base/log_sink.h"

namespace weir {

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
