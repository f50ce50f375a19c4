// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/place_backups.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace weir {
namespace {

/// A primary has so many partners before it shares those that it has, if they will do.
constexpr size_t kPartnersMax = 4;

class Placer {
public:
    Placer(const View& view, const Balance& balance, const BackupRules& rules)
        : view_(view),
          apart_(rules.apart),
          live_(rules.live.begin(), rules.live.end()),
          full_(rules.full.begin(), rules.full.end()) {
        for (const ViewServer& server : view.servers())
            host_of_[server.number] = server.host;
        for (const ViewShard& shard : view.shards()) {
            server_of_[shard.number] = shard.server;
            weight_of_[shard.number] = view.server(shard.server)->weight;
        }
        for (const Balance::Stretch& stretch : balance.stretches()) {
            const ViewSegment& segment = view.segments()[stretch.segment];
            for (size_t i = 0; i < segment.backup_count(); ++i)
                note(segment, segment.backups[i], stretch.size);
            const ViewLearner& learner = segment.learner;
            const bool is_backup =
                segment.has_learner() && learner.replaces != segment.primary && is_kept(learner);
            if (is_backup) note(segment, learner.shard, stretch.size);
        }
        for (const ViewShard& shard : view.shards()) {
            if (live_.contains(shard.server)) by_load_.insert({load(shard.number), shard.number});
        }
    }

    void place(const Balance::Stretch& stretch, uint32_t backup_count,
               std::vector<LearnerNaming>& learners) {
        const ViewSegment& segment = view_.segments()[stretch.segment];
        if (stretch.is_moved || (segment.has_learner() && is_kept(segment.learner))) return;
        std::optional<uint32_t> replaces;
        for (size_t i = 0; i < segment.backup_count() && !replaces; ++i) {
            if (!live_.contains(server_of_.at(segment.backups[i]))) replaces = segment.backups[i];
        }
        if (!replaces && segment.backup_count() < backup_count) replaces = kNoShard;
        if (!replaces) return;
        std::optional<uint32_t> chosen = choose(segment, *replaces, true);
        if (!chosen) chosen = choose(segment, *replaces, false);
        if (!chosen) return;
        note(segment, *chosen, stretch.size);
        learners.push_back({stretch.first, *chosen, *replaces});
    }

private:
    using Load = uint128;

    /// As Balance gives learners up.
    [[nodiscard]] bool is_kept(const ViewLearner& learner) const {
        const uint32_t server = server_of_.at(learner.shard);
        return live_.contains(server) && !full_.contains(server);
    }

    [[nodiscard]] Load load(uint32_t shard) const {
        const auto at = backed_up_.find(shard);
        return at == backed_up_.end() ? 0 : at->second / weight_of_.at(shard);
    }

    void note(const ViewSegment& segment, uint32_t backup, uint128 size) {
        const bool is_known = by_load_.erase({load(backup), backup}) > 0;
        backed_up_[backup] += size;
        if (is_known) by_load_.insert({load(backup), backup});
        if (live_.contains(server_of_.at(backup))) partners_[segment.primary].insert(backup);
    }

    /// Whether `shard` may hold a copy of the segment besides those who do and stay.
    [[nodiscard]] bool fits(const ViewSegment& segment, uint32_t replaces, uint32_t shard,
                            bool on_another_host) const {
        const uint32_t server = server_of_.at(shard);
        if (full_.contains(server)) return false;
        if (apart_.contains(std::minmax(server, server_of_.at(segment.primary)))) return false;
        const auto is_near = [&](uint32_t holder) {
            const uint32_t other = server_of_.at(holder);
            return other == server ||
                   (on_another_host && host_of_.at(other) == host_of_.at(server));
        };
        if (is_near(segment.primary)) return false;
        for (size_t i = 0; i < segment.backup_count(); ++i) {
            if (segment.backups[i] != replaces && is_near(segment.backups[i])) return false;
        }
        return true;
    }

    [[nodiscard]] std::optional<uint32_t> choose(const ViewSegment& segment, uint32_t replaces,
                                                 bool on_another_host) const {
        std::optional<uint32_t> best;
        const auto at = partners_.find(segment.primary);
        if (at != partners_.end() && at->second.size() >= kPartnersMax) {
            for (const uint32_t shard : at->second) {
                if (!fits(segment, replaces, shard, on_another_host)) continue;
                if (!best || load(shard) < load(*best)) best = shard;
            }
        }
        if (best) return best;
        for (const auto& [load, shard] : by_load_) {
            if (fits(segment, replaces, shard, on_another_host)) return shard;
        }
        return std::nullopt;
    }

    const View& view_;
    const ServersApart& apart_;
    std::unordered_set<uint32_t> live_;                          // servers
    std::unordered_set<uint32_t> full_;                          // servers
    std::unordered_map<uint32_t, uint64_t> host_of_;             // servers
    std::unordered_map<uint32_t, uint32_t> server_of_;           // shards
    std::unordered_map<uint32_t, uint32_t> weight_of_;           // shards
    std::unordered_map<uint32_t, uint128> backed_up_;            // positions, by shard
    std::unordered_map<uint32_t, std::set<uint32_t>> partners_;  // backups, by primary
    std::set<std::pair<Load, uint32_t>> by_load_;                // live shards
};

}  // namespace

void place_backups(const View& view, const Balance& balance, const BackupRules& rules,
                   std::vector<LearnerNaming>& learners) {
    const bool has_backups = std::ranges::any_of(
        view.segments(), [](const ViewSegment& s) { return s.backup_count() > 0; });
    if (rules.count == 0 && !has_backups) return;
    Placer placer(view, balance, rules);
    const uint32_t backup_count = std::min<uint32_t>(rules.count, ViewLimits::kBackupsMax);
    for (const Balance::Stretch& stretch : balance.stretches())
        placer.place(stretch, backup_count, learners);
}

}  // namespace weir
