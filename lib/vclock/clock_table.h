// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClockTable: the range clocks of all workers of a table at a shard.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/vclock/clock_times.h"
#include "lib/vclock/range_clock.h"

namespace weir {

/// Worker numbers are never used twice. `held` is the shard's current list, as for RangeClock.
///
/// Thread: the shard's
class ClockTable {
public:
    /// The clock of a worker; if there is none yet, a new one with time 0. It stays where it is
    /// until the worker is gone, so a session may keep the pointer. Null if the worker is gone:
    /// nothing of it may be executed.
    [[nodiscard]] RangeClock* of(uint32_t worker);

    /// The clock of a worker, or null if it has none.
    [[nodiscard]] const RangeClock* find(uint32_t worker) const noexcept;

    /// Drops the clocks of workers that are gone: their number is below `next_worker`, so it was
    /// given out, but it is not among `members` (ascending). Higher numbers belong to workers of a
    /// later view, whose records may be here already. A `next_worker` below that of an earlier
    /// call has no effect, since views only go forward.
    void drop_gone(std::span<const uint32_t> members, uint32_t next_worker);

    [[nodiscard]] bool is_gone(uint32_t worker) const noexcept;

    /// RangeClock::adopt() for all clocks.
    void adopt(const SegmentList& before, const SegmentList& after);

    /// The times of all workers in `range`, which must be covered by `held`.
    [[nodiscard]] ClockTimes part(const SegmentList& held, PositionRange range) const;
    /// Takes over times from another shard: in their range, every clock is set as given. The times
    /// of workers that are gone here are left out. False, and nothing changed, if `held` does not
    /// cover the range.
    [[nodiscard]] bool take(const SegmentList& held, const ClockTimes& times);

    [[nodiscard]] size_t count() const noexcept { return clocks_.size(); }

    /// Memory in use, about; looks at every clock.
    [[nodiscard]] size_t bytes() const noexcept;

private:
    std::map<uint32_t, RangeClock> clocks_;  // its elements never move
    std::vector<uint32_t> members_;
    uint32_t next_worker_ = 0;
};

}  // namespace weir
