// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ChunkCheck: whether the bytes of a checkpoint's chunks are those that were written.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/checkpoint/disk.h"
#include "lib/checkpoint/manifest.h"

namespace weir::checkpoint {

/// When a check ends that may take long.
struct CheckEnd {
    const Clock& clock;
    uint64_t at_ns = 0;
};

/// Reads chunks one after the other, and one that several checkpoints name only once.
///
/// Thread: one
class ChunkCheck {
public:
    /// `disk` must outlive it. Without an `end`, it reads all.
    ChunkCheck(Disk& disk, std::string folder, std::optional<CheckEnd> end = {})
        : disk_(disk), folder_(std::move(folder)), end_(end) {}

    /// Reads the chunks of a manifest, to the first that is damaged or until the end. Returns how many
    /// were not read because it was time to end.
    /// Errors: those of read_chunk()
    [[nodiscard]] Result<size_t> check(const Manifest& manifest);

private:
    [[nodiscard]] bool is_over() const { return end_ && end_->clock.now_ns() >= end_->at_ns; }

    Disk& disk_;
    std::string folder_;
    std::optional<CheckEnd> end_;
    std::set<std::pair<std::string, uint64_t>> right_;  ///< names and checksums
    std::vector<std::byte> bytes_;
};

}  // namespace weir::checkpoint
