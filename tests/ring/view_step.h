// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// check_view_step: the rules from one view to the next.

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "lib/ring/view_data.h"
#include "lib/ring/view_error.h"

namespace weir::testing {

/// Who is in `after` and was not in `before` has a number that was free.
template <class Entry>
Status check_numbers(const ViewData& after, const std::vector<Entry>& old_entries,
                     const std::vector<Entry>& entries, uint64_t old_next, uint64_t next,
                     std::string_view what) {
    if (next < old_next) {
        return wrong_view(after.epoch, "the next {}'s number went down from {} to {}", what,
                          old_next, next);
    }
    for (const Entry& entry : entries) {
        const uint64_t key = view_key(entry);
        if (key >= old_next) continue;
        const auto at =
            std::lower_bound(old_entries.begin(), old_entries.end(), key,
                             [](const Entry& e, uint64_t k) { return view_key(e) < k; });
        if (at == old_entries.end() || view_key(*at) != key) {
            return wrong_view(after.epoch, "the number of {} {} is used twice", what, key);
        }
    }
    return {};
}

/// Follows both rings, and notes who loses and who gets primary roles.
class ViewStep {
public:
    ViewStep(const ViewData& before, const ViewData& after) : before_(before), after_(after) {
        for (const ViewShard& shard : after.shards)
            server_of_[shard.number] = shard.server;
    }

    Status check() {
        size_t old = 0;
        for (const ViewSegment& segment : after_.segments) {
            const bool has_next = old + 1 < before_.segments.size();
            if (has_next && before_.segments[old + 1].first < segment.first) break;
            if (has_next && before_.segments[old + 1].first == segment.first) ++old;
            WEIR_TRY(check_segment(before_.segments[old], segment));
        }
        if (old + 1 < before_.segments.size()) {
            return wrong_view(after_.epoch, "segment {:#x} is joined to the one before",
                              before_.segments[old + 1].first);
        }
        for (const uint32_t server : losers_) {
            if (gainers_.contains(server)) {
                return wrong_view(after_.epoch, "server {} loses a primary role and gets one",
                                  server);
            }
        }
        return check_since();
    }

private:
    Status check_segment(const ViewSegment& was, const ViewSegment& is) {
        if (is.first != was.first && was.has_learner()) {
            return wrong_view(after_.epoch, "segment {:#x} is cut while it has a learner",
                              was.first);
        }
        const bool has_new_primary = is.primary != was.primary;
        if (has_new_primary) {
            changed_.insert(was.primary);
            changed_.insert(is.primary);
            if (const auto at = server_of_.find(was.primary); at != server_of_.end()) {
                losers_.insert(at->second);
            }
            if (const auto at = server_of_.find(is.primary); at != server_of_.end()) {
                gainers_.insert(at->second);
            }
            const bool had_a_copy =
                was.primary == kNoShard || is.primary == kNoShard ||
                std::find(was.backups.begin(), was.backups.end(), is.primary) !=
                    was.backups.end() ||
                (was.learner.shard == is.primary && was.learner.replaces == was.primary);
            if (!had_a_copy) {
                return wrong_view(after_.epoch, "segment {:#x} goes to shard {}, which has no copy",
                                  is.first, is.primary);
            }
        }
        const bool is_new_learner = has_new_primary || is.learner != was.learner;
        if (is.has_learner() && is_new_learner && is.learner.named != after_.epoch) {
            return wrong_view(after_.epoch, "segment {:#x} has a new learner of epoch {}", is.first,
                              is.learner.named);
        }
        return {};
    }

    Status check_since() const {
        std::unordered_map<uint32_t, uint64_t> old;
        for (const ViewShard& shard : before_.shards)
            old[shard.number] = shard.since;
        for (const ViewShard& shard : after_.shards) {
            const auto was = old.find(shard.number);
            const bool is_changed = was == old.end() || changed_.contains(shard.number);
            const uint64_t since = is_changed ? after_.epoch : was->second;
            if (shard.since == since) continue;
            return wrong_view(after_.epoch, "shard {} is as it is since epoch {}, not {}",
                              shard.number, since, shard.since);
        }
        return {};
    }

    const ViewData& before_;
    const ViewData& after_;
    std::unordered_map<uint32_t, uint32_t> server_of_;
    std::unordered_set<uint32_t> losers_;
    std::unordered_set<uint32_t> gainers_;
    std::unordered_set<uint32_t> changed_;  // shards
};

/// Whether `after` may follow `before`, both of them views: the epoch goes up; numbers are not
/// used twice; segments are cut and never joined, and not cut while they have a learner; each
/// shard's `since` is right; a shard becomes primary only if it was a learner or backup of the
/// segment under the same primary; no server both loses a primary role and gets one.
///
/// Errors: Errc::kInvalidArgument naming the first thing that is wrong
[[nodiscard]] inline Status check_view_step(const ViewData& before, const ViewData& after) {
    if (after.epoch <= before.epoch) {
        return wrong_view(after.epoch, "epoch {} was before; epochs only go up", before.epoch);
    }
    WEIR_TRY(check_numbers(after, before.servers, after.servers, before.next_server,
                           after.next_server, "server"));
    WEIR_TRY(check_numbers(after, before.shards, after.shards, before.next_shard, after.next_shard,
                           "shard"));
    WEIR_TRY(check_numbers(after, before.workers, after.workers, before.next_worker,
                           after.next_worker, "worker"));
    return ViewStep(before, after).check();
}

}  // namespace weir::testing
