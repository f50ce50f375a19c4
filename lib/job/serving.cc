// SPDX-License-Identifier: Apache-2.0
#include "lib/job/serving.h"

#include <chrono>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/operator.h"
#include "lib/wire/job_status.h"

namespace weir {
namespace {

constexpr std::chrono::milliseconds kLookForSignals(100);
/// After the end of a process's servers: one of several managers may be needed for longer.
constexpr std::chrono::seconds kLookForManager(5);
/// For a job to end whose workers have left, and which nobody serves to its end.
constexpr std::chrono::seconds kSoon(1);
/// For the manager to tell the others; some may have yet to join.
constexpr std::chrono::seconds kTellOthers(15);
constexpr uint64_t kTellManagerNs = 5 * kSecond;
constexpr uint64_t kAskToLeaveNs = 3 * kSecond;      // then it looks whether there is time left
constexpr uint64_t kAskWhatItHoldsNs = 2 * kSecond;  // there is none
constexpr uint64_t kAskAgainNs = kSecond;            // others may have joined that can take over

/// Whether a server that wants to leave asks again soon: it is still joining, or the manager has not
/// answered, or has too much to answer.
bool may_ask_again(Errc answer) {
    return answer == Errc::kNotFound || answer == Errc::kBusy || answer == Errc::kDeadline ||
           answer == Errc::kPeerLost;
}

}  // namespace

Status Serving::serve(const std::function<bool()>& wants_to_leave,
                      const std::function<bool()>& must_end) {
    Status first;
    was_served_ = true;
    while (!shards_ended_.empty()) {
        take_ended_shards(first);
        if (!first && options_.joiner != 0) return first;
        if (shards_ended_.empty()) break;
        const std::future<Status>& next = shards_ended_.front();
        if (next.wait_for(kLookForSignals) == std::future_status::ready) continue;
        if (must_end && must_end()) return did_not_leave();
        const bool may_ask = !is_decided_ && clock_.now_ns() >= ask_again_ns_;
        if (wants_to_leave && may_ask && wants_to_leave()) ask_to_leave(next);
    }
    return has_manager() ? wait_for_manager(std::move(first), must_end) : first;
}

void Serving::end(uint32_t rank) {
    if (was_served_) return;
    Status first;
    const auto soon = std::chrono::steady_clock::now() + kSoon;
    const auto is_over = [&] {
        take_ended_shards(first);
        return shards_ended_.empty() &&
               (!has_manager() ||
                manager_ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
    };
    while (!is_over()) {
        if (std::chrono::steady_clock::now() < soon) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            continue;
        }
        log(LogLevel::kError,
            "{} ends before the job is over, and its server with it: call Job::serve(), which "
            "waits for the others, before the Job is destroyed",
            options_.joiner == 0 ? fmt::format("rank {}", rank) : "this process");
        Result<std::unique_ptr<transport::Endpoint>> endpoint = devices_.make_endpoint();
        if (!endpoint) return;
        Operator to_manager(*std::move(endpoint), options_.managers, clock_, kTellManagerNs);
        (void)to_manager.end_unserved(options_.first_server, options_.joiner);
        if (has_manager() && options_.managers.size() == 1)
            (void)manager_ended_.wait_for(kTellOthers);
        return;
    }
}

/// `first`: the first error of a shard. Of a server that has joined it is the end: the job does without
/// all of a server of which a shard has ended, and a server that is not in the job yet never will be.
void Serving::take_ended_shards(Status& first) {
    std::erase_if(shards_ended_, [&](std::future<Status>& ended) {
        if (ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
        Status status = ended.get();
        if (first && !status) first = std::move(status);
        return true;
    });
}

/// Other servers learn from this process's manager that the job is over: waits until it has told them.
/// `outcome`: that of the shards.
Status Serving::wait_for_manager(Status outcome, const std::function<bool()>& must_end) {
    managers_.end_of_process();
    if (manager_ended_.wait_for(kLookForManager) != std::future_status::ready) {
        log(outcome ? LogLevel::kInfo : LogLevel::kWarning,
            "{}; the manager in this process stays until the job is over",
            outcome ? "this process has no server any more" : outcome.error().text());
    }
    while (manager_ended_.wait_for(kLookForSignals) != std::future_status::ready) {
        if (must_end && must_end()) return end_before_the_job(std::move(outcome));
    }
    const Status managed = manager_ended_.get();
    return outcome ? managed : outcome;
}

/// `ended`: a shard, which may have ended by now.
void Serving::ask_to_leave(const std::future<Status>& ended) {
    const Status accepted = leave(kAskToLeaveNs);
    const bool is_refused = accepted.code() == Errc::kUnavailable;
    is_decided_ = !is_refused && !may_ask_again(accepted.code());
    ask_again_ns_ = is_refused ? clock_.now_ns() + kAskAgainNs : 0;
    const std::string said =
        std::exchange(why_it_stays_, accepted ? std::string() : accepted.error().message());
    if (accepted) return log(LogLevel::kInfo, "this server hands over what it holds, and ends");
    if (accepted.code() == Errc::kCancelled) {  // all servers are told so
        log(LogLevel::kDebug, "{}", why_it_stays_);
    } else if (accepted.code() == Errc::kDeadline) {  // that took a while
        log(LogLevel::kWarning, "{}; this server asks again", why_it_stays_);
    } else if ((is_decided_ || is_refused) && said != why_it_stays_ &&
               ended.wait_for(kLookForSignals) != std::future_status::ready) {
        log(LogLevel::kWarning, "{}; it serves on{}", why_it_stays_,
            is_refused ? ", and asks again" : "");
    }
}

/// There is no more time.
Error Serving::did_not_leave() {
    std::string text = "this server ends, and has not handed over what it holds";
    if (const std::string holds = what_it_holds(); !holds.empty())
        text += fmt::format(" ({})", holds);
    if (!why_it_stays_.empty()) text += ": " + why_it_stays_;
    if (has_manager() && options_.managers.size() == 1)
        text += "; the job ends with it, because the manager is in this process";
    return {Errc::kDeadline, text};
}

/// Of this process's servers; empty if the manager does not say.
std::string Serving::what_it_holds() {
    Result<std::unique_ptr<transport::Endpoint>> endpoint = devices_.make_endpoint();
    if (!endpoint) return {};
    Operator to_manager(*std::move(endpoint), options_.managers, clock_, kAskWhatItHoldsNs);
    const Result<JobStatus> status = to_manager.status();
    if (!status) return {};
    uint32_t segments = 0;
    double share = 0;
    for (const JobStatus::Server& server : status->servers) {
        const bool is_here = options_.joiner != 0
                                 ? server.joiner == options_.joiner
                                 : server.number - options_.first_server < options_.local_servers;
        if (!is_here) continue;
        for (const JobStatus::Shard& shard : server.shards) {
            segments += shard.segments;
            share += shard.share;
        }
    }
    return fmt::format("{} of {} segments, {:.1f} % of the parameters", segments, status->segments,
                       share * 100);
}

/// This process has no server any more, and no more time for its manager.
Status Serving::end_before_the_job(Status outcome) {
    (void)managers_.hand_over();
    log(LogLevel::kInfo, "this process ends before the job, and with it one of its {} managers",
        options_.managers.size());
    return outcome;
}

Status Serving::leave(uint64_t timeout_ns) {
    if (options_.local_servers != 1) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("this process has {} servers: only a process with one server can "
                                 "leave",
                                 options_.local_servers));
    }
    WEIR_TRY(let_another_lead());
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_.make_endpoint());
    Operator to_manager(std::move(endpoint), options_.managers, clock_, timeout_ns);
    WEIR_TRY(to_manager.leave_by_itself(options_.first_server, options_.joiner));
    managers_.process_leaves();
    return {};
}

Status Serving::give_back_work(Client& client) {
    WEIR_TRY(let_another_lead());
    WEIR_TRY(client.give_back_work());
    managers_.process_leaves();
    return {};
}

/// The manager that leads would take its own signal for the end of the whole job.
Status Serving::let_another_lead() {
    const bool is_being_stopped = options_.is_being_stopped && options_.is_being_stopped();
    Status handed = managers_.hand_over();
    return is_being_stopped ? handed : Status();
}

}  // namespace weir
