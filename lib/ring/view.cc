// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/view.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/core.h>

#include "lib/ring/view_check.h"

namespace weir {
namespace {

template <class Entry>
const Entry* find(const std::vector<Entry>& entries, uint64_t key) noexcept {
    const auto at = std::lower_bound(entries.begin(), entries.end(), key,
                                     [](const Entry& e, uint64_t k) { return view_key(e) < k; });
    return at != entries.end() && view_key(*at) == key ? &*at : nullptr;
}

}  // namespace

Result<View> View::make(ViewData data) {
    WEIR_TRY(check_view(data));
    return View(std::move(data));
}

View::View(ViewData data) : data_(std::move(data)) {
    const auto bits = static_cast<uint32_t>(std::bit_width(data_.segments.size()) + 2);
    shift_ = 64 - bits;
    slice_.resize(size_t{1} << bits);
    uint32_t i = 0;
    for (size_t slice = 0; slice < slice_.size(); ++slice) {
        while (last_position(data_.segments, i) < static_cast<uint64_t>(slice) << shift_)
            ++i;
        slice_[slice] = i;
    }
}

const ViewServer* View::server(uint32_t number) const noexcept {
    return find(data_.servers, number);
}

const ViewShard* View::shard(uint32_t number) const noexcept {
    return find(data_.shards, number);
}

const ViewWorker* View::worker(uint32_t number) const noexcept {
    return find(data_.workers, number);
}

uint64_t View::first_iteration(uint32_t worker, uint32_t table) const noexcept {
    const ViewWorker* const member = this->worker(worker);
    if (member == nullptr) return kNoIteration;
    const ViewMember* const in = find(data_.members, view_key(ViewMember{worker, table, 1}));
    return in == nullptr ? member->first_iteration : in->first_iteration;
}

std::vector<OwnedKeys> View::split_dense(KeyRange keys, uint64_t key_count, SplitBy by) const {
    std::vector<OwnedKeys> pieces;
    keys = intersect(keys, {0, key_count});
    if (keys.empty()) return pieces;
    const PositionMap map = PositionMap::dense(key_count);
    for (size_t i = segment_index(map.position(keys.begin)); !keys.empty(); ++i) {
        const uint64_t last = last_position(data_.segments, i);
        const KeyRange part{keys.begin, std::min(keys.end, map.end_key_at(last))};
        if (part.empty()) continue;  // no key lies in this segment
        const uint32_t owner = data_.segments[i].primary;
        if (by == SplitBy::kOwner && !pieces.empty() && pieces.back().owner == owner) {
            pieces.back().keys.end = part.end;
        } else {
            pieces.push_back({part, owner});
        }
        keys.begin = part.end;
    }
    return pieces;
}

PositionSet View::owned(uint32_t shard) const {
    std::vector<PositionRange> ranges;
    for (const uint32_t i : segments_of(shard))
        ranges.push_back(range(i));
    return PositionSet(ranges);
}

std::vector<uint32_t> View::segments_of(uint32_t shard) const {
    std::vector<uint32_t> found;
    for (size_t i = 0; shard != kNoShard && i < data_.segments.size(); ++i) {
        if (data_.segments[i].primary == shard) found.push_back(static_cast<uint32_t>(i));
    }
    return found;
}

bool View::holds_nothing(uint32_t server) const {
    const auto is_of_server = [&](uint32_t number) {
        const ViewShard* const at = shard(number);
        return at != nullptr && at->server == server;
    };
    return std::ranges::none_of(data_.segments, [&](const ViewSegment& segment) {
        return is_of_server(segment.primary) || is_of_server(segment.learner.shard) ||
               std::ranges::any_of(segment.backups, is_of_server);
    });
}

std::string shard_name(const View& view, const ViewShard& shard, bool joined_later) {
    const auto is_before = [&](const ViewShard& other) {
        return other.server == shard.server && other.number < shard.number;
    };
    const ViewServer* const server = view.server(shard.server);
    return fmt::format("shard {} of server {} (rank {}{})",
                       std::ranges::count_if(view.shards(), is_before), shard.server,
                       server == nullptr ? 0 : server->rank, joined_later ? kJoinedLater : "");
}

}  // namespace weir
