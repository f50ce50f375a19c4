// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of an assignment: one AssignmentMessage has the address of every shard, which is more
/// than a message of the transport can hold if there are many.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lib/node/messages.h"

namespace weir {

/// The bodies of the frames, in the order in which they must be sent. None makes its frame (header
/// and body) longer than `frame_bytes_max`, but each has a shard at least: 1 KiB is enough for any.
[[nodiscard]] std::vector<std::vector<std::byte>> encode_parts(const AssignmentMessage& whole,
                                                               size_t frame_bytes_max);

/// Puts together what encode_parts() took apart. Holds no more than Assignment::kPointCountMax
/// shards, whatever is sent.
class AssignmentParts {
public:
    /// Takes the body of the next frame. False: it is malformed, or no sequel to those before it.
    [[nodiscard]] bool add(std::span<const std::byte> body);

    /// All shards are here.
    [[nodiscard]] bool complete() const noexcept {
        return whole_ && whole_->shards.size() == whole_->shard_count();
    }

    /// The whole, which must be complete.
    [[nodiscard]] const AssignmentMessage& whole() const noexcept { return *whole_; }

private:
    std::optional<AssignmentMessage> whole_;
};

}  // namespace weir
