// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/moves.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/ring/copy_order.h"

namespace weir {
namespace {

/// The data of the view after `view`, to be changed.
ViewData next_of(const View& view) {
    ViewData next = view.data();
    ++next.epoch;
    return next;
}

/// What is made here breaks no rule, unless we are wrong.
View made(ViewData data) {
    return std::move(View::make(std::move(data))).value();
}

void set_since(ViewData& view, const std::unordered_set<uint32_t>& changed) {
    for (ViewShard& shard : view.shards) {
        if (changed.contains(shard.number)) shard.since = view.epoch;
    }
}

/// Index of the segment that begins at `first`; nothing if none does.
std::optional<size_t> find_first(const std::vector<ViewSegment>& segments, uint64_t first) {
    const auto at =
        std::lower_bound(segments.begin(), segments.end(), first,
                         [](const ViewSegment& s, uint64_t value) { return s.first < value; });
    if (at == segments.end() || at->first != first) return std::nullopt;
    return static_cast<size_t>(at - segments.begin());
}

using ServerOf = std::unordered_map<uint32_t, uint32_t>;  // by shard

ServerOf servers_of(std::span<const ViewShard> shards) {
    ServerOf server_of;
    for (const ViewShard& shard : shards)
        server_of[shard.number] = shard.server;
    return server_of;
}

/// Whether the learner is to have the only copy of the segment.
bool moves_only_copy(const ViewSegment& segment) {
    return segment.has_learner() && segment.learner.replaces == segment.primary &&
           segment.backup_count() == 0;
}

bool is_of(const LearnerReport& report, const ViewSegment& segment) {
    return segment.first == report.first && segment.has_learner() &&
           segment.learner.shard == report.shard && segment.learner.named == report.named;
}

/// The servers that learn only copies, but have none yet.
std::unordered_set<uint32_t> first_time_gainers(const View& view, const ServerOf& server_of) {
    std::unordered_set<uint32_t> gainers;
    for (const ViewSegment& segment : view.segments()) {
        if (moves_only_copy(segment)) gainers.insert(server_of.at(segment.learner.shard));
    }
    for (const ViewSegment& segment : view.segments()) {
        if (segment.primary != kNoShard && segment.backup_count() == 0)
            gainers.erase(server_of.at(segment.primary));
    }
    return gainers;
}

}  // namespace

Result<View> with_server(const View& view, const NewServer& server) {
    ViewData next = next_of(view);
    const uint64_t shards = server.addresses.size();
    if (next.next_server == kNoShard || shards >= uint64_t{kNoShard} - next.next_shard) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("no numbers are left for a server of {} shards", shards));
    }
    const uint32_t number = next.next_server++;
    next.servers.push_back({number, server.rank, server.host, server.weight});
    for (const std::string& address : server.addresses)
        next.shards.push_back({next.next_shard++, number, next.epoch, address});
    return View::make(std::move(next));
}

View without_servers(const View& view, std::span<const uint32_t> servers) {
    ViewData next = next_of(view);
    const std::unordered_set<uint32_t> gone_servers(servers.begin(), servers.end());
    std::unordered_set<uint32_t> gone;
    std::unordered_set<uint32_t> changed;
    for (const ViewShard& shard : next.shards) {
        if (gone_servers.contains(shard.server)) gone.insert(shard.number);
    }
    for (ViewSegment& segment : next.segments) {
        const size_t backups_before = segment.backup_count();
        std::vector<uint32_t> left;
        for (size_t i = 0; i < segment.backup_count(); ++i) {
            if (!gone.contains(segment.backups[i])) left.push_back(segment.backups[i]);
        }
        const uint32_t was = segment.primary;
        if (gone.contains(was)) {
            segment.primary = left.empty() ? kNoShard : left.front();
            if (!left.empty()) left.erase(left.begin());
            changed.insert(segment.primary);
        }
        segment.backups.fill(kNoShard);
        std::copy(left.begin(), left.end(), segment.backups.begin());
        put_backups_in_order(segment);
        ViewLearner& learner = segment.learner;
        if (!segment.has_learner()) continue;
        if (gone.contains(learner.shard) || segment.primary == kNoShard) {
            learner = {};
            continue;
        }
        // The role that it was to take is vacant: it becomes a backup.
        if (gone.contains(learner.replaces)) learner.replaces = kNoShard;
        const bool moves_without =
            learner.replaces == segment.primary && segment.backup_count() < backups_before;
        if (moves_without) learner.replaces = kNoShard;
        if (segment.primary != was || moves_without) learner.named = next.epoch;
    }
    std::erase_if(next.shards, [&](const ViewShard& s) { return gone.contains(s.number); });
    std::erase_if(next.servers,
                  [&](const ViewServer& s) { return gone_servers.contains(s.number); });
    set_since(next, changed);
    return made(std::move(next));
}

View with_primaries(const View& view, std::span<const uint32_t> servers) {
    ViewData next = next_of(view);
    std::unordered_map<uint32_t, double> weight_of;  // by server
    for (const ViewServer& server : next.servers) {
        if (std::ranges::find(servers, server.number) != servers.end())
            weight_of[server.number] = server.weight;
    }

    struct Candidate {
        uint32_t shard;
        double weight;
        double held = 0;
    };

    std::vector<Candidate> candidates;
    for (const ViewShard& shard : next.shards) {
        const auto weight = weight_of.find(shard.server);
        if (weight != weight_of.end()) candidates.push_back({shard.number, weight->second});
    }
    WEIR_CHECK(!candidates.empty());
    const auto share = [&](size_t i) {
        return static_cast<double>(position_count(next.segments, i)) * 0x1p-64;
    };
    for (size_t i = 0; i < next.segments.size(); ++i) {
        const auto at = std::ranges::find(candidates, next.segments[i].primary, &Candidate::shard);
        if (at != candidates.end()) at->held += share(i) / at->weight;
    }
    std::unordered_set<uint32_t> changed;
    for (size_t i = 0; i < next.segments.size(); ++i) {
        if (next.segments[i].primary != kNoShard) continue;
        const auto poorest = std::ranges::min_element(candidates, {}, &Candidate::held);
        next.segments[i].primary = poorest->shard;
        poorest->held += share(i) / poorest->weight;
        changed.insert(poorest->shard);
    }
    set_since(next, changed);
    return made(std::move(next));
}

