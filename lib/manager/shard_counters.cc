// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/shard_counters.h"

namespace weir {

void ShardCounters::ask(const std::vector<ShardPeer>& shards, uint64_t now_ns) {
    is_asking_ = true;
    since_ns_ = now_ns;
    counters_.clear();
    missing_.clear();
    wire::FrameHeader header = wire::header_of(wire::Kind::kStats);
    header.request = ++request_;
    for (const ShardPeer& shard : shards) {
        missing_.insert(shard.number);
        outbox_.send(shard.connection, header);
    }
}

Status ShardCounters::take(uint32_t shard, const wire::Frame& frame) {
    const auto message = StatsMessage::decode(frame.values);
    if (!message) return Error(Errc::kProtocol, "malformed counters");
    if (frame.header.request != request_ || missing_.erase(shard) == 0) return {};  // it is late
    counters_[shard] = *message;
    return {};
}

bool ShardCounters::ends(uint64_t now_ns) {
    if (!is_asking_ || (!missing_.empty() && now_ns - since_ns_ < kAnswerNs)) return false;
    is_asking_ = false;
    return true;
}

}  // namespace weir
