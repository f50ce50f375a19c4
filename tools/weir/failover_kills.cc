// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/failover_kills.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include <fmt/core.h>
#include <sys/wait.h>

#include "lib/base/topology.h"
#include "tools/weir/job_at_rest.h"

namespace weir::tools {
namespace {

constexpr std::chrono::milliseconds kLookAtServers(5);
constexpr std::chrono::milliseconds kLookForPushes(1);
constexpr uint64_t kStepNsMax = 120 * kSecond;  // for one step

}  // namespace

FailoverKills::FailoverKills(FailoverPlan plan, const Config& config)
    : plan_(std::move(plan)), config_(config), random_(plan_.seed), thread_([this] {
          outcome_ = run();
          is_over_.store(true, std::memory_order_release);
      }) {}

Status FailoverKills::run() {
    if (plan_.cpu >= 0) WEIR_TRY(bind_this_thread(std::span(&plan_.cpu, 1)));  // servers inherit it
    WEIR_TRY(connection_.open(plan_.contact_file, config_));
    WEIR_ASSIGN(const JobStatus status, connection_.manager->status());
    servers_of_start_ = status.servers.size();
    for (uint32_t i = 0; i < plan_.rounds; ++i) {
        if (Status done = round(); !done) {
            return Error(done.code(),
                         fmt::format("round {} of servers that {}: {}", i + 1,
                                     plan_.stops ? "stop" : "are killed", done.error().text()));
        }
    }
    return until_all_have_copies();
}

Status FailoverKills::round() {
    WEIR_TRY(until_all_have_copies());
    const std::chrono::duration<double> pause(plan_.pause_seconds * random_.uniform());
    std::this_thread::sleep_for(pause);
    const size_t victim = random_.below(servers_.size());
    ChildProcess server = std::move(servers_[victim]);
    servers_.erase(servers_.begin() + static_cast<std::ptrdiff_t>(victim));
    recovered_ns_.store(0, std::memory_order_relaxed);
    const uint64_t now_ns = clock_.now_ns();
    server.send(plan_.stops ? SIGSTOP : SIGKILL);
    failed_ns_.store(now_ns, std::memory_order_relaxed);
    WEIR_TRY(until_recovered());
    times_ms_.push_back(
        static_cast<double>(recovered_ns_.load(std::memory_order_relaxed) - now_ns) * 1e-6);
    if (plan_.stops) server.send(SIGCONT);  // it finds that the job goes on without it
    return until_ended(server);
}

Status FailoverKills::start_server() {
    WEIR_ASSIGN(const pid_t pid, start_this_program({"weir", "server", "--join", plan_.contact_file,
                                                     "--shards", fmt::format("{}", plan_.shards)},
                                                    plan_.variables));
    servers_.emplace_back(pid);
    return {};
}

Status FailoverKills::until_all_have_copies() {
    while (servers_.size() < plan_.servers)
        WEIR_TRY(start_server());
    const size_t wanted = servers_of_start_ + servers_.size();
    return until("the servers have not come to rest", [&](const JobStatus& now) {
        return now.servers.size() == wanted && is_at_rest(now) &&
               std::ranges::all_of(now.servers, holds_parameters);
    });
}

Status FailoverKills::until_recovered() {
    const uint64_t end_ns = clock_.now_ns() + kStepNsMax;
    while (recovered_ns_.load(std::memory_order_relaxed) == 0) {
        if (is_cancelled_.load(std::memory_order_relaxed))
            return Error(Errc::kCancelled, "the load has ended");
        if (clock_.now_ns() > end_ns)
            return Error(Errc::kDeadline, "no push to all servers was acknowledged since");
        std::this_thread::sleep_for(kLookForPushes);
    }
    return {};
}

/// A server that was stopped must end by itself, with an error: it is out of the job.
Status FailoverKills::until_ended(ChildProcess& server) {
    const uint64_t end_ns = clock_.now_ns() + kStepNsMax;
    for (;;) {
        if (const std::optional<int> ended = server.ended()) {
            const bool is_right =
                plan_.stops ? WIFEXITED(*ended) && WEXITSTATUS(*ended) != 0 : WIFSIGNALED(*ended);
            if (is_right) return {};
            return Error(Errc::kIo, fmt::format("the server {}", end_text(*ended)));
        }
        if (clock_.now_ns() > end_ns)
            return Error(Errc::kDeadline, "the server that was stopped does not end");
        std::this_thread::sleep_for(kLookAtServers);
    }
}

template <class Holds>
Status FailoverKills::until(const char* what, Holds&& holds) {
    const uint64_t end_ns = clock_.now_ns() + kStepNsMax;
    while (true) {
        WEIR_ASSIGN(const JobStatus status, connection_.manager->status());
        if (holds(status)) return {};
        for (ChildProcess& server : servers_) {
            if (const std::optional<int> ended = server.ended())
                return Error(Errc::kIo, fmt::format("a server that joined {}", end_text(*ended)));
        }
        if (is_cancelled_.load(std::memory_order_relaxed))
            return Error(Errc::kCancelled, "the load has ended");
        if (clock_.now_ns() > end_ns)
            return Error(Errc::kDeadline, fmt::format("{} for two minutes", what));
        std::this_thread::sleep_for(kLookAtServers);
    }
}

Status FailoverKills::kill_the_rest() {
    while (!servers_.empty()) {
        const size_t left = servers_of_start_ + servers_.size() - 1;
        servers_.pop_back();  // kills it
        WEIR_TRY(until("what a server held has no copies", [&](const JobStatus& now) {
            return now.servers.size() == left && (is_at_rest(now) || left == 1);
        }));
    }
    return {};
}

}  // namespace weir::tools
