// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LogLines: collects the lines that are logged while it lives. Only one may live at a time.

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/log.h"

namespace weir::testing {

/// Thread: any.
class LogLines {
public:
    explicit LogLines(LogLevel at_least = LogLevel::kInfo) {
        set_log_sink(
            [this](LogLevel, std::string_view line) {
                const std::lock_guard lock(mutex_);
                lines_.emplace_back(line);
            },
            at_least);
    }

    LogLines(const LogLines&) = delete;
    LogLines& operator=(const LogLines&) = delete;

    ~LogLines() { set_log_sink({}); }

    [[nodiscard]] std::vector<std::string> lines() const {
        const std::lock_guard lock(mutex_);
        return lines_;
    }

    /// How many lines contain `word`.
    [[nodiscard]] size_t count(std::string_view word) const {
        const std::lock_guard lock(mutex_);
        return static_cast<size_t>(std::count_if(
            lines_.begin(), lines_.end(),
            [&](const std::string& line) { return line.find(word) != std::string::npos; }));
    }

    [[nodiscard]] bool has(std::string_view word) const { return count(word) > 0; }

    /// All lines, each with its line feed.
    [[nodiscard]] std::string text() const {
        std::string text;
        for (const std::string& line : lines())
            text.append(line).append("\n");
        return text;
    }

private:
    mutable std::mutex mutex_;
    std::vector<std::string> lines_;
};

}  // namespace weir::testing
