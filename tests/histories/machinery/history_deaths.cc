// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/history_deaths.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/histories/machinery/history_shape.h"

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

void HistoryDeaths::part(Hosts hosts) {
    parted_[hosts] = {cluster_.clock.now_ns(), 0};
    if (target_ || is_draining_) return;
    const View view = cluster_.managers_view();
    std::optional<uint32_t> server = server_on(hosts.first, view);
    if (!server || random_.below(2) == 0) {
        const std::optional<uint32_t> other = server_on(hosts.second, view);
        if (other) server = other;
    }
    if (server) target_ = {*server, Why::kParted, random_.below(random_.below(2) == 0 ? 50 : 1000)};
}

void HistoryDeaths::heal(Hosts hosts) {
    parted_.at(hosts).healed_ns = cluster_.clock.now_ns();
}

bool HistoryDeaths::is_parted(uint32_t host) const {
    return std::ranges::any_of(parted_, [&](const auto& entry) {
        const auto& [hosts, parted] = entry;
        return parted.healed_ns == 0 && (hosts.first == host || hosts.second == host);
    });
}

/// Nothing if no server of the view is there.
std::optional<uint32_t> HistoryDeaths::server_on(uint32_t host, const View& view) const {
    for (const ViewShard& listed : view.shards()) {
        for (size_t i = 0; i < cluster_.shards.size(); ++i) {
            const auto& shard = cluster_.shards[i];
            if (shard != nullptr && cluster_.host_of_shard(i) == host &&
                shard->address() == listed.address)
                return listed.server;
        }
    }
    return std::nullopt;
}

/// Whether the manager may be about to hear that another server does not follow this one any more: of
/// what both have, there is one copy less then.
bool HistoryDeaths::loses_copies(uint32_t server, const View& view) const {
    const uint64_t now_ns = cluster_.clock.now_ns();
    const uint64_t lease_ns = cluster_.shape().lease_ns;
    return std::ranges::any_of(parted_, [&](const auto& entry) {
        const auto& [hosts, parted] = entry;
        const uint64_t end_ns = parted.healed_ns == 0 ? now_ns : parted.healed_ns;
        if (end_ns < parted.begin_ns + 2 * lease_ns || now_ns > end_ns + lease_ns) return false;
        const auto first = server_on(hosts.first, view);
        const auto second = server_on(hosts.second, view);
        if (!first || !second || (*first != server && *second != server)) return false;
        return std::ranges::any_of(view.segments(), [&](const ViewSegment& segment) {
            std::set<uint32_t> holders{view.shard(segment.primary)->server};
            for (size_t b = 0; b < segment.backup_count(); ++b)
                holders.insert(view.shard(segment.backups[b])->server);
            return holders.contains(*first) && holders.contains(*second);
        });
    });
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
    if (loses_copies(server, view)) return false;
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

bool HistoryDeaths::kill_silent(uint32_t host) {
    const std::optional<uint32_t> silent = std::exchange(silent_, std::nullopt);
    const bool may = !is_draining_ && may_die(*silent, cluster_.managers_view());
    silent_ = silent;
    if (!may) return false;
    events_.add("server {}, which is silent, dies", *silent);
    ++counts_.killed_silent;
    dead_.insert(*silent);
    faults_.kill_host(host);
    return true;
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
    if (is_parted(*host)) ++counts_.killed_parted;
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
