// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Progress: shows the progress of a long command. On a terminal it rewrites one line. Elsewhere
/// it writes plain lines: often at the start, so that short work shows some, later every 5
/// seconds.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include <fmt/core.h>
#include <unistd.h>

#include "lib/base/clock.h"

namespace weir::tools {

/// Writes to stderr, because programs may read stdout. Thread: one.
class Progress {
public:
    void show(const std::string& line) {
        last_ = line;
        const uint64_t now_ns = clock_.now_ns();
        if (shown_ns_ != 0 && now_ns - shown_ns_ < interval_ns_) {
            pending_ = true;
            return;
        }
        write(now_ns);
    }

    /// Writes the last line if it is not written yet, and ends it.
    void end() {
        if (pending_) write(clock_.now_ns());
        if (terminal_ && shown_ns_ != 0) fmt::print(stderr, "\n");
        shown_ns_ = 0;
        interval_ns_ = kFirstInterval;
    }

private:
    static constexpr uint64_t kFirstInterval = kSecond / 10;  // does not grow on a terminal
    static constexpr uint64_t kLongestInterval = 5 * kSecond;

    void write(uint64_t now_ns) {
        if (terminal_) {
            fmt::print(stderr, "\r{:<79}", last_);
        } else {
            fmt::print(stderr, "{}\n", last_);
            if (shown_ns_ != 0) interval_ns_ = std::min(interval_ns_ * 2, kLongestInterval);
        }
        (void)std::fflush(stderr);
        shown_ns_ = now_ns;
        pending_ = false;
    }

    SteadyClock clock_;
    bool terminal_ = ::isatty(STDERR_FILENO) == 1;
    std::string last_;
    uint64_t shown_ns_ = 0;
    uint64_t interval_ns_ = kFirstInterval;
    bool pending_ = false;
};

}  // namespace weir::tools
