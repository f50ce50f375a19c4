// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PassHistory: where the last passes ended, and the best step in the few directions between them.
///
/// Passes over blocks converge slowly along directions that many features share (one-hot groups,
/// correlated columns). Such a direction shows as the difference between two passes; a Newton step
/// in the space of the last three differences goes far along it for the price of a few sums over
/// rows.

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "lib/apps/sparse_weights.h"

namespace weir::apps {

class PassHistory {
public:
    static constexpr uint64_t kDepth = 3;
    /// The upper triangle of the curvature between directions, row by row, then the descent along
    /// each.
    static constexpr uint64_t kSystemSize = kDepth * (kDepth + 1) / 2 + kDepth;
    using System = std::array<double, kSystemSize>;

    /// The weights of one worker and what one weight counts for where several workers have it.
    struct Point {
        const SparseWeights& weights;
        std::span<const double> margins;
    };

    /// Remembers the end of a pass; forgets the oldest one beyond kDepth.
    void remember(const SparseWeights& weights, std::span<const double> margins);

    /// Starts anew.
    void forget() noexcept { snapshots_.clear(); }

    [[nodiscard]] uint64_t depth() const noexcept { return snapshots_.size(); }

    /// This worker's part of the Newton system at `now` (to be summed over workers).
    ///
    /// counted_part(column): the part of a weight's penalty that this worker accounts for
    template <class CountedPart>
    [[nodiscard]] System system(std::span<const int8_t> labels, Point now, double l1,
                                CountedPart counted_part) const {
        System system = loss_part(labels, now.margins);
        // Derivative of l1 |w| along w_s - w_(s + 1), from its value along each w_s.
        double newer = penalty_slope(now.weights, now.weights, counted_part);
        for (uint64_t a = 0; a < depth(); ++a) {
            const double older = penalty_slope(now.weights, snapshots_[a].weights, counted_part);
            system[kSystemSize - kDepth + a] -= l1 * (newer - older);
            newer = older;
        }
        return system;
    }

    /// The direction of the Newton step from `now` for the system summed over all workers, in
    /// weights and in margins.
    [[nodiscard]] SparseWeights direction(const System& system, Point now,
                                          std::span<double> margins) const;

private:
    struct Snapshot {
        SparseWeights weights;
        std::vector<double> margins;
    };

    [[nodiscard]] System loss_part(std::span<const int8_t> labels,
                                   std::span<const double> margins) const;

    /// sum of sign(now_j) * other_j * counted_part(j)
    template <class CountedPart>
    static double penalty_slope(const SparseWeights& now, const SparseWeights& other,
                                CountedPart counted_part) {
        double sum = 0;
        for_each_column(now, other, [&](uint32_t column, double w, double o) {
            if (w != 0) sum += (w > 0 ? o : -o) * counted_part(column);
        });
        return sum;
    }

    std::deque<Snapshot> snapshots_;  // the latest first
};

}  // namespace weir::apps
