// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a worker asks the manager about the work of the job, with Kind::kWork.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weir {

/// In `first`. But for kTake there is no body. The answer to kTake is a WorkShare, and that to kLost a
/// LostWorkersMessage; the others have none but their status.
enum class WorkAsk : uint64_t {
    kTake = 0,         ///< its share of the work; the body is a WorkMessage
    kMayGiveBack = 1,  ///< what the answer to kGiveBack would be now
    kGiveBack = 2,     ///< it takes no more work, and is to leave
    kFinish = 3,       ///< the work is done: nobody gets any more
    kLost = 4,         ///< which workers have died or given up
};

struct WorkMessage {
    uint32_t piece_count = 0;  ///< of the whole work
    std::string description;   ///< of it, for those that join

    [[nodiscard]] std::vector<std::byte> encode() const;
    /// Nothing as well if a number or a length is out of bounds.
    [[nodiscard]] static std::optional<WorkMessage> decode(std::span<const std::byte> body);
};

struct LostWorkersMessage {
    static constexpr size_t kWorkersMax = 256;  ///< more are left out
    std::vector<uint32_t> workers;              ///< ascending

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<LostWorkersMessage> decode(std::span<const std::byte> body);
};

}  // namespace weir
