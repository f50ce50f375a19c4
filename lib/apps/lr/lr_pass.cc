// SPDX-License-Identifier: Apache-2.0
/// \file
/// LrSolver: one pass over all features, block by block.

#include <utility>

#include "lib/apps/lr/lr_solver.h"
#include "lib/base/prox.h"
#include "lib/linalg/logistic.h"

namespace weir::apps {

Status LrSolver::run_pass() {
    for (uint64_t i = block_order_.size(); i > 1; --i) {
        std::swap(block_order_[i - 1], block_order_[random_.below(i)]);
    }
    choose_features();
    for (const uint32_t block : block_order_)
        WEIR_TRY(run_block(block));
    return {};
}

/// All workers have the same schedule, and have pulled the weights of their features after the same
/// iterations. So they leave out the same features.
void LrSolver::choose_features() {
    if (kkt_.is_whole()) {
        filter_.keep_all();
    } else {
        filter_.leave_out_resting(weights_);
    }
    left_out_count_ = 0;
    filter_.for_each_left_out(
        [&](uint64_t column) { left_out_count_ += owners_.counted_part(column); });
    woken_count_ = 0;
}

Status LrSolver::run_block(uint32_t block) {
    const uint32_t first = block * plan_.pieces_per_block;
    const uint32_t last = first + plan_.pieces_per_block;
    const uint64_t kept_before = filter_.kept_before(first);
    for (linalg::RowTerm& term : terms_)
        term.reach_or_bend = 0;
    // Weights that are left out cannot move: without their reach the bound on the curvature holds.
    for (uint32_t group = first; group < last; ++group) {
        for (const FeatureRange& kept : filter_.ranges(group))
            linalg::add_reach(columns(), {kept.begin, kept.end}, trust_of(kept), terms_);
    }
    linalg::logistic_terms(matrix_.labels, margins_, terms_);
    const uint64_t iteration = iteration_;
    const WaitAtExit wait_at_exit(*exchange_);
    for (uint32_t group = first; group < last; ++group) {
        uint64_t at = filter_.kept_before(group) - kept_before;
        const std::span<const uint64_t> keys = filter_.keys(group);
        const std::span<double> pairs = pairs_.subspan(2 * at, 2 * keys.size());
        const std::span<double> pulled = pulled_.subspan(at, keys.size());
        for (const FeatureRange& kept : filter_.ranges(group)) {
            linalg::gradient_and_curvature(columns(), {kept.begin, kept.end}, trust_of(kept),
                                           terms_, pairs_.subspan(2 * at, 2 * kept.size()));
            at += kept.size();
        }
        ++iteration_;
        exchange_->push(iteration_, keys, pairs, kkt_.rest());
        exchange_->pull(iteration_, keys, pulled);
    }
    for (uint32_t group = first; group < last; ++group) {
        uint64_t at = filter_.kept_before(group) - kept_before;
        WEIR_TRY(exchange_->wait(iteration + 1 + (group - first)));
        for (const FeatureRange& kept : filter_.ranges(group)) {
            take_weights({kept.begin, kept.end}, pulled_.subspan(at, kept.size()), true);
            at += kept.size();
        }
    }
    return {};
}

std::span<const float> LrSolver::trust_of(const FeatureRange& range) const noexcept {
    return std::span(trust_).subspan(range.begin, range.size());
}

/// Takes over the pulled weights and updates the margins. After a step (not after a move) it also
/// updates the trust.
void LrSolver::take_weights(linalg::ColumnRange range, std::span<const double> pulled, bool step) {
    for (uint64_t k = 0; k < range.size(); ++k) {
        const uint64_t column = range.begin + k;
        const double delta = pulled[k] - weights_[column];
        if (step && is_at_rest(weights_[column]) && pulled[k] != 0)
            woken_count_ += owners_.counted_part(column);
        weights_[column] = pulled[k];
        if (step) trust_[column] = trust_bound_after(trust_[column], delta);
        if (delta != 0)
            linalg::add_to_margins(columns(), {column, column + 1}, {&delta, 1}, margins_);
    }
}

}  // namespace weir::apps
