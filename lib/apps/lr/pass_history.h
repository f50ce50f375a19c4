// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PassHistory: the ends of the last passes, and a Newton step in the space of their differences.
///
/// Passes over blocks converge slowly along directions in which many weights change together
/// (one-hot groups, correlated columns). The difference between the ends of two passes points
/// along such a direction. This class keeps the last three differences d_a, of weights and of
/// margins, and models the objective at w + sum_a t_a d_a as a quadratic function of t. That is a
/// system of three unknowns, which takes a few sums over the rows. The workers sum up their parts
/// of the system, and each solves the sum. It is a subspace Newton step, close in effect to
/// Anderson acceleration and to the nonlinear conjugate gradient method.

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "lib/apps/lr/sparse_weights.h"

namespace weir::apps {

class PassHistory {
public:
    static constexpr uint64_t kDepth = 3;
    /// The upper triangle of the Hessian in t, row by row, then minus the gradient.
    static constexpr uint64_t kSystemSize = kDepth * (kDepth + 1) / 2 + kDepth;
    using System = std::array<double, kSystemSize>;

    /// The weights of one worker's columns and the margins of its examples.
    struct Point {
        const SparseWeights& weights;
        std::span<const double> margins;
    };

    /// Keeps the end of a pass. Keeps the latest kDepth ends and drops older ones.
    void remember(const SparseWeights& weights, std::span<const double> margins);

    /// Drops all kept ends.
    void forget() noexcept { snapshots_.clear(); }

    [[nodiscard]] uint64_t depth() const noexcept { return snapshots_.size(); }

    /// This worker's part of the Newton system at `now`, to be summed over the workers.
    ///
    /// counted_part(column): the part of a weight's penalty that this worker counts; over the
    ///     workers that have the feature these parts add up to 1
    template <class CountedPart>
    [[nodiscard]] System system(std::span<const int8_t> labels, Point now, double l1,
                                CountedPart counted_part) const {
        System system = loss_part(labels, now.margins);
        // The derivative of l1 |w| along w_s - w_(s + 1) is the difference of the derivatives
        // along w_s and w_(s + 1).
        double newer = penalty_slope(now.weights, now.weights, counted_part);
        for (uint64_t a = 0; a < depth(); ++a) {
            const double older = penalty_slope(now.weights, snapshots_[a].weights, counted_part);
            system[kSystemSize - kDepth + a] -= l1 * (newer - older);
            newer = older;
        }
        return system;
    }

    /// The direction of the Newton step from `now`, for the system summed over all workers.
    /// Returns it in weights and writes it in margins to `margins`.
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
