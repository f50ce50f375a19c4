// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/balance.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

namespace weir {
namespace {

using Ratio = Balance::Ratio;

// A shard is left alone between these. They are within kShareTolerance, for rounding.
constexpr Ratio kPoor = Balance::kExact * 951 / 1000;
constexpr Ratio kRich = Balance::kExact * 1049 / 1000;
// What is given to leave everybody within the tolerance goes to here, for rounding.
constexpr Ratio kNeeded = Balance::kExact * 953 / 1000;
// Nobody gives or gets beyond these: there is something left for the next change.
constexpr Ratio kLow = Balance::kExact * 955 / 1000;
constexpr Ratio kHigh = Balance::kExact * 1045 / 1000;
// Who gets something is filled up to this: a join then is not followed by many small moves.
constexpr Ratio kFull = Balance::kExact * 985 / 1000;

uint128 part_of(uint128 share, Ratio ratio) {
    return (share >> 20) * ratio + (((share & (Balance::kExact - 1)) * ratio) >> 20);
}

uint128 above(uint128 a, uint128 b) {
    return a > b ? a - b : 0;
}

Ratio ratio_of(uint128 held, uint128 share) {
    return static_cast<Ratio>((held << 20) / share);
}

}  // namespace

Balance::Balance(const View& view, std::span<const uint32_t> live, uint32_t backup_count,
                 std::span<const uint32_t> full)
    : view_(view), backups_needed_(std::min<size_t>(backup_count, view.servers().size() - 1)) {
    for (const ViewShard& shard : view.shards()) {
        index_[shard.number] = static_cast<uint32_t>(shards_.size());
        shards_.push_back({.server = shard.server});
    }
    if (backup_count == 0) segments_left_ = ViewLimits::kSegmentsMax - view.segments().size();
    set_shares(live, full);
    add_stretches();
    for (uint32_t i = 0; i < shards_.size(); ++i) {
        if (is_live(i) && !shards_[i].is_full)
            by_ratio_.insert({ratio_of(shards_[i].held, shards_[i].share), i});
    }
}

/// What is not lost, and not with servers that are full, is shared by weight; the shards of a server
/// get equal parts.
void Balance::set_shares(std::span<const uint32_t> live, std::span<const uint32_t> full) {
    std::unordered_set<uint32_t> is_live(live.begin(), live.end());
    for (Shard& shard : shards_) {
        shard.is_full =
            is_live.contains(shard.server) && std::ranges::count(full, shard.server) > 0;
        if (shard.is_full) shard.share = 1;
    }
    for (const uint32_t server : full)
        is_live.erase(server);
    uint128 whole = 0;
    for (size_t i = 0; i < view_.segments().size(); ++i) {
        const uint32_t primary = view_.segments()[i].primary;
        if (primary == kNoShard || shards_[index_.at(primary)].is_full) continue;
        whole += position_count(view_.data().segments, i);
    }
    std::unordered_map<uint32_t, uint32_t> shard_count;
    for (const Shard& shard : shards_)
        ++shard_count[shard.server];
    std::unordered_map<uint32_t, uint32_t> weight;
    uint64_t weight_sum = 0;
    for (const ViewServer& server : view_.servers()) {
        if (!is_live.contains(server.number)) continue;
        weight[server.number] = server.weight;
        weight_sum += server.weight;
    }
    for (Shard& shard : shards_) {
        const auto at = weight.find(shard.server);
        if (at == weight.end()) continue;
        shard.share =
            std::max<uint128>(whole * at->second / weight_sum / shard_count[shard.server], 1);
    }
}

void Balance::add_stretches() {
    const std::vector<ViewSegment>& segments = view_.data().segments;
    for (uint32_t i = 0; i < segments.size(); ++i) {
        const ViewSegment& segment = segments[i];
        if (segment.primary == kNoShard) continue;
        Stretch stretch{.first = segment.first,
                        .size = position_count(segments, i),
                        .segment = i,
                        .holder = index_.at(segment.primary),
                        .is_cuttable = !segment.has_learner(),
                        .is_moved = false};
        bool is_movable = segment.backup_count() >= backups_needed_;
        if (segment.has_learner()) {
            const uint32_t learner = index_.at(segment.learner.shard);
            if (!is_live(learner) || shards_[learner].is_full) {
                cancelled_.push_back(i);
            } else {
                is_movable = false;
                if (segment.learner.replaces == segment.primary) stretch.holder = learner;
            }
        }
        Shard& holder = shards_[stretch.holder];
        holder.held += stretch.size;
        if (is_movable) {
            holder.movable.insert({stretch.size, static_cast<uint32_t>(stretches_.size())});
        }
        stretches_.push_back(stretch);
    }
}

void Balance::run() {
    if (by_ratio_.empty()) return;
    place_leavers();
    fill_the_poor();
    std::vector<uint32_t> rich;
    for (const auto& [ratio, shard] : by_ratio_) {
        if (ratio > kRich) rich.push_back(shard);
    }
    for (const uint32_t shard : rich)
        drain(shard);
}

/// What leavers hold goes to the poorest, the largest stretches first. A stretch that would be too much
/// for the poorest is cut in equal parts that are not. Some get more than they need only while
/// enough is left for all who need some.
void Balance::place_leavers() {
    uint128 free = 0;
    uint128 needed = 0;
    std::priority_queue<std::pair<uint128, uint32_t>> waiting;
    for (uint32_t i = 0; i < shards_.size(); ++i) {
        if (is_live(i)) continue;
        for (const auto& stretch : shards_[i].movable) {
            waiting.push(stretch);
            free += stretch.first;
        }
    }
    for (const auto& [ratio, i] : by_ratio_)
        needed += above(part_of(shards_[i].share, kNeeded), shards_[i].held);
    free = above(free, needed);
    while (!waiting.empty()) {
        const auto [size, i] = waiting.top();
        waiting.pop();
        const std::optional<uint32_t> to = poorest_for(stretches_[i]);
        if (!to) continue;  // every live server has a copy of it already
        const Shard& poor = shards_[*to];
        const uint128 need = above(part_of(poor.share, kNeeded), poor.held);
        const uint128 room = std::min(above(part_of(poor.share, kHigh), poor.held), need + free);
        uint128 given = size;
        if (size > room && room > 0 && stretches_[i].is_cuttable && can_cut()) {
            given = size / ((size + room - 1) / room);
            const uint32_t rest = cut(i, given);
            waiting.push({stretches_[i].size, i});
            move(rest, *to);
        } else {
            move(i, *to);
        }
        free = above(free, above(given, need));
    }
}

/// Some give more than they must only while enough room is left for what others must give.
void Balance::fill_the_poor() {
    std::vector<uint32_t> poor;
    uint128 free = 0;
    uint128 surplus = 0;
    for (const auto& [ratio, i] : by_ratio_) {
        const Shard& shard = shards_[i];
        surplus += above(shard.held, part_of(shard.share, kRich));
        if (ratio >= kPoor) continue;
        poor.push_back(i);
        free += above(part_of(shard.share, kFull), shard.held);
    }
    free = above(free, surplus);
    for (const uint32_t shard : poor)
        fill(shard, free);
}

void Balance::fill(uint32_t poor, uint128& free) {
    Shard& to = shards_[poor];
    // Who cannot give is passed over; the others are no richer.
    std::pair<Ratio, uint32_t> below{~Ratio{0}, 0};
    while (ratio_of(to.held, to.share) < kFull) {
        const auto rich = richest_for(poor, below);
        if (!rich) break;
        const Shard& from = shards_[rich->second];
        const bool is_poor = ratio_of(to.held, to.share) < kPoor;
        // Nobody is above its share any more: the rest is within the tolerance.
        if (from.held <= from.share && !is_poor) break;
        const uint128 surplus = above(from.held, part_of(from.share, kRich));
        const uint128 above_low = above(from.held, part_of(from.share, kLow));
        if (above_low == 0 && is_poor && can_cut() && pass_on(poor, rich->second)) continue;
        const uint128 spare = std::min(above_low, surplus + free);
        if (spare == 0 && (can_cut() || !is_poor)) break;
        const uint128 wanted = std::min(spare, above(to.share, to.held));
        const uint128 before = to.held;
        if (!give(rich->second, poor, wanted, wanted)) below = *rich;
        free = above(free, above(to.held - before, surplus));
    }
}

/// Shards of one server give each other nothing. If they alone have more than their shares, `other`
/// takes over as much of the richest as `poor` needs, and has it to give then. False: they have not.
bool Balance::pass_on(uint32_t poor, uint32_t other) {
    const Shard& to = shards_[poor];
    const auto rich = std::find_if(by_ratio_.rbegin(), by_ratio_.rend(), [&](const auto& entry) {
        return shards_[entry.second].server == to.server;
    });
    const uint32_t from = rich->second;  // perhaps `poor` itself
    const uint128 wanted = std::min(above(shards_[from].held, shards_[from].share),
                                    above(part_of(to.share, kFull), to.held));
    return wanted > to.share / 1024 && give(from, other, wanted, wanted);
}

/// What is too much goes to those who get something anyway, while they have room; then to the
/// poorest.
void Balance::drain(uint32_t rich) {
    const Shard& from = shards_[rich];
    const auto give_to = [&](bool joiners) {
        for (const auto& [ratio, poor] : by_ratio_) {
            const Shard& to = shards_[poor];
            if (to.server == from.server || to.has_gained != joiners) continue;
            const uint128 room = above(part_of(to.share, kHigh), to.held);
            const uint128 surplus = above(from.held, part_of(from.share, kRich));
            const uint128 wanted = std::min(room, std::max(surplus, from.share / 256));
            if (give(rich, poor, wanted, std::min(room, 2 * wanted))) return true;
        }
        return false;
    };
    while (ratio_of(from.held, from.share) > kRich && (give_to(true) || give_to(false))) {
    }
}

/// Moves one stretch: a whole one of up to `most` positions, the largest, if it is worth a move; else
/// one of `wanted` that is cut off the largest. False: there is none.
bool Balance::give(uint32_t rich, uint32_t poor, uint128 wanted, uint128 most) {
    Shard& from = shards_[rich];
    std::optional<uint32_t> whole;
    auto at = from.movable.upper_bound({most, ~uint32_t{0}});
    while (!whole && at != from.movable.begin()) {
        --at;
        if (!has_copy(stretches_[at->second], poor)) whole = at->second;
    }
    const bool is_worth_it = whole && stretches_[*whole].size >= wanted / 4;
    if (!is_worth_it && wanted > 0 && can_cut()) {
        for (auto big = from.movable.rbegin(); big != from.movable.rend(); ++big) {
            if (big->first <= wanted) break;
            if (!stretches_[big->second].is_cuttable || has_copy(stretches_[big->second], poor))
                continue;
            move(cut(big->second, wanted), poor);
            return true;
        }
    }
    if (!whole) return give_smallest(rich, poor);
    move(*whole, poor);
    return true;
}

/// For when nothing can be cut: a stretch that is too large, but leaves both nearer to their shares.
bool Balance::give_smallest(uint32_t rich, uint32_t poor) {
    const Shard& from = shards_[rich];
    const Shard& to = shards_[poor];
    for (const auto& [size, i] : from.movable) {
        if (size + from.share + to.held >= from.held + to.share) return false;
        if (has_copy(stretches_[i], poor)) continue;
        move(i, poor);
        return true;
    }
    return false;
}

void Balance::move(uint32_t stretch, uint32_t to) {
    Stretch& one = stretches_[stretch];
    shards_[one.holder].movable.erase({one.size, stretch});
    hold(one.holder, 0, one.size);
    hold(to, one.size, 0);  // it is moved once and is not movable any more
    shards_[to].has_gained = true;
    one.holder = to;
    one.is_moved = true;
}

/// Cuts off the end: `size` positions, fewer than the stretch has. The new stretch has the same holder.
uint32_t Balance::cut(uint32_t stretch, uint128 size) {
    const auto fresh = static_cast<uint32_t>(stretches_.size());
    Stretch rest = stretches_[stretch];
    Shard& holder = shards_[rest.holder];
    holder.movable.erase({rest.size, stretch});
    stretches_[stretch].size -= size;
    holder.movable.insert({stretches_[stretch].size, stretch});
    rest.first += static_cast<uint64_t>(stretches_[stretch].size);
    rest.size = size;
    stretches_.push_back(rest);
    --segments_left_;
    return fresh;
}

void Balance::hold(uint32_t shard, uint128 more, uint128 less) {
    Shard& one = shards_[shard];
    if (is_live(shard)) by_ratio_.erase({ratio_of(one.held, one.share), shard});
    one.held += more - less;
    if (is_live(shard)) by_ratio_.insert({ratio_of(one.held, one.share), shard});
}

/// Whether the server of `shard` has a copy of the stretch, or another shard of it is its primary.
bool Balance::has_copy(const Stretch& stretch, uint32_t shard) const {
    const ViewSegment& segment = view_.segments()[stretch.segment];
    const auto is_there = [&](uint32_t number) {
        return shards_[index_.at(number)].server == shards_[shard].server;
    };
    if (is_there(segment.primary)) return true;
    for (size_t i = 0; i < segment.backup_count(); ++i) {
        if (is_there(segment.backups[i])) return true;
    }
    return false;
}

/// The richest shard of another server than `poor`, and its ratio, among those before `below`.
std::optional<std::pair<Ratio, uint32_t>> Balance::richest_for(
    uint32_t poor, std::pair<Ratio, uint32_t> below) const {
    const Shard& to = shards_[poor];
    auto at = by_ratio_.lower_bound(below);
    while (at != by_ratio_.begin()) {
        --at;
        if (at->first <= ratio_of(to.held, to.share)) break;
        if (shards_[at->second].server != to.server) return *at;
    }
    return std::nullopt;
}

std::optional<uint32_t> Balance::poorest_for(const Stretch& stretch) const {
    for (const auto& [ratio, shard] : by_ratio_) {
        if (!has_copy(stretch, shard)) return shard;
    }
    return std::nullopt;
}

}  // namespace weir
