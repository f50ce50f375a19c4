// SPDX-License-Identifier: Apache-2.0
/// \file
/// LrSolver: one pass over all features, block by block.

#include <cmath>
#include <limits>
#include <utility>

#include "lib/apps/lr/lr_solver.h"
#include "lib/base/prox.h"
#include "lib/linalg/logistic.h"

namespace weir::apps {

namespace {

/// The trust after a step, as the servers compute it, but in float32 and rounded up. So the bound
/// on the curvature holds for every step that the servers may take.
float next_trust(float trust, double step) {
    const double next = trust_after<double>(trust, step);
    const auto rounded = static_cast<float>(next);
    return static_cast<double>(rounded) < next
               ? std::nextafter(rounded, std::numeric_limits<float>::infinity())
               : rounded;
}

}  // namespace

Status LrSolver::run_pass() {
    for (uint64_t i = block_order_.size(); i > 1; --i) {
        std::swap(block_order_[i - 1], block_order_[random_.below(i)]);
    }
    for (const uint32_t block : block_order_)
        WEIR_TRY(run_block(block));
    return {};
}

Status LrSolver::run_block(uint32_t block) {
    const uint32_t first = block * plan_.pieces_per_block;
    const uint32_t last = first + plan_.pieces_per_block;
    const linalg::ColumnRange range = {matrix_.group_begin[first], matrix_.group_begin[last]};
    const std::span<const float> trust(trust_);
    for (linalg::RowTerm& term : terms_)
        term.reach_or_bend = 0;
    linalg::add_reach(columns(), range, trust.subspan(range.begin, range.size()), terms_);
    linalg::logistic_terms(matrix_.labels, margins_, terms_);
    const uint64_t iteration = iteration_;
    const WaitAtExit wait_at_exit(*exchange_);
    for (uint32_t group = first; group < last; ++group) {
        const linalg::ColumnRange piece = group_range(group);
        const uint64_t at = piece.begin - range.begin;
        const std::span<double> pairs = pairs_.subspan(2 * at, 2 * piece.size());
        linalg::gradient_and_curvature(columns(), piece, trust.subspan(piece.begin, piece.size()),
                                       terms_, pairs);
        ++iteration_;
        exchange_->push(iteration_, group_keys(group), pairs);
        exchange_->pull(iteration_, group_keys(group), pulled_.subspan(at, piece.size()));
    }
    for (uint32_t group = first; group < last; ++group) {
        const linalg::ColumnRange piece = group_range(group);
        WEIR_TRY(exchange_->wait(iteration + 1 + (group - first)));
        take_weights(piece, pulled_.subspan(piece.begin - range.begin, piece.size()), true);
    }
    return {};
}

/// Takes over the pulled weights and updates the margins. After a step (not after a move) it also
/// updates the trust.
void LrSolver::take_weights(linalg::ColumnRange range, std::span<const double> pulled, bool step) {
    for (uint64_t k = 0; k < range.size(); ++k) {
        const uint64_t column = range.begin + k;
        const double delta = pulled[k] - weights_[column];
        weights_[column] = pulled[k];
        if (step) trust_[column] = next_trust(trust_[column], delta);
        if (delta != 0)
            linalg::add_to_margins(columns(), {column, column + 1}, {&delta, 1}, margins_);
    }
}

}  // namespace weir::apps
