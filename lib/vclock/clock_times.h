// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClockTimes: the times of one range of the ring, of one worker or of all workers of a table, as
/// they move from one shard to another with a chunk. They can be encoded.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/byte_codec.h"
#include "lib/key/position.h"

namespace weir {

/// From position `from` on, up to the next step, the time is `time`.
struct ClockStep {
    uint64_t from = 0;
    uint64_t time = 0;
    friend bool operator==(ClockStep, ClockStep) noexcept = default;
};

/// Every step holds at least one segment, or a part of a segment that is being copied.
inline constexpr size_t kClockStepsMax = size_t{1} << 17;

/// Times of one worker. The first step begins where the range begins; `from` ascends, and
/// neighbours have different times.
struct WorkerTimes {
    uint32_t worker = 0;
    std::vector<ClockStep> steps;
    friend bool operator==(const WorkerTimes&, const WorkerTimes&) = default;
};

/// Times of the workers of a table in `range`. A worker that is not listed has time 0 there.
struct ClockTimes {
    PositionRange range;
    std::vector<WorkerTimes> workers;  ///< by ascending number; none is 0 in the whole range

    /// Encoded: the range (2 x 8 bytes), the number of workers (4); of each its number (4), the
    /// number of steps (4), the first time (8), and `from` and `time` (2 x 8) of each other step.
    void encode(ByteWriter& to) const;
    /// Reads what encode() wrote; what follows it is left in `from`. Nothing if the bytes are not
    /// exactly what encode() writes for some times. Allocates at most in proportion to the bytes
    /// that are there.
    [[nodiscard]] static std::optional<ClockTimes> decode(ByteReader& from);

    friend bool operator==(const ClockTimes&, const ClockTimes&) = default;
};

}  // namespace weir