std::optional<View> without_learners(const View& view, std::span<const LearnerReport> reports) {
    ViewData next = next_of(view);
    bool has_changed = false;
    for (const LearnerReport& report : reports) {
        const auto at = find_first(next.segments, report.first);
        if (!at || report.shard == kNoShard) continue;
        ViewSegment& segment = next.segments[*at];
        auto* const backup = std::ranges::find(segment.backups, report.shard);
        if (backup == segment.backups.end()) {
            if (!is_of(report, segment)) continue;
            segment.learner = {};
            has_changed = true;
            continue;
        }
        std::shift_left(backup, segment.backups.end(), 1);
        segment.backups.back() = kNoShard;
        ViewLearner& learner = segment.learner;
        if (learner.replaces == report.shard) learner.replaces = kNoShard;
        // One that was to be primary becomes a backup first.
        if (segment.has_learner() && learner.replaces == segment.primary)
            learner = {learner.shard, kNoShard, next.epoch};
        has_changed = true;
    }
    if (!has_changed) return std::nullopt;
    return made(std::move(next));
}

View begin_moves(const View& view, const Plan& plan) {
    ViewData next = next_of(view);
    std::vector<ViewSegment>& segments = next.segments;
    for (const uint64_t first : plan.cancelled) {
        const auto at = find_first(segments, first);
        WEIR_CHECK(at);
        segments[*at].learner = {};
    }
    std::vector<ViewSegment> cut;
    cut.reserve(segments.size() + plan.cuts.size());
    auto next_cut = plan.cuts.begin();
    for (size_t i = 0; i < segments.size(); ++i) {
        cut.push_back(segments[i]);
        for (; next_cut != plan.cuts.end() && *next_cut <= last_position(segments, i); ++next_cut) {
            cut.push_back(segments[i]);
            cut.back().first = *next_cut;
        }
    }
    segments = std::move(cut);
    for (const LearnerNaming& naming : plan.learners) {
        const auto at = find_first(segments, naming.first);
        WEIR_CHECK(at);
        segments[*at].learner = {naming.shard, naming.replaces, next.epoch};
    }
    return made(std::move(next));
}

std::vector<LearnerReport> reports_to_finish(const View& view,
                                             std::span<const LearnerReport> reports,
                                             std::span<const uint32_t> full) {
    const ServerOf server_of = servers_of(view.shards());
    const std::unordered_set<uint32_t> first_time = first_time_gainers(view, server_of);
    std::unordered_map<uint32_t, size_t> missing;  // reports, by gainer
    for (const ViewSegment& segment : view.segments()) {
        if (moves_only_copy(segment)) ++missing[server_of.at(segment.learner.shard)];
    }
    std::vector<LearnerReport> together;
    std::vector<LearnerReport> others;
    for (const LearnerReport& report : reports) {
        const ViewSegment& segment = view.segments()[view.segment_index(report.first)];
        if (!is_of(report, segment)) continue;
        const uint32_t gainer = server_of.at(report.shard);
        if (!moves_only_copy(segment) || !first_time.contains(gainer)) {
            others.push_back(report);
            continue;
        }
        together.push_back(report);
        --missing.at(gainer);
    }
    std::erase_if(together, [&](const LearnerReport& report) {
        const uint32_t gainer = server_of.at(report.shard);
        return missing.at(gainer) > 0 && std::ranges::count(full, gainer) == 0;
    });
    together.insert(together.end(), others.begin(), others.end());
    return together;
}

std::optional<View> finish_moves(const View& view, std::span<const LearnerReport> reports) {
    ViewData next = next_of(view);
    const ServerOf server_of = servers_of(next.shards);
    std::unordered_set<uint32_t> losers;
    std::unordered_set<uint32_t> gainers;
    std::unordered_set<uint32_t> changed;
    bool has_moved = false;
    for (const LearnerReport& report : reports) {
        const auto at = find_first(next.segments, report.first);
        if (!at) continue;
        ViewSegment& segment = next.segments[*at];
        const ViewLearner learner = segment.learner;
        if (!is_of(report, segment)) continue;
        if (learner.replaces == segment.primary) {
            const uint32_t loser = server_of.at(segment.primary);
            const uint32_t gainer = server_of.at(learner.shard);
            if (loser == gainer || gainers.contains(loser) || losers.contains(gainer)) continue;
            losers.insert(loser);
            gainers.insert(gainer);
            changed.insert({segment.primary, learner.shard});
            segment.primary = learner.shard;
        } else if (learner.replaces == kNoShard) {
            segment.backups[segment.backup_count()] = learner.shard;
        } else {
            std::ranges::replace(segment.backups, learner.replaces, learner.shard);
        }
        put_backups_in_order(segment);
        segment.learner = {};
        has_moved = true;
    }
    if (!has_moved) return std::nullopt;
    set_since(next, changed);
    return made(std::move(next));
}

}  // namespace weir
