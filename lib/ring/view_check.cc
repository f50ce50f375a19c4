// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/view_check.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <unordered_map>

#include "lib/ring/view_error.h"

namespace weir {
namespace {

/// The server of each shard, by number.
using ServerOf = std::unordered_map<uint32_t, uint32_t>;

template <class Entry>
Status check_list(uint64_t epoch, const std::vector<Entry>& entries, size_t count_max,
                  std::string_view what) {
    if (entries.size() > count_max) {
        return wrong_view(epoch, "{} {}s; the most is {}", entries.size(), what, count_max);
    }
    for (size_t i = 1; i < entries.size(); ++i) {
        if (view_key(entries[i - 1]) >= view_key(entries[i])) {
            return wrong_view(epoch, "{} {} after {}: they are not in ascending order", what,
                              view_key(entries[i]), view_key(entries[i - 1]));
        }
    }
    return {};
}

/// `entries` are in ascending order.
template <class Entry>
Status check_next(uint64_t epoch, const std::vector<Entry>& entries, uint64_t next,
                  std::string_view what) {
    if (entries.empty() || view_key(entries.back()) < next) return {};
    return wrong_view(epoch, "{} {} is listed, but the next {} is to have number {}", what,
                      view_key(entries.back()), what, next);
}

Status check_servers(const ViewData& view, ServerOf& server_of) {
    WEIR_TRY(check_list(view.epoch, view.servers, ViewLimits::kServersMax, "server"));
    WEIR_TRY(check_next(view.epoch, view.servers, view.next_server, "server"));
    WEIR_TRY(check_list(view.epoch, view.shards, ViewLimits::kShardsMax, "shard"));
    WEIR_TRY(check_next(view.epoch, view.shards, view.next_shard, "shard"));
    std::unordered_map<uint32_t, bool> has_shard;
    for (const ViewServer& server : view.servers) {
        if (server.weight == 0)
            return wrong_view(view.epoch, "server {} has weight 0", server.number);
        has_shard[server.number] = false;
    }
    for (const ViewShard& shard : view.shards) {
        const auto at = has_shard.find(shard.server);
        if (at == has_shard.end()) {
            return wrong_view(view.epoch, "shard {} is of server {}, which is not listed",
                              shard.number, shard.server);
        }
        at->second = true;
        if (shard.since > view.epoch) {
            return wrong_view(view.epoch, "shard {} is as it is since epoch {}, which is to come",
                              shard.number, shard.since);
        }
        if (shard.address.size() > ViewLimits::kAddressBytesMax) {
            return wrong_view(view.epoch, "shard {} has an address of {} bytes; the most is {}",
                              shard.number, shard.address.size(), ViewLimits::kAddressBytesMax);
        }
        server_of[shard.number] = shard.server;
    }
    for (const ViewServer& server : view.servers) {
        if (!has_shard[server.number]) {
            return wrong_view(view.epoch, "server {} has no shard", server.number);
        }
    }
    return {};
}

Status check_workers(const ViewData& view) {
    WEIR_TRY(check_list(view.epoch, view.workers, ViewLimits::kWorkersMax, "worker"));
    WEIR_TRY(check_next(view.epoch, view.workers, view.next_worker, "worker"));
    WEIR_TRY(check_list(view.epoch, view.members, ViewLimits::kMembersMax, "member"));
    for (const ViewWorker& worker : view.workers) {
        if (worker.first_iteration != 1 && worker.first_iteration != kNoIteration) {
            return wrong_view(view.epoch, "worker {} takes part in new tables from iteration {}",
                              worker.number, worker.first_iteration);
        }
    }
    size_t at = 0;
    for (const ViewMember& member : view.members) {
        while (at < view.workers.size() && view.workers[at].number < member.worker)
            ++at;
        if (at == view.workers.size() || view.workers[at].number != member.worker) {
            return wrong_view(view.epoch, "worker {} is a member of table {}, but is not listed",
                              member.worker, member.table);
        }
        if (member.first_iteration == 0) {
            return wrong_view(view.epoch, "worker {} is a member of table {} from iteration 0",
                              member.worker, member.table);
        }
    }
    return {};
}

Status check_withdrawals(const ViewData& view) {
    WEIR_TRY(check_list(view.epoch, view.withdrawals, ViewLimits::kWithdrawalsMax, "withdrawal"));
    for (const ViewWithdrawal& withdrawal : view.withdrawals) {
        const bool is_listed =
            std::ranges::binary_search(view.workers, withdrawal.worker, {}, &ViewWorker::number);
        if (is_listed || withdrawal.worker >= view.next_worker) {
            return wrong_view(view.epoch, "worker {} has withdrawn iterations, but has not left",
                              withdrawal.worker);
        }
        if (withdrawal.first_iteration == 0 ||
            withdrawal.first_iteration > withdrawal.last_iteration) {
            return wrong_view(view.epoch, "worker {} has withdrawn iterations {} to {} of table {}",
                              withdrawal.worker, withdrawal.first_iteration,
                              withdrawal.last_iteration, withdrawal.table);
        }
    }
    return {};
}

/// The copies of one segment and its learner.
Status check_copies(const ViewData& view, const ViewSegment& segment, const ServerOf& server_of) {
    const size_t backups = segment.backup_count();
    const auto beyond = std::span(segment.backups).subspan(backups);
    if (std::ranges::any_of(beyond, [](uint32_t b) { return b != kNoShard; })) {
        return wrong_view(view.epoch, "segment {:#x} has a gap in its backups", segment.first);
    }
    if (segment.primary == kNoShard) {
        if (backups == 0 && segment.learner == ViewLearner{}) return {};
        return wrong_view(view.epoch, "segment {:#x} has no primary, but a copy or learner",
                          segment.first);
    }
    std::array<uint32_t, ViewLimits::kBackupsMax + 1> holders{segment.primary};
    std::copy_n(segment.backups.begin(), backups, holders.begin() + 1);
    std::array<uint32_t, ViewLimits::kBackupsMax + 1> servers{};
    for (size_t i = 0; i <= backups; ++i) {
        const auto at = server_of.find(holders[i]);
        if (at == server_of.end()) {
            return wrong_view(view.epoch, "segment {:#x} is held by shard {}, which is not listed",
                              segment.first, holders[i]);
        }
        servers[i] = at->second;
        if (std::find(servers.begin(), servers.begin() + i, servers[i]) != servers.begin() + i) {
            return wrong_view(view.epoch, "segment {:#x} has two copies on server {}",
                              segment.first, servers[i]);
        }
    }
    const ViewLearner& learner = segment.learner;
    if (!segment.has_learner()) {
        if (learner == ViewLearner{}) return {};
        return wrong_view(view.epoch, "segment {:#x} has half a learner", segment.first);
    }
    const auto at = server_of.find(learner.shard);
    if (at == server_of.end()) {
        return wrong_view(view.epoch, "segment {:#x} is learned by shard {}, which is not listed",
                          segment.first, learner.shard);
    }
    if (learner.named > view.epoch) {
        return wrong_view(view.epoch, "segment {:#x} has a learner of epoch {}, which is to come",
                          segment.first, learner.named);
    }
    bool replaces_one = false;
    for (size_t i = 0; i <= backups; ++i) {
        const bool replaced = holders[i] == learner.replaces;
        replaces_one |= replaced;
        if (holders[i] == learner.shard || (servers[i] == at->second && !replaced)) {
            return wrong_view(view.epoch, "segment {:#x} is learned by server {}, which has a copy",
                              segment.first, at->second);
        }
    }
    if (replaces_one) return {};
    if (learner.replaces != kNoShard || backups == ViewLimits::kBackupsMax) {
        return wrong_view(view.epoch,
                          "segment {:#x} has a learner that replaces a shard without a copy",
                          segment.first);
    }
    return {};
}

}  // namespace

Status check_view(const ViewData& view) {
    ServerOf server_of;
    WEIR_TRY(check_servers(view, server_of));
    WEIR_TRY(check_workers(view));
    WEIR_TRY(check_withdrawals(view));
    WEIR_TRY(check_list(view.epoch, view.segments, ViewLimits::kSegmentsMax, "segment"));
    if (view.segments.empty() || view.segments.front().first != 0) {
        return wrong_view(view.epoch, "the segments do not begin at position 0");
    }
    for (const ViewSegment& segment : view.segments)
        WEIR_TRY(check_copies(view, segment, server_of));
    return {};
}

}  // namespace weir
