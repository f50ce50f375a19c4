// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClosedIterations: which iteration of a table was closed last, and which failed, by ranges of
/// ring positions. It moves with the rows: the update rule runs once per iteration on each row,
/// whichever shard has it.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/position.h"

namespace weir {

/// Why an iteration ended without running its rule, and through which worker.
struct IterationFailure {
    Errc status = Errc::kOk;
    uint32_t worker = 0;  ///< its part failed, or it was lost before its parts arrived
    uint32_t other = 0;   ///< kDifferentArguments: from whose they differ
    friend bool operator==(IterationFailure, IterationFailure) noexcept = default;
};

struct FailedIteration {
    uint64_t iteration = 0;
    IterationFailure failure;
    friend bool operator==(FailedIteration, FailedIteration) noexcept = default;
};

/// How far the iterations of a table have come at some positions.
struct ClosedState {
    /// So many of the last closed iterations are remembered if they failed. A worker has at most a
    /// window of iterations open, or as many as this of a table without a max_delay, so a part that
    /// it repeats is not older.
    static constexpr uint64_t kRemembered = 64;
    static constexpr uint64_t kIterationMax = uint64_t{1} << 62;

    uint64_t last = 0;                    ///< the last closed iteration; 0: none is closed
    std::vector<FailedIteration> failed;  ///< ascending, of the last kRemembered closed ones

    [[nodiscard]] std::optional<IterationFailure> failure_of(uint64_t iteration) const noexcept;

    /// Whether it is as described here; one that comes from a peer may not be.
    [[nodiscard]] bool is_sound() const noexcept;

    friend bool operator==(const ClosedState&, const ClosedState&) = default;
};

/// Positions with equal state, as they move from shard to shard.
struct ClosedRun {
    PositionRange range;
    ClosedState state;
    friend bool operator==(const ClosedRun&, const ClosedRun&) = default;
};

/// Of one table at one shard: of the positions that it is primary of, which count for lowest() and
/// which close() changes; and of those that it only learns, whose state is set from elsewhere.
///
/// Shape:  one run for each row of neighbours in which all is equal
/// Thread: the shard's
class ClosedIterations {
public:
    /// The shard is primary of these ranges, which are disjoint, and of nothing else. Where nothing
    /// was known, no iteration is closed. What it is primary of no more is kept until drop().
    void set_primary(std::span<const PositionRange> ranges);

    /// Sets the state of a range, whatever it was. `run.state` must be sound.
    void set(const ClosedRun& run);
    /// Forgets a range. The shard must not be primary of any of it.
    void drop(PositionRange range);

    /// What is known of a range, ascending; neighbours differ, or have a gap between them.
    [[nodiscard]] std::vector<ClosedRun> runs(PositionRange range) const;
    /// The state at a position; null if nothing is known of it.
    [[nodiscard]] const ClosedState* find(uint64_t position) const noexcept;

    // Of the positions that the shard is primary of; 0 if there are none:

    /// The last iteration that is closed at all of them.
    [[nodiscard]] uint64_t lowest() const noexcept { return lowest_; }

    /// The last iteration that is closed at some of them.
    [[nodiscard]] uint64_t highest() const noexcept { return highest_; }

    /// Whether there are any.
    [[nodiscard]] bool has_primary() const noexcept { return has_primary_; }

    /// Whether no iteration that is remembered failed at any of them.
    [[nodiscard]] bool has_no_failure() const noexcept { return !has_failure_; }

    /// How a closed iteration failed at some of them.
    [[nodiscard]] std::optional<IterationFailure> failure_of(uint64_t iteration) const noexcept;

    /// Closes the iterations up to `iteration`, which is above lowest(), wherever they are not
    /// closed. `failure`: of the last one.
    void close(uint64_t iteration, const std::optional<IterationFailure>& failure);

    [[nodiscard]] size_t run_count() const noexcept { return entries_.size(); }

private:
    struct Entry {
        PositionRange range;
        bool is_primary = false;
        ClosedState state;
    };

    [[nodiscard]] size_t first_ending_at(uint64_t position) const noexcept;
    size_t cut_before(uint64_t position);
    size_t cut_after(uint64_t position);
    template <class Change>
    void change(PositionRange range, Change&& to);
    void settle();

    std::vector<Entry> entries_;  ///< ascending and disjoint
    uint64_t lowest_ = 0;
    uint64_t highest_ = 0;
    bool has_primary_ = false;
    bool has_failure_ = false;
};

}  // namespace weir
