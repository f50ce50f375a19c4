// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/join_queue.h"

#include <algorithm>

#include <fmt/core.h>

#include "lib/ring/moves.h"

namespace weir {

Status JoinQueue::add_server(const View& view, uint64_t ticket, const NewServer& server) {
    if (has_ticket(ticket))
        return Error(Errc::kAlreadyExists, "this server has asked to join already");
    for (const std::string& address : server.addresses) {
        const auto same = std::ranges::count(server.addresses, address);
        if (same == 1 && !is_address_taken(view, address)) continue;
        return Error(Errc::kAlreadyExists,
                     fmt::format("a shard of this job has the address {} already", address));
    }
    const Result<View> with = with_server(view, server);
    if (!with) return with.error();
    servers_.push_back({ticket, server});
    return {};
}

Status JoinQueue::add_worker(const View& view, size_t table_count, uint64_t ticket,
                             const NewWorker& worker) {
    if (has_ticket(ticket))
        return Error(Errc::kAlreadyExists, "this worker has asked to join already");
    const size_t joiners = workers_.size() + 1;
    if (view.workers().size() + joiners > ViewLimits::kWorkersMax ||
        joiners >= size_t{kNoShard} - view.data().next_worker) {
        return Error(Errc::kBusy,
                     fmt::format("the job has {} workers, {} more are joining, and {} numbers were "
                                 "given out: no more can join",
                                 view.workers().size(), joiners - 1, view.data().next_worker));
    }
    if (view.data().members.size() + joiners * table_count > ViewLimits::kMembersMax) {
        return Error(Errc::kBusy,
                     fmt::format("there are {} memberships of workers in tables; another worker in "
                                 "{} tables would be more than {}",
                                 view.data().members.size(), table_count, ViewLimits::kMembersMax));
    }
    workers_.push_back({ticket, worker});
    return {};
}

void JoinQueue::withdraw(uint64_t ticket) {
    std::erase_if(servers_, [&](const Server& join) { return join.ticket == ticket; });
    std::erase_if(workers_, [&](const Worker& join) { return join.ticket == ticket; });
}

bool JoinQueue::wants_iterations() const {
    return std::ranges::any_of(workers_,
                               [](const Worker& join) { return join.worker.has_iterations; });
}

bool JoinQueue::has_ticket(uint64_t ticket) const {
    const auto is_same = [&](const auto& join) { return join.ticket == ticket; };
    return std::ranges::any_of(servers_, is_same) || std::ranges::any_of(workers_, is_same);
}

bool JoinQueue::is_address_taken(const View& view, const std::string& address) const {
    return std::ranges::any_of(view.shards(),
                               [&](const ViewShard& shard) { return shard.address == address; }) ||
           std::ranges::any_of(servers_, [&](const Server& join) {
               return std::ranges::find(join.server.addresses, address) !=
                      join.server.addresses.end();
           });
}

}  // namespace weir
