// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Shared by the micro-benchmarks: run_beside() does Weir's work and the limit's by turns, and
/// reports both rates and Weir's share of the limit.

#include <ctime>
#include <memory>
#include <tuple>

#include <benchmark/benchmark.h>

namespace weir::bench {

/// The CPU time of this thread in work(), which other programs disturb less than elapsed time.
template <class Work>
double cpu_seconds(Work&& work) {
    const auto now_s = [] {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
    };
    const double begin_s = now_s();
    work();
    return now_s() - begin_s;
}

namespace detail {

inline std::shared_ptr<void>& last_subject() {
    static std::shared_ptr<void> last;
    return last;
}

}  // namespace detail

/// Runs `ours` and `limit` by turns; each does `units` units of work. The time of an iteration is
/// that of `ours`. Counters: the units per second of both, and the speed of `ours` as a share of
/// the limit's (1 is the best). Register the benchmark with UseManualTime().
template <class Ours, class Limit>
void run_beside(benchmark::State& state, double units, Ours&& ours, Limit&& limit) {
    double ours_s = 0;
    double limit_s = 0;
    for ([[maybe_unused]] auto _ : state) {
        const double now_s = cpu_seconds(ours);
        state.SetIterationTime(now_s);
        ours_s += now_s;
        limit_s += cpu_seconds(limit);
    }
    const double all = units * static_cast<double>(state.iterations());
    state.counters["ours_per_s"] = all / ours_s;
    state.counters["limit_per_s"] = all / limit_s;
    state.counters["share"] = limit_s / ours_s;
}

/// Returns the subject of a benchmark, which is kept for its repetitions. If the last call was
/// for another type or other arguments, it frees that subject first and then makes a new one.
template <class Subject, class... Arguments>
Subject& prepared(Arguments... arguments) {
    static std::weak_ptr<Subject> made;
    static std::tuple<Arguments...> made_from;
    if (made.expired() || made_from != std::tuple(arguments...)) {
        detail::last_subject().reset();
        const auto subject = std::make_shared<Subject>(arguments...);
        detail::last_subject() = subject;
        made = subject;
        made_from = std::tuple(arguments...);
    }
    return *made.lock();
}

}  // namespace weir::bench
