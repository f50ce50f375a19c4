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

    /// Whether the pass that is under way is over all features.
    [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }

    /// For prox_l1_step(): lambda - delta in a pass over all features. Next to nothing in others: what they keep
    /// is kept until the next of these.
    [[nodiscard]] double rest() const noexcept {
        constexpr double kNothingRests = std::numeric_limits<float>::min();
        return is_whole() ? lambda_ * (1 - margin_) : kNothingRests;
    }

    /// Whether the pass that is under way says how good the margin is: then judge() is called with its totals. They
    /// may come late, when the next pass has begun.
    [[nodiscard]] bool is_judging() const noexcept {
        return is_whole() && has_left_out_ && whole_in_row_ == 0;
    }

    /// woken: features of all workers that were at rest when that pass began and whose weight it has moved
    /// nonzero: features of all workers whose weight is not 0
    void judge(uint64_t woken, uint64_t nonzero) noexcept;

    /// Ends the pass that is under way, and begins the next one. `whole`: it is over all features, whatever the
    /// schedule says, such as one that may be the last.
    void begin_next(bool whole) noexcept;

    /// Whether a lack of progress by the end of the pass that is under way says anything. Features that were
    /// left out need a few passes over all to show what they gain.
    [[nodiscard]] bool may_settle() const noexcept;

private:
    double lambda_;
    double margin_ = 0.125;         ///< delta / lambda; a power of two
    uint32_t interval_ = 1;         ///< passes that leave out, between two over all
    bool is_whole_ = true;          ///< the pass that is under way
    uint32_t left_out_in_row_ = 0;  ///< passes that leave out, which have ended since one over all
    uint32_t whole_in_row_ = 0;     ///< passes over all that have ended since one that left out
    bool has_left_out_ = false;     ///< such a pass has ended
};

}  // namespace weir
