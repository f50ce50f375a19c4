// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/elastic/failover_kills.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include <fmt/core.h>
#include <sys/wait.h>

#include "bench/jobs/elastic/job_at_rest.h"
#include "lib/base/machine/topology.h"

namespace weir::bench {
namespace {

constexpr std::chrono::milliseconds kLookAtServers(5);
constexpr std::chrono::milliseconds kLookForPushes(1);
constexpr uint64_t kStepNsMax = 120 * kSecond;  // for one step

const char* past_of(FailoverFault fault) {
    switch (fault) {
        case FailoverFault::kKill: return "are killed";
        case FailoverFault::kStop: return "stop";
        case FailoverFault::kCut: return "are cut off";
    }
    return "";
}

void sleep_at_most(double seconds, Random& random) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds * random.uniform()));
}

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
            return Error(done.code(), fmt::format("round {} of servers that {}: {}", i + 1,
                                                  past_of(plan_.fault), done.error().text()));
        }
    }
    return until_all_have_copies();
}

Status FailoverKills::round() {
    WEIR_TRY(until_all_have_copies());
    sleep_at_most(plan_.pause_seconds, random_);
    take_victims();
    recovered_ns_.store(0, std::memory_order_relaxed);
    const uint64_t begin_ns = clock_.now_ns();
    WEIR_TRY(fail());
    // A push that began before may have been acknowledged by a victim.
    const uint64_t failed_ns = clock_.now_ns();
    failed_ns_.store(failed_ns, std::memory_order_relaxed);
    const bool heals_by_itself = plan_.heal_ms > 0;
    if (heals_by_itself) {
        sleep_at_most(plan_.heal_ms * 1e-3, random_);
        WEIR_TRY(mend());
    }
    WEIR_TRY(until_recovered());
    // A stop or a cut takes a while, and pushes go on meanwhile.
    const uint64_t since_ns = plan_.fault == FailoverFault::kKill ? begin_ns : failed_ns;
    times_ms_.push_back(
        static_cast<double>(recovered_ns_.load(std::memory_order_relaxed) - since_ns) * 1e-6);
    if (!heals_by_itself) WEIR_TRY(mend());  // they find that the job goes on without them
    for (Server& server : victims_) {
        WEIR_TRY(heals_by_itself ? until_ended_or_back(server) : until_ended(server));
    }
    victims_.clear();
    return {};
}

void FailoverKills::take_victims() {
    for (uint32_t i = 0; i < plan_.at_once; ++i) {
        const size_t victim = random_.below(servers_.size());
        victims_.push_back(std::move(servers_[victim]));
        servers_.erase(servers_.begin() + static_cast<std::ptrdiff_t>(victim));
    }
}

Status FailoverKills::fail() {
    for (const Server& server : victims_) {
        if (plan_.fault == FailoverFault::kKill) {
            server.process.send(SIGKILL);
        } else if (plan_.fault == FailoverFault::kStop) {
            server.process.stop();
        } else {
            std::vector<std::string> words = words_of(plan_.cut);
            words.insert(words.end(), {"cut", fmt::format("{}", server.place)});
            WEIR_TRY(run_command(std::move(words)));
        }
    }
    return {};
}

Status FailoverKills::mend() {
    for (const Server& server : victims_) {
        if (plan_.fault == FailoverFault::kStop) server.process.send(SIGCONT);
        if (plan_.fault != FailoverFault::kCut) continue;
        std::vector<std::string> words = words_of(plan_.cut);
        words.insert(words.end(), {"heal", fmt::format("{}", server.place)});
        WEIR_TRY(run_command(std::move(words)));
    }
    return {};
}

Status FailoverKills::start_server() {
    size_t place = 0;
    while (std::ranges::count(servers_, place, &Server::place) > 0)
        ++place;
    const std::vector<std::string> within =
        plan_.within.empty() ? std::vector<std::string>()
                             : words_of(plan_.within[place % plan_.within.size()]);
    WEIR_ASSIGN(const pid_t pid, start_this_program({"weir", "server", "--join", plan_.contact_file,
                                                     "--shards", fmt::format("{}", plan_.shards)},
                                                    plan_.variables, within));
    servers_.push_back({ChildProcess(pid), place});
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

/// A server that was stopped or cut off must end by itself, with an error: it is out of the job. One that
/// was stopped while it wrote into a worker's memory has been ended by that worker.
Status FailoverKills::ended_as_it_should(int status) const {
    const bool is_killed = WIFSIGNALED(status) != 0 && WTERMSIG(status) == SIGKILL;
    const bool has_failed = WIFEXITED(status) != 0 && WEXITSTATUS(status) != 0;
    const bool is_right = plan_.fault == FailoverFault::kKill   ? is_killed
                          : plan_.fault == FailoverFault::kStop ? is_killed || has_failed
                                                                : has_failed;
    if (is_right) return {};
    return Error(Errc::kIo, fmt::format("the server {}", end_text(status)));
}

Status FailoverKills::until_ended(Server& server) {
    const uint64_t end_ns = clock_.now_ns() + kStepNsMax;
    for (;;) {
        if (const std::optional<int> ended = server.process.ended())
            return ended_as_it_should(*ended);
        if (clock_.now_ns() > end_ns)
            return Error(Errc::kDeadline, "a server that is out of the job does not end");
        std::this_thread::sleep_for(kLookAtServers);
    }
}

/// A server that was cut off for a while has been replaced, and ends, or is a member as before.
Status FailoverKills::until_ended_or_back(Server& server) {
    const size_t wanted = servers_of_start_ + servers_.size() + 1;
    std::optional<int> ended;
    WEIR_TRY(until(
        "a server that was cut off does not end, and is no member", [&](const JobStatus& now) {
            ended = server.process.ended();
            return ended || (now.servers.size() == wanted && is_at_rest(now) &&
                             std::ranges::all_of(now.servers, [](const JobStatus::Server& one) {
                                 return one.silent_ms == 0 && holds_parameters(one);
                             }));
        }));
    if (ended) return ended_as_it_should(*ended);
    ++kept_;
    servers_.push_back(std::move(server));
    return {};
}

template <class Holds>
Status FailoverKills::until(const char* what, Holds&& holds) {
    const uint64_t end_ns = clock_.now_ns() + kStepNsMax;
    while (true) {
        WEIR_ASSIGN(const JobStatus status, connection_.manager->status());
        if (holds(status)) return {};
        for (Server& server : servers_) {
            if (const std::optional<int> ended = server.process.ended())
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
            return now.servers.size() == left && (is_at_rest(now) || left <= now.replicas);
        }));
    }
    return {};
}

}  // namespace weir::bench
