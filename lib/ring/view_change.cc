// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/view_change.h"

#include <utility>

#include <fmt/core.h>

namespace weir {
namespace {

template <class Entry>
ListChange<Entry> list_change(const std::vector<Entry>& before, const std::vector<Entry>& after) {
    ListChange<Entry> change;
    auto old = before.begin();
    for (const Entry& entry : after) {
        for (; old != before.end() && view_key(*old) < view_key(entry); ++old)
            change.removed.push_back(view_key(*old));
        const bool was_there = old != before.end() && view_key(*old) == view_key(entry);
        if (!was_there || *old != entry) change.put.push_back(entry);
        if (was_there) ++old;
    }
    for (; old != before.end(); ++old)
        change.removed.push_back(view_key(*old));
    return change;
}

/// False: something is removed that is not there, or that is put, too.
template <class Entry>
bool apply_list(const std::vector<Entry>& before, const ListChange<Entry>& change,
                std::vector<Entry>& after) {
    after.clear();
    after.reserve(before.size() + change.put.size());
    auto put = change.put.begin();
    auto removed = change.removed.begin();
    for (const Entry& entry : before) {
        for (; put != change.put.end() && view_key(*put) < view_key(entry); ++put)
            after.push_back(*put);
        const bool is_put = put != change.put.end() && view_key(*put) == view_key(entry);
        const bool is_removed = removed != change.removed.end() && *removed == view_key(entry);
        if (is_put && is_removed) return false;
        if (is_removed) {
            ++removed;
        } else {
            after.push_back(is_put ? *put++ : entry);
        }
    }
    after.insert(after.end(), put, change.put.end());
    return removed == change.removed.end();
}

}  // namespace

ViewChange view_change(const View& before, const View& after) {
    const ViewData& a = before.data();
    const ViewData& b = after.data();
    ViewChange change{.from = a.epoch,
                      .epoch = b.epoch,
                      .next_server = b.next_server,
                      .next_shard = b.next_shard,
                      .next_worker = b.next_worker,
                      .servers = list_change(a.servers, b.servers),
                      .shards = list_change(a.shards, b.shards),
                      .segments = list_change(a.segments, b.segments),
                      .workers = list_change(a.workers, b.workers),
                      .members = list_change(a.members, b.members),
                      .withdrawals = list_change(a.withdrawals, b.withdrawals)};
    return change;
}

ViewChange whole_view(const View& view) {
    return view_change(View(), view);
}

Result<View> apply(const View& before, const ViewChange& change) {
    if (change.epoch <= before.epoch() || (change.from != 0 && change.from != before.epoch())) {
        return Error(Errc::kStaleEpoch,
                     fmt::format("a change from view {} to {} does not follow view {}", change.from,
                                 change.epoch, before.epoch()));
    }
    const ViewData none;
    const ViewData& old = change.from == 0 ? none : before.data();
    ViewData data;
    data.epoch = change.epoch;
    data.next_server = change.next_server;
    data.next_shard = change.next_shard;
    data.next_worker = change.next_worker;
    const bool fits = apply_list(old.servers, change.servers, data.servers) &&
                      apply_list(old.shards, change.shards, data.shards) &&
                      apply_list(old.segments, change.segments, data.segments) &&
                      apply_list(old.workers, change.workers, data.workers) &&
                      apply_list(old.members, change.members, data.members) &&
                      apply_list(old.withdrawals, change.withdrawals, data.withdrawals);
    if (!fits) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("the change to view {} removes what view {} does not have",
                                 change.epoch, change.from));
    }
    return View::make(std::move(data));
}

}  // namespace weir
