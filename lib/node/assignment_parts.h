// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of an assignment: an AssignmentMessage has the address of every shard. If there are
/// many shards it does not fit into one message of the transport, and is sent in parts.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/node/messages.h"

namespace weir {

/// The bodies of the frames, in the order in which they must be sent. No frame (header and body)
/// is longer than `frame_bytes_max`, if that is 1 KiB or more. Each has at least one shard.
[[nodiscard]] std::vector<std::vector<std::byte>> encode_parts(const AssignmentMessage& whole,
                                                               size_t frame_bytes_max);

/// Puts the parts that encode_parts() made together again. Holds at most
/// Assignment::kPointCountMax shards, whatever the peer sends.
class AssignmentParts {
public:
    /// Takes the body of the next frame. False: it is malformed, or not the next part.
    [[nodiscard]] bool add(std::span<const std::byte> body);

    /// True once all shards are here.
    [[nodiscard]] bool complete() const noexcept {
        return whole_ && whole_->shards.size() == whole_->shard_count();
    }

    /// The whole assignment. Only once complete().
    [[nodiscard]] const AssignmentMessage& whole() const noexcept { return *whole_; }

private:
    std::optional<AssignmentMessage> whole_;
};

}  // namespace weir
