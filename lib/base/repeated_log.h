// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RepeatedLog: lines that anybody can cause as often as he likes. The first line of a reason is
/// logged at once; those that follow soon are counted, and a line from time to time says how many.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/log.h"

namespace weir {

/// Memory is bounded: reasons beyond the first few are counted together. Thread: one.
class RepeatedLog {
public:
    static constexpr uint64_t kIntervalNs = 60 * kSecond;
    static constexpr size_t kReasonsMax = 32;       ///< one more stands for all others
    static constexpr size_t kReasonBytesMax = 160;  ///< what two longer ones have in common is one
    static constexpr size_t kLineBytesMax = 600;    ///< of the last line, which a sum repeats

    /// `clock` must outlive it.
    explicit RepeatedLog(const Clock& clock) noexcept : clock_(clock) {}

    /// Logs what is still counted.
    ~RepeatedLog() { finish(); }

    RepeatedLog(const RepeatedLog&) = delete;
    RepeatedLog& operator=(const RepeatedLog&) = delete;

    /// Logs or counts `line`. Lines are of one reason if `reason` is the same but for numbers:
    /// addresses and sizes do not make it another one.
    void log(LogLevel level, std::string_view reason, std::string_view line);

    /// Something is counted that was not logged: call look() from time to time.
    [[nodiscard]] bool pending() const noexcept { return pending_ > 0; }

    /// Logs the sums of which an interval is over.
    void look();

    /// Logs all sums, now.
    void finish();

private:
    struct Entry {
        std::string reason;  ///< numbers replaced; empty: a free place
        std::string last_line;
        LogLevel level = LogLevel::kWarning;
        uint64_t count = 0;  ///< since its last line
        uint64_t since_ns = 0;
    };

    [[nodiscard]] Entry& entry_of(std::string_view reason);
    void sum_up(Entry& entry, uint64_t now_ns);
    void forget_quiet(uint64_t now_ns);

    const Clock& clock_;
    std::array<Entry, kReasonsMax + 1> entries_;  ///< the last one: all others
    size_t pending_ = 0;                          ///< entries with a count
};

}  // namespace weir
