// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/learning_rounds.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace weir {
namespace {

bool has_copy(const ViewSegment& segment, uint32_t shard) {
    return segment.primary == shard || std::ranges::count(segment.backups, shard) > 0;
}

}  // namespace

void LearningRounds::follow(const View& before, const View& after) {
    const std::span<const ViewSegment> old = before.segments();
    std::set<uint32_t> learners;
    size_t i = 0;
    for (const ViewSegment& segment : after.segments()) {
        while (i + 1 < old.size() && old[i + 1].first <= segment.first)
            ++i;
        if (old[i].has_learner()) note_taken(old[i].learner, segment, after);
        if (segment.has_learner()) learners.insert(after.shard(segment.learner.shard)->server);
    }
    std::erase_if(rounds_, [&](const auto& round) { return !learners.contains(round.first); });
    for (const uint32_t server : learners)
        rounds_.try_emplace(server, Round{after.epoch()});
    for (auto& [server, round] : rounds_) {
        std::erase_if(round.taken, [&](const auto& entry) {
            return !has_copy(after.segments()[after.segment_index(entry.first)], entry.second);
        });
    }
}

/// If who was the learner has its role in the segment now.
void LearningRounds::note_taken(const ViewLearner& learner, const ViewSegment& after,
                                const View& view) {
    if (!has_copy(after, learner.shard)) return;
    const auto round = rounds_.find(view.shard(learner.shard)->server);
    if (round != rounds_.end()) round->second.taken[after.first] = learner.shard;
}

std::map<uint32_t, LearningProgress> LearningRounds::progress(
    const View& view, const std::map<uint64_t, LearnerReport>& complete) const {
    std::map<uint32_t, LearningProgress> all;
    for (const auto& [server, round] : rounds_) {
        LearningProgress& one = all[server];
        one.since = round.since;
        one.taken = static_cast<uint32_t>(round.taken.size());
    }
    std::set<std::pair<uint32_t, uint32_t>> sources;  // a learning server, and a primary
    for (const ViewSegment& segment : view.segments()) {
        if (!segment.has_learner()) continue;
        const uint32_t server = view.shard(segment.learner.shard)->server;
        LearningProgress& one = all[server];
        if (complete.contains(segment.first)) {
            ++one.waiting;
            continue;
        }
        ++(segment.learner.replaces == segment.primary ? one.moves : one.copies);
        one.sources += sources.emplace(server, segment.primary).second ? 1 : 0;
    }
    return all;
}

}  // namespace weir
