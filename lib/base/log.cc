// SPDX-License-Identifier: Apache-2.0
#include "lib/base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace weir {
namespace {

struct Sink {
    std::mutex mutex;
    LogSink sink = stderr_log_sink();
    std::atomic<int> threshold{static_cast<int>(LogLevel::kWarning)};  // 99, above all: silent
};

Sink& sink() {
    static Sink instance;
    return instance;
}

thread_local bool is_thread_quiet = false;

}  // namespace

void set_log_sink(LogSink new_sink, LogLevel at_least) {
    Sink& s = sink();
    const std::lock_guard lock(s.mutex);
    s.threshold.store(new_sink ? static_cast<int>(at_least) : 99, std::memory_order_relaxed);
    s.sink = std::move(new_sink);
}

LogSink stderr_log_sink() {
    return [](LogLevel level, std::string_view line) {
        const char* const name = level == LogLevel::kError     ? "error: "
                                 : level == LogLevel::kWarning ? "warning: "
                                 : level == LogLevel::kDebug   ? "debug: "
                                                               : "";
        fmt::print(stderr, "weir: {}{}\n", name, line);
    };
}

bool log_enabled(LogLevel level) noexcept {
    // relaxed: a line more or less around a change of the threshold does no harm
    return !is_thread_quiet &&
           static_cast<int>(level) >= sink().threshold.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view line) {
    Sink& s = sink();
    const std::lock_guard lock(s.mutex);
    if (s.sink) s.sink(level, line);
}

QuietLog::QuietLog(bool is_quiet) noexcept : was_quiet_(is_thread_quiet) {
    is_thread_quiet = is_thread_quiet || is_quiet;
}

QuietLog::~QuietLog() {
    is_thread_quiet = was_quiet_;
}

}  // namespace weir
