// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/pass_history.h"

#include <cmath>
#include <utility>

#include "lib/linalg/logistic.h"

namespace weir::apps {

namespace {

constexpr uint64_t kDepth = PassHistory::kDepth;
using Matrix = std::array<std::array<double, kDepth>, kDepth>;
using Vector = std::array<double, kDepth>;

/// Solves the system for the step along each direction. The ridge keeps it solvable if directions
/// depend on each other.
Vector solve(const PassHistory::System& system, uint64_t depth) {
    Matrix h = {};
    Vector scale = {};
    Vector x = {};
    uint64_t k = 0;
    for (uint64_t a = 0; a < kDepth; ++a) {
        for (uint64_t b = a; b < kDepth; ++b)
            h[a][b] = h[b][a] = system[k++];
    }
    for (uint64_t a = 0; a < depth; ++a) {
        scale[a] = h[a][a] > 0 ? 1 / std::sqrt(h[a][a]) : 0;
        x[a] = system[k + a] * scale[a];
    }
    constexpr double kRidge = 1e-9;
    for (uint64_t a = 0; a < depth; ++a) {
        for (uint64_t b = 0; b < depth; ++b)
            h[a][b] *= scale[a] * scale[b];
    }
    for (uint64_t a = 0; a < depth; ++a)
        h[a][a] = (scale[a] > 0 ? h[a][a] : 1.0) + kRidge;
    for (uint64_t a = 0; a < depth; ++a) {  // Gauss; positive definite, so no pivoting
        for (uint64_t b = a + 1; b < depth; ++b) {
            const double factor = h[b][a] / h[a][a];
            for (uint64_t c = a; c < depth; ++c)
                h[b][c] -= factor * h[a][c];
            x[b] -= factor * x[a];
        }
    }
    for (uint64_t a = depth; a-- > 0;) {
        for (uint64_t b = a + 1; b < depth; ++b)
            x[a] -= h[a][b] * x[b];
        x[a] /= h[a][a];
    }
    for (uint64_t a = 0; a < depth; ++a)
        x[a] *= scale[a];
    return x;
}

}  // namespace

void PassHistory::remember(const SparseWeights& weights, std::span<const double> margins) {
    Snapshot snapshot;
    if (snapshots_.size() == kDepth) {  // reuses the memory of the oldest
        snapshot = std::move(snapshots_.back());
        snapshots_.pop_back();
    }
    snapshot.weights = weights;
    snapshot.margins.assign(margins.begin(), margins.end());
    snapshots_.push_front(std::move(snapshot));
}

PassHistory::System PassHistory::loss_part(std::span<const int8_t> labels,
                                           std::span<const double> margins) const {
    System system = {};
    for (uint64_t i = 0; i < labels.size(); ++i) {
        const double alpha = linalg::logistic_alpha(labels[i] * margins[i]);
        Vector difference = {};
        double newer = margins[i];
        for (uint64_t a = 0; a < depth(); ++a) {
            const double older = snapshots_[a].margins[i];
            difference[a] = newer - older;
            newer = older;
        }
        const double bend = alpha * (1 - alpha);
        uint64_t k = 0;
        for (uint64_t a = 0; a < kDepth; ++a) {
            for (uint64_t b = a; b < kDepth; ++b)
                system[k++] += bend * difference[a] * difference[b];
        }
        for (uint64_t a = 0; a < kDepth; ++a)
            system[k++] += labels[i] * alpha * difference[a];
    }
    return system;
}

SparseWeights PassHistory::direction(const System& system, Point now,
                                     std::span<double> margins) const {
    const Vector step = solve(system, depth());
    // sum_a step_a (w_a - w_(a + 1)), with w_0 = now, regrouped by w_a.
    SparseWeights sum = add_scaled({}, step[0], now.weights);
    for (uint64_t i = 0; i < margins.size(); ++i)
        margins[i] = step[0] * now.margins[i];
    for (uint64_t a = 0; a < depth(); ++a) {
        const double factor = (a + 1 < depth() ? step[a + 1] : 0.0) - step[a];
        const std::vector<double>& older = snapshots_[a].margins;
        sum = add_scaled(sum, factor, snapshots_[a].weights);
        for (uint64_t i = 0; i < margins.size(); ++i)
            margins[i] += factor * older[i];
    }
    return sum;
}

}  // namespace weir::apps
