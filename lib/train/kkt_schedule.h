// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KktSchedule: which passes look at all features although a KKT filter is on, and the margin of the filter.

#include <cstdint>
#include <limits>

namespace weir {

/// The first pass is over all features, and the servers say with it which are at rest. Then come passes that
/// leave these out, the same ones in each, so that lists of keys repeat; then one over all again. If that one
/// moves many weights which the others have left out, the filter lets go too early: its margin grows, and the
/// next pass over all comes sooner. Else the margin shrinks, and it comes later.
///
/// Every worker must make the same calls with the same numbers; then all have the same schedule, and push the
/// same `rest`, to the bit.
///
/// Pure and deterministic. Thread: one
class KktSchedule {
public:
    /// `lambda`: of the penalty; 0: nothing is ever at rest, and all passes are over all features.
    explicit KktSchedule(double lambda) noexcept : lambda_(lambda) {}

    /// Whether the next pass, or the one that is under way, is over all features.
    [[nodiscard]] bool is_whole() const noexcept { return filtered_left_ == 0; }

    /// For prox_l1_step(): lambda - delta in a pass over all features. Next to nothing in others: what they keep
    /// is kept until the next of these.
    [[nodiscard]] double rest() const noexcept {
        constexpr double kNothingRests = std::numeric_limits<float>::min();
        return is_whole() ? lambda_ * (1 - margin_) : kNothingRests;
    }

    /// Ends the pass that is under way.
    ///
    /// woken: features of all workers that were at rest when it began and whose weight it has moved
    /// nonzero: features of all workers whose weight is not 0
    /// next_is_whole: whatever the schedule says, such as before a pass that may be the last
    void end_pass(uint64_t woken, uint64_t nonzero, bool next_is_whole) noexcept;

    /// Whether a lack of progress by the end of the pass that is under way says anything. Features that were
    /// left out need a few passes over all to show what they gain.
    [[nodiscard]] bool may_settle() const noexcept;

private:
    void adapt(uint64_t woken, uint64_t nonzero) noexcept;

    double lambda_;
    double margin_ = 0.125;       ///< delta / lambda; a power of two
    uint32_t interval_ = 1;       ///< passes that leave out, between two over all
    uint32_t filtered_left_ = 0;  ///< of those, how many are left
    uint32_t whole_in_row_ = 0;   ///< passes over all that have ended since one that left out
    bool has_left_out_ = false;   ///< such a pass has ended
};

}  // namespace weir
