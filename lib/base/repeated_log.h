// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RepeatedLog: limits log lines that peers can cause any number of times. The first line of a
/// reason is logged at once. Later ones are counted, and once per interval a summary gives their
/// number and the last of them.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/log.h"

namespace weir {

/// Its memory is bounded: reasons beyond the first kReasonsMax are counted together. Thread: one.
class RepeatedLog {
public:
    static constexpr uint64_t kIntervalNs = 60 * kSecond;
    static constexpr size_t kReasonsMax = 32;       ///< one more entry counts all others
    static constexpr size_t kReasonBytesMax = 160;  ///< only these are compared
    static constexpr size_t kLineBytesMax = 600;    ///< of the last line, which a summary repeats

    /// `clock` must outlive it.
    explicit RepeatedLog(const Clock& clock) noexcept : clock_(clock) {}

    /// Logs the summaries of all counted lines.
    ~RepeatedLog() { finish(); }

    RepeatedLog(const RepeatedLog&) = delete;
    RepeatedLog& operator=(const RepeatedLog&) = delete;

    /// Logs or counts `line`. Two reasons are the same if they differ only in numbers, such as
    /// addresses and sizes.
    void log(LogLevel level, std::string_view reason, std::string_view line);

    /// True while a counted line is in no summary yet: call look() from time to time.
    [[nodiscard]] bool pending() const noexcept { return pending_ > 0; }

    /// Logs the summary of each reason whose interval has passed.
    void look();

    /// Logs all summaries now.
    void finish();

private:
    struct Entry {
        std::string reason;  ///< numbers replaced; empty: a free entry
        std::string last_line;
        LogLevel level = LogLevel::kWarning;
        uint64_t count = 0;  ///< lines since the last one that was logged
        uint64_t since_ns = 0;
    };

    [[nodiscard]] Entry& entry_of(std::string_view reason);
    void sum_up(Entry& entry, uint64_t now_ns);
    void forget_quiet(uint64_t now_ns);

    const Clock& clock_;
    std::array<Entry, kReasonsMax + 1> entries_;  ///< the last one is for all other reasons
    size_t pending_ = 0;                          ///< entries whose count is not 0
};

}  // namespace weir
