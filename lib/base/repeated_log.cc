// SPDX-License-Identifier: Apache-2.0
#include "lib/base/repeated_log.h"

#include <algorithm>
#include <span>

namespace weir {
namespace {

bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}

/// `text` with '#' for each number.
std::string without_numbers(std::string_view text) {
    std::string folded;
    for (const char c : text.substr(0, RepeatedLog::kReasonBytesMax)) {
        if (!is_digit(c)) {
            folded += c;
        } else if (!folded.ends_with('#')) {
            folded += '#';
        }
    }
    return folded.empty() ? "?" : folded;  // an empty reason would mean a free entry
}

/// 1234567 as "1,234,567".
std::string grouped(uint64_t number) {
    const std::string digits = fmt::format("{}", number);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

}  // namespace

void RepeatedLog::log(LogLevel level, std::string_view reason, std::string_view line) {
    if (!log_enabled(level)) return;
    const uint64_t now_ns = clock_.now_ns();
    forget_quiet(now_ns);
    const std::string folded = without_numbers(reason);
    Entry& entry = entry_of(folded);
    if (entry.reason.empty()) {
        entry.reason = folded;
        entry.since_ns = now_ns;
        return log_line(level, line);
    }
    if (++entry.count == 1) ++pending_;
    entry.level = std::max(entry.count == 1 ? level : entry.level, level);
    entry.last_line = line.substr(0, kLineBytesMax);
}

RepeatedLog::Entry& RepeatedLog::entry_of(std::string_view reason) {
    const auto reasons = std::span(entries_).first(kReasonsMax);
    const auto place = [&](std::string_view wanted) {
        return std::find_if(reasons.begin(), reasons.end(),
                            [&](const Entry& e) { return e.reason == wanted; });
    };
    if (const auto known = place(reason); known != reasons.end()) return *known;
    if (const auto free = place(""); free != reasons.end()) return *free;
    return entries_.back();
}

void RepeatedLog::look() {
    if (pending()) forget_quiet(clock_.now_ns());
}

void RepeatedLog::forget_quiet(uint64_t now_ns) {
    for (Entry& entry : entries_) {
        if (entry.reason.empty() || now_ns - entry.since_ns < kIntervalNs) continue;
        if (entry.count > 0) {
            sum_up(entry, now_ns);
        } else {
            entry.reason.clear();  // the next line of this reason is logged at once
        }
    }
}

void RepeatedLog::sum_up(Entry& entry, uint64_t now_ns) {
    const uint64_t seconds = (now_ns - entry.since_ns + kSecond / 2) / kSecond;
    const bool others = &entry == &entries_.back();
    log_line(entry.level,
             fmt::format("{} more {} in the last {} s; the last one: {}", grouped(entry.count),
                         others ? "of other kinds" : "like this", seconds, entry.last_line));
    entry.count = 0;
    entry.since_ns = now_ns;
    --pending_;
}

void RepeatedLog::finish() {
    const uint64_t now_ns = clock_.now_ns();
    for (Entry& entry : entries_) {
        if (entry.count > 0) sum_up(entry, now_ns);
        entry.reason.clear();
    }
}

}  // namespace weir
