// SPDX-License-Identifier: Apache-2.0
/// \file
/// Servers that are out of reach. Silence proves nothing: a silent server may be stopped, or cut off,
/// and may go on later. But it answers nobody once its lease has ended (lease_line.h). From then on the
/// servers that have copies of what it holds may take over. Who has the last copy is waited for, and
/// given up only when the job could not go on anyhow.

#include <algorithm>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/manager/manager.h"
#include "lib/node/lease_line.h"
#include "lib/node/manager_link.h"

namespace weir {
namespace {

constexpr uint64_t kLooksPerLease = 16;
/// Between two questions for first iterations of which the first one was given up, in leases.
constexpr uint64_t kLeasesBetweenQuestions = 10;

}  // namespace

/// All that has come has been read. A manager that has not looked for a while starts to count anew:
/// whom it did not hear meanwhile need not have been silent.
void Manager::look_for_silence(uint64_t now_ns) {
    if (now_ns < next_look_ns_) return;
    next_look_ns_ = now_ns + options_.lease_ns / kLooksPerLease;
    const std::map<uint32_t, uint64_t> silent = silent_servers(now_ns);
    std::erase_if(silent_, [&](uint32_t server) {
        if (silent.contains(server)) return false;
        log(LogLevel::kInfo, "server {} can be reached again", server);
        return true;
    });
    std::set<uint32_t> numbers;  // no copy of theirs counts
    for (const auto& [server, silent_ns] : silent)
        numbers.insert(server);
    for (const auto& [server, process] : fenced_)
        numbers.insert(server);
    for (const auto& [server, silent_ns] : silent) {
        if (loss_ || membership_->view().server(server) == nullptr) continue;
        judge_silent(server, silent_ns, numbers);
    }
}

/// Where a worker that joins takes part from, all shards have to say, and from then on until the view that
/// has it is here they close no further iteration: training stands if one of them cannot answer, or does
/// not get that view. So they are asked when all have been heard of since the worker is here, and after
/// a lease the question is given up for a while.
void Manager::look_at_question(uint64_t now_ns) {
    if (!membership_->has_joining_workers()) {
        wanted_since_ns_.reset();
        asking_since_ns_.reset();
        return;
    }
    if (!wanted_since_ns_) wanted_since_ns_ = now_ns;
    if (!membership_->is_asking()) {
        asking_since_ns_.reset();
    } else if (!asking_since_ns_) {
        asking_since_ns_ = now_ns;
    } else if (now_ns - *asking_since_ns_ > options_.lease_ns) {
        wanted_since_ns_ = now_ns + kLeasesBetweenQuestions * options_.lease_ns;
        refusals_.log(
            LogLevel::kWarning, "question",
            fmt::format("a worker that asks to join waits: not all servers have said within "
                        "{} ms (WEIR_LEASE_MS) from which iteration on; the others train on",
                        options_.lease_ns / kMillisecond));
    }
    const bool may_ask =
        now_ns >= *wanted_since_ns_ && (asking_since_ns_ || were_shards_heard(*wanted_since_ns_));
    if (membership_->allow_questions(may_ask)) has_news_ = true;
}

/// Those of processes that ask for leases; of others, nothing is heard at rest.
bool Manager::were_shards_heard(uint64_t since_ns) const {
    return std::ranges::all_of(shards_, [&](const auto& entry) {
        const Shard& shard = entry.second;
        const bool is_heard = endpoint_->lease_end_ns(shard.process) == 0 ||
                              endpoint_->heard_ns(shard.process) >= since_ns;
        return is_heard && endpoint_->is_connected(shard.connection);
    });
}

/// By number, and for how long nothing was heard of them.
std::map<uint32_t, uint64_t> Manager::silent_servers(uint64_t now_ns) const {
    std::map<uint32_t, uint64_t> silent;
    for (const auto& [number, shard] : shards_) {
        const uint64_t heard_ns = endpoint_->heard_ns(shard.process);
        const uint64_t from_ns = std::max(heard_ns, awake_since_ns_);
        if (from_ns >= now_ns || now_ns - from_ns <= lease_of_manager_ns(options_.lease_ns))
            continue;
        silent[shard.server] = now_ns - heard_ns;
    }
    return silent;
}

void Manager::judge_silent(uint32_t server, uint64_t silent_ns, const std::set<uint32_t>& silent) {
    const std::string name = name_of_server(server);
    const bool may_go = membership_->may_put_out(server, silent);
    if (!may_go && silent_ns < ManagerLink::kGiveUpNs) {
        if (!silent_.insert(server).second) return;
        log(LogLevel::kWarning,
            "{} is out of reach for {} ms; nobody who can be reached has copies of all that it "
            "holds, so it is waited for, for {} s",
            name, silent_ns / kMillisecond, ManagerLink::kGiveUpNs / kSecond);
        return;
    }
    const std::string text =
        may_go ? fmt::format(
                     "{} is out of reach for {} ms (WEIR_LEASE_MS is {}), and the job goes "
                     "on without it",
                     name, silent_ns / kMillisecond, options_.lease_ns / kMillisecond)
               : fmt::format("{} is out of reach for {} s and counts as lost", name,
                             silent_ns / kSecond);
    log(LogLevel::kWarning, "{}", text);
    std::vector<ConnectionId> connections;
    for (const auto& [number, shard] : shards_) {
        if (shard.server == server) connections.push_back(shard.connection);
    }
    remove_server(server, Error(Errc::kPeerLost, text));
    for (const ConnectionId connection : connections)
        endpoint_->close(connection);
}

/// Servers that were removed while they might still answer: until their lease ends, or, if that is sooner,
/// the end of their process is proved.
void Manager::give_up_fenced(uint64_t now_ns) {
    std::erase_if(fenced_, [&](const auto& entry) {
        if (now_ns <= endpoint_->lease_end_ns(entry.second)) return false;
        membership_->server_died(entry.first);
        has_news_ = true;
        return true;
    });
}

std::string Manager::name_of_server(uint32_t server) const {
    const ViewServer* const is = membership_->view().server(server);
    return is != nullptr ? fmt::format("server {} (rank {})", server, is->rank)
                         : fmt::format("server {}", server);
}

}  // namespace weir
