// SPDX-License-Identifier: Apache-2.0
#include "lib/node/assignment_parts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/wire/frame.h"

namespace weir {

std::vector<std::vector<std::byte>> encode_parts(const AssignmentMessage& whole,
                                                 size_t frame_bytes_max) {
    std::vector<std::vector<std::byte>> bodies;
    AssignmentMessage part = whole;
    part.shards.clear();
    const size_t empty_bytes = sizeof(wire::FrameHeader) + part.encode().size();
    size_t bytes = empty_bytes;
    const auto end_part = [&] {
        bodies.push_back(part.encode());
        part.first += static_cast<uint32_t>(part.shards.size());
        part.shards.clear();
        bytes = empty_bytes;
    };
    for (const AssignmentMessage::Shard& shard : whole.shards) {
        const size_t shard_bytes = 2 * sizeof(uint32_t) + shard.address.size();  // rank, length
        if (!part.shards.empty() && bytes + shard_bytes > frame_bytes_max) end_part();
        part.shards.push_back(shard);
        bytes += shard_bytes;
    }
    if (!part.shards.empty()) end_part();
    return bodies;
}

bool AssignmentParts::add(std::span<const std::byte> body) {
    std::optional<AssignmentMessage> part = AssignmentMessage::decode(body);
    if (!part || complete()) return false;
    if (!whole_) {
        if (part->first != 0) return false;
        whole_ = std::move(part);
        return true;
    }
    if (part->epoch != whole_->epoch || part->shape != whole_->shape ||
        part->worker_count != whole_->worker_count || part->first != whole_->shards.size()) {
        return false;
    }
    std::ranges::move(part->shards, std::back_inserter(whole_->shards));
    return true;
}

}  // namespace weir
