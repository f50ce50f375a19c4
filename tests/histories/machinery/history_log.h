// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What happened in a history: its last events, and counts over all histories.

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "lib/base/clock.h"
#include "lib/base/fnv.h"
#include "lib/base/random.h"

namespace weir::test {

/// What happened last, for people who look for the cause of a failure.
class HistoryEvents {
public:
    explicit HistoryEvents(const Clock& clock) : clock_(clock) {}

    template <class... Args>
    void add(fmt::format_string<Args...> text, Args&&... args) {
        if (last_.size() == 100) last_.pop_front();
        last_.push_back(fmt::format("{} us: {}", clock_.now_ns() / kMicrosecond,
                                    fmt::format(text, std::forward<Args>(args)...)));
        digest_ = mix64(digest_ + fnv1a(last_.back()));
    }

    /// Of all events so far.
    [[nodiscard]] uint64_t digest() const { return digest_; }

    [[nodiscard]] std::string text() const {
        std::string all;
        for (const std::string& event : last_)
            all += event + "\n";
        return all;
    }

private:
    const Clock& clock_;
    std::deque<std::string> last_;
    uint64_t digest_ = 0;
};

/// What happened in all histories, to see that they reach what they are to reach.
struct HistoryCounts {
    uint64_t servers_joined = 0;
    uint64_t servers_left = 0;
    uint64_t joiners_died = 0;
    uint64_t workers_joined = 0;
    uint64_t workers_left = 0;
    uint64_t left_with_calls = 0;  ///< workers that were to leave while they had some open
    uint64_t waiting_calls = 0;    ///< that another call had to end before
    uint64_t workers_died = 0;
    uint64_t views = 0;
    uint64_t breaks = 0;
    uint64_t pauses = 0;
    uint64_t managers_paused = 0;
    uint64_t cuts = 0;  ///< of processes from the manager
    uint64_t managers_killed = 0;
    uint64_t leaders_failed = 0;  ///< managers that led when they were killed, stopped or cut off
    uint64_t leaders_failed_writing =
        0;                          ///< those of them that did so while a checkpoint was written
    uint64_t handovers = 0;         ///< of managers, that were wanted
    uint64_t managers_cut_off = 0;  ///< from other managers
    uint64_t managers_with_servers = 0;  ///< stopped or cut off together with a server
    uint64_t pushes = 0;
    uint64_t given_up = 0;
    uint64_t push_pulls = 0;    ///< of the pushes
    uint64_t calls_of_two = 0;  ///< tables
    uint64_t rounds = 0;
    uint64_t different_arguments = 0;  ///< parts of iterations that failed by them
    uint64_t selected = 0;             ///< pushes and parts of which some keys stayed behind
    uint64_t held_of_rounds = 0;       ///< rows of parts that stayed behind
    uint64_t filtered = 0;             ///< pushes through selectors that come with Weir
    uint64_t held_of_filters = 0;      ///< rows that stayed behind in them, at each
    uint64_t flushes = 0;
    uint64_t flushes_of_rounds = 0;
    uint64_t erasures = 0;      ///< calls, and expiries
    uint64_t functions = 0;     ///< calls of those that change
    uint64_t reductions = 0;    ///< of those that read
    uint64_t narrow_pulls = 0;  ///< of tables of narrow values
    uint64_t throws = 0;        ///< of a rule, which end the job
    uint64_t primaries_checked = 0;

    // Of histories with backups:
    uint64_t servers_killed = 0;
    uint64_t killed_seconds = 0;    ///< while another one had failed
    uint64_t killed_primaries = 0;  ///< those of them that were primary of something
    uint64_t killed_losers = 0;     ///< in the middle of a move
    uint64_t killed_gainers = 0;    ///< the same
    uint64_t killed_learners = 0;   ///< those of them that learned something
    uint64_t killed_teachers = 0;   ///< those that had just reported a copy
    uint64_t killed_parted = 0;     ///< those that did not reach another host
    uint64_t killed_silent = 0;     ///< beside those: servers that were silent
    uint64_t silences = 0;          ///< servers that fell silent
    uint64_t replaced = 0;          ///< those of them that were replaced
    uint64_t managers_stopped = 0;
    uint64_t partings = 0;  ///< of two hosts
    uint64_t failed_parts = 0;
    uint64_t equal_segments = 0;
    uint64_t copies_after_exceptions = 0;  ///< segments of them
};

}  // namespace weir::test
