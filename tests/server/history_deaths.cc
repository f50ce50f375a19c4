// SPDX-License-Identifier: Apache-2.0
#include "tests/server/history_deaths.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/server/history_shape.h"

namespace weir::test {
namespace {

/// A shard that was to hand over something may still have the only copy after so many views.
constexpr size_t kViewsSeen = 4;

}  // namespace

bool HistoryDeaths::has_all_copies(const View& view) const {
    const size_t wanted = std::min<size_t>(cluster_.shape().replicas, view.servers().size() - 1);
    return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
        return segment.backup_count() >= wanted;
    });
}

std::set<uint32_t> HistoryDeaths::failing() const {
    std::set<uint32_t> servers = dead_;
    if (silent_) servers.insert(*silent_);
    return servers;
}

void HistoryDeaths::wish() {
    if (target_) return;
    const View view = cluster_.managers_view();
    Target target{some_server(random_, view)};
    if (random_.below(2) == 0) {
        for (const ViewSegment& segment : view.segments()) {
            if (!segment.has_learner()) continue;
            target = {view.shard(segment.learner.shard)->server, Why::kLearns, random_.below(40)};
            break;
        }
    }
    target_ = target;
}

/// Who loses or gains something by a view often dies before all have it; also who has just reported
/// that another one has a copy.
void HistoryDeaths::look_at_moves(const View& before, const View& after) {
    if (target_ || random_.below(4) == 0) return;
    std::vector<Target> moving;
    for (const ViewSegment& segment : after.segments()) {
        const ViewShard* const was = after.shard(before.owner(segment.first));
        const ViewShard* const is = after.shard(segment.primary);
        if (was == nullptr || is == nullptr) continue;
        const ViewSegment& old = before.segments()[before.segment_index(segment.first)];
        if (was == is && segment.backup_count() > old.backup_count())
            moving.push_back({is->server, Why::kHasTaught});
        if (was == is) continue;
        moving.push_back({was->server, Why::kLoses});
        moving.push_back({is->server, Why::kGains});
    }
    if (moving.empty()) return;
    target_ = moving[random_.below(moving.size())];
    target_->turns = random_.below(random_.below(2) == 0 ? 10 : 100);
    if (target_->why == Why::kHasTaught) target_->turns /= 4;
}

void HistoryDeaths::live() {
    const View view = cluster_.managers_view();
    std::erase_if(dead_, [&](uint32_t server) {
        if (view.server(server) != nullptr) return false;
        events_.add("the death of server {} is known", server);
        return true;
    });
    if (is_draining_) return;
    if (seen_.empty() || seen_.front().epoch() != view.epoch()) {
        if (!seen_.empty()) look_at_moves(seen_.front(), view);
        seen_.push_front(view);
        if (seen_.size() > kViewsSeen) seen_.pop_back();
    }
    if (target_ && target_->turns-- == 0) kill(*std::exchange(target_, std::nullopt));
}

bool HistoryDeaths::may_die(uint32_t server, const View& view) const {
    if (view.server(server) == nullptr) return false;
    std::set<uint32_t> gone = failing();
    if (gone.contains(server) || gone.size() >= cluster_.shape().replicas) return false;
    if (cluster_.shape().replicas > 1) {
        gone.insert(server);
        const auto survives = [&](const View& seen, uint32_t shard) {
            const ViewShard* const holder = seen.shard(shard);
            return holder != nullptr && !gone.contains(holder->server) &&
                   view.server(holder->server) != nullptr;
        };
        return std::ranges::all_of(seen_, [&](const View& seen) {
            return std::ranges::all_of(seen.segments(), [&](const ViewSegment& segment) {
                const bool stays = view.owner(segment.first) == segment.primary;
                // The manager may take a dead learner for complete, and drop what it replaces.
                const bool learns = survives(seen, segment.learner.shard);
                const auto remains = [&](uint32_t shard) {
                    return survives(seen, shard) && (learns || segment.learner.replaces != shard);
                };
                return (stays && remains(segment.primary)) ||
                       std::ranges::any_of(segment.backups, remains);
            });
        });
    }
    return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
        return segment.backup_count() > 0 || std::ranges::none_of(seen_, [&](const View& seen) {
                   const ViewShard* const was = seen.shard(seen.owner(segment.first));
                   return was != nullptr && was->server == server;
               });
    });
}

std::optional<uint32_t> HistoryDeaths::host_that_may_fail(uint32_t server) const {
    const View view = cluster_.managers_view();
    if (!may_die(server, view)) return std::nullopt;
    const auto its = std::ranges::find(view.shards(), server, &ViewShard::server);
    size_t index = 0;
    while (index < cluster_.shards.size() &&
           (cluster_.shards[index] == nullptr || cluster_.shards[index]->address() != its->address))
        ++index;
    if (index == cluster_.shards.size() || cluster_.shards[index]->finished()) return std::nullopt;
    const uint32_t host = cluster_.host_of_shard(index);
    if (!cluster_.has_reached_manager(host) || !cluster_.has_life_line(host)) return std::nullopt;
    return host;
}

void HistoryDeaths::kill(const Target& target) {
    const View view = cluster_.managers_view();
    if (view.servers().size() < 3 && random_.below(3) != 0) return;
    const std::optional<uint32_t> host = host_that_may_fail(target.server);
    if (!host) return;
    const bool is_primary = std::ranges::any_of(view.segments(), [&](const ViewSegment& segment) {
        return view.shard(segment.primary)->server == target.server;
    });
    events_.add("server {} dies, why {}", target.server, static_cast<int>(target.why));
    ++counts_.servers_killed;
    if (!failing().empty()) ++counts_.killed_seconds;
    if (is_primary) ++counts_.killed_primaries;
    if (target.why == Why::kLoses) ++counts_.killed_losers;
    if (target.why == Why::kGains) ++counts_.killed_gainers;
    if (target.why == Why::kLearns) ++counts_.killed_learners;
    if (target.why == Why::kHasTaught) ++counts_.killed_teachers;
    dead_.insert(target.server);
    faults_.kill_host(*host);
    if (view.servers().size() < 3 + cluster_.shape().replicas) faults_.add_server();
}

bool HistoryDeaths::is_at_rest() const {
    if (cluster_.shape().replicas == 0) return true;
    const View view = cluster_.managers_view();
    if (!dead_.empty() || (view.servers().size() > 1 && !has_all_copies(view))) return false;
    return std::ranges::all_of(view.shards(), [&](const ViewShard& listed) {
        const Shard* const shard = cluster_.find_shard(listed);
        return shard != nullptr && shard->epoch() == view.epoch();
    });
}

}  // namespace weir::test
