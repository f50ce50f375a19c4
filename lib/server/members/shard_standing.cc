// SPDX-License-Identifier: Apache-2.0
#include "lib/server/members/shard_standing.h"

#include <fmt/core.h>

namespace weir {

std::string ShardStanding::name() const {
    return fmt::format("shard {}{}", options_.number, has_number() ? "" : " of a joining server");
}

JoinMessage ShardStanding::join_message(std::string address, uint64_t pass) const {
    JoinMessage message{JoinMessage::Role::kShard, options_.rank, options_.number,
                        std::move(address), options_.host};
    message.host_name = options_.host_name;
    if (options_.join) {
        message.joiner = options_.join->joiner;
        message.shard_count = options_.join->shard_count;
        message.weight = options_.join->weight;
        message.pool_bytes = options_.join->pool_bytes;
        message.plugins = options_.join->plugins;
    }
    message.pass = pass;
    return message;
}

void ShardStanding::set_number(const AdmitMessage& numbers) {
    has_number_ = true;
    options_.number = numbers.number;
    options_.rank = numbers.rank;
}

void ShardStanding::end(Status outcome) {
    if (phase_ == Phase::kOver) return;
    if (phase_ != Phase::kThrown || !outcome) outcome_ = std::move(outcome);
    phase_ = Phase::kOver;
}

void ShardStanding::throw_out(const Error& why) {
    has_thrown_ = true;
    if (phase_ == Phase::kJoining || has_lost_manager_) return end(why);  // nobody else ends it
    phase_ = Phase::kThrown;
    outcome_ = why;
}

void ShardStanding::apply(View view, uint64_t since) {
    view_ = std::move(view);
    since_ = since;
    phase_ = Phase::kServing;
}

std::vector<PositionRange> ShardStanding::primary_ranges() const {
    std::vector<PositionRange> ranges;
    for (const uint32_t segment : view_.segments_of(options_.number))
        ranges.push_back(view_.range(segment));
    return ranges;
}

/// A shard serves all epochs in which it owned what it owns now. A later one may be on its way: a
/// worker may have a view before the shard has it.
ShardStanding::OfEpoch ShardStanding::judge_other(uint32_t epoch) const noexcept {
    const auto ahead = static_cast<int32_t>(epoch - static_cast<uint32_t>(view_.epoch()));
    if (ahead > 0) return OfEpoch::kEarly;
    const auto behind = static_cast<uint64_t>(-int64_t{ahead});
    return behind <= view_.epoch() - since_ ? OfEpoch::kServed : OfEpoch::kStale;
}

}  // namespace weir
