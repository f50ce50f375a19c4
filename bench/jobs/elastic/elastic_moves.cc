// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/elastic/elastic_moves.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "bench/jobs/elastic/job_at_rest.h"
#include "lib/base/machine/topology.h"

namespace weir::bench {
namespace {

constexpr std::chrono::milliseconds kLook(5);
constexpr uint64_t kPatienceNs = 120 * kSecond;  // for one join, or one leave

}  // namespace

ElasticMoves::ElasticMoves(ElasticPlan plan, const Config& config)
    : plan_(std::move(plan)), config_(config), thread_([this] {
          outcome_ = run();
          is_over_.store(true, std::memory_order_release);
      }) {}

Status ElasticMoves::run() {
    if (plan_.cpu >= 0) WEIR_TRY(bind_this_thread(std::span(&plan_.cpu, 1)));  // servers inherit it
    WEIR_TRY(connection_.open(plan_.contact_file, config_));
    for (uint32_t i = 0; i < plan_.rounds; ++i) {
        if (Status done = round(); !done) {
            return Error(done.code(), fmt::format("round {} of servers that come and go: {}", i + 1,
                                                  done.error().text()));
        }
    }
    return {};
}

Status ElasticMoves::round() {
    const std::chrono::duration<double> pause(plan_.pause_seconds);
    enter(ElasticPhase::kBefore);
    std::this_thread::sleep_for(pause);
    WEIR_TRY(join());
    enter(ElasticPhase::kBetween);
    std::this_thread::sleep_for(pause);
    WEIR_TRY(leave());
    if (!plan_.kills) return {};
    WEIR_TRY(join());
    enter(ElasticPhase::kBetween);
    std::this_thread::sleep_for(pause);
    return lose();
}

Status ElasticMoves::join() {
    enter(ElasticPhase::kStarts);
    WEIR_ASSIGN(const JobStatus before, connection_.manager->status());
    WEIR_ASSIGN(const pid_t pid, start_this_program({"weir", "server", "--join", plan_.contact_file,
                                                     "--shards", fmt::format("{}", plan_.shards)},
                                                    plan_.variables));
    running_.emplace_back(pid);
    WEIR_TRY(
        until([&](const JobStatus& now) { return now.servers.size() > before.servers.size(); }));
    enter(ElasticPhase::kJoins);
    const uint64_t begin_ns = clock_.now_ns();
    WEIR_TRY(until([&](const JobStatus& now) {
        return is_at_rest(now) && std::ranges::all_of(now.servers, holds_parameters);
    }));
    joins_.push_back(static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9);
    return {};
}

Status ElasticMoves::leave() {
    WEIR_ASSIGN(const JobStatus before, connection_.manager->status());
    const uint32_t oldest = before.servers.front().number;
    enter(ElasticPhase::kLeaves);
    const uint64_t begin_ns = clock_.now_ns();
    WEIR_TRY(connection_.manager->leave(oldest));
    WEIR_TRY(until([&](const JobStatus& now) {
        return is_at_rest(now) && now.servers.front().number != oldest;
    }));
    leaves_.push_back(static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9);
    enter(ElasticPhase::kStarts);
    // The servers of the job's start have no process of their own to wait for here.
    const size_t left = before.servers.size() - 1;
    return until([&](const JobStatus&) { return running_.size() <= left; });
}

Status ElasticMoves::lose() {
    WEIR_ASSIGN(const JobStatus before, connection_.manager->status());
    const size_t left = before.servers.size() - 1;
    enter(ElasticPhase::kLost);
    const uint64_t begin_ns = clock_.now_ns();
    running_.pop_back();  // kills it
    WEIR_TRY(
        until([&](const JobStatus& now) { return is_at_rest(now) && now.servers.size() == left; }));
    losses_.push_back(static_cast<double>(clock_.now_ns() - begin_ns) * 1e-9);
    return {};
}

template <class Holds>
Status ElasticMoves::until(Holds&& holds) {
    const uint64_t end_ns = clock_.now_ns() + kPatienceNs;
    while (true) {
        WEIR_ASSIGN(const JobStatus status, connection_.manager->status());
        if (holds(status)) return {};
        WEIR_TRY(look_at_servers());
        if (is_cancelled_.load(std::memory_order_relaxed))
            return Error(Errc::kCancelled, "the load has ended");
        if (clock_.now_ns() > end_ns)
            return Error(Errc::kDeadline, "the servers have not come to rest for two minutes");
        std::this_thread::sleep_for(kLook);
    }
}

/// Processes that have ended must have done so without an error.
Status ElasticMoves::look_at_servers() {
    for (size_t i = 0; i < running_.size();) {
        const std::optional<int> ended = running_[i].ended();
        if (ended && *ended != 0)
            return Error(Errc::kIo, fmt::format("a server that joined {}", end_text(*ended)));
        if (ended) {
            running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
            ++i;
        }
    }
    return {};
}

Status ElasticMoves::wait_for_servers() {
    const uint64_t end_ns = clock_.now_ns() + kPatienceNs;
    while (!running_.empty()) {
        WEIR_TRY(look_at_servers());
        if (clock_.now_ns() > end_ns)
            return Error(Errc::kDeadline, "a server that joined does not end with the job");
        std::this_thread::sleep_for(kLook);
    }
    return {};
}

}  // namespace weir::bench
