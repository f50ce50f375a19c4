// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/online/online_learner.h"

#include <algorithm>
#include <cmath>

namespace weir::apps {
namespace {

/// Calls visit(example, place, value) for each non-zero of the examples.
template <class Visit>
void for_each_value(const data::ParsedLines& lines, std::span<const uint32_t> places, Visit visit) {
    size_t i = 0;
    for (size_t example = 0; example < lines.lengths.size(); ++example) {
        for (const size_t end = i + lines.lengths[example]; i < end; ++i)
            visit(example, places[i], lines.values[i]);
    }
}

}  // namespace

OnlineLearner::~OnlineLearner() {
    for (Batch& batch : batches_) {
        (void)batch.pull.wait();
        (void)batch.push.wait();
    }
}

/// A buffer grows in steps, so that batches of about one size soon make none any more.
Status OnlineLearner::make_room(Batch& batch, size_t values) {
    if (batch.weights.size() >= values) return {};
    const size_t count = values + values / 2;
    WEIR_ASSIGN(batch.weights, client_.make_buffer<float>(count));
    WEIR_ASSIGN(batch.gradients, client_.make_buffer<float>(count));
    return {};
}

Status OnlineLearner::take(data::ParsedLines& lines, uint32_t piece, uint64_t place) {
    Batch& batch = batches_[taken_ % kBatches];
    WEIR_TRY(end_push(batch));
    std::swap(batch.lines, lines);
    batch.piece = piece;
    batch.place = place;
    if (function_.loss() == Loss::kLogistic) {
        batch.targets.assign(batch.lines.labels.begin(), batch.lines.labels.end());
    } else {
        std::swap(batch.targets, batch.lines.numbers);
    }
    batch.keys.assign(batch.lines.keys);
    const size_t values = batch.keys.keys().size() * function_.width();
    WEIR_TRY(make_room(batch, values));
    batch.pull = weights_.pull(batch.keys.keys(), batch.weights.span().first(values));
    ++taken_;
    return computed_ + 1 < taken_ ? learn(batches_[computed_++ % kBatches]) : Status();
}

void OnlineLearner::predict(Batch& batch) const {
    const size_t width = function_.width();
    batch.scores.assign(batch.targets.size() * width, 0);
    const float* const w = batch.weights.data();
    float* const scores = batch.scores.data();
    if (width == 1) {
        for_each_value(
            batch.lines, batch.keys.places(),
            [&](size_t example, uint32_t place, float x) { scores[example] += w[place] * x; });
        return;
    }
    for_each_value(batch.lines, batch.keys.places(), [&](size_t example, uint32_t place, float x) {
        float* const to = scores + example * width;
        const float* const from = w + place * width;
        for (size_t k = 0; k < width; ++k)
            to[k] += from[k] * x;
    });
}

void OnlineLearner::add_up_gradients(Batch& batch) const {
    const size_t width = function_.width();
    float* const g = batch.gradients.data();
    const float* const slopes = batch.scores.data();
    std::fill_n(g, batch.keys.keys().size() * width, 0.0F);
    if (width == 1) {
        for_each_value(
            batch.lines, batch.keys.places(),
            [&](size_t example, uint32_t place, float x) { g[place] += slopes[example] * x; });
        return;
    }
    for_each_value(batch.lines, batch.keys.places(), [&](size_t example, uint32_t place, float x) {
        float* const to = g + place * width;
        const float* const from = slopes + example * width;
        for (size_t k = 0; k < width; ++k)
            to[k] += from[k] * x;
    });
}

Status OnlineLearner::learn(Batch& batch) {
    WEIR_TRY(batch.pull.wait());
    predict(batch);
    sums_.add(function_, batch.targets, batch.scores, batch.lines.keys.size());
    if (!std::ranges::all_of(batch.scores, [](float slope) { return std::isfinite(slope); })) {
        return Error(
            Errc::kNotFinite,
            "the training diverges: a score is not a finite number any more; give a smaller "
            "learning rate, or scale the values of the features");
    }
    add_up_gradients(batch);
    const size_t values = batch.keys.keys().size() * function_.width();
    batch.push = weights_.push(batch.keys.keys(), batch.gradients.span().first(values));
    batch.is_under_way = true;
    return {};
}

Status OnlineLearner::end_push(Batch& batch) {
    if (!batch.is_under_way) return {};
    batch.is_under_way = false;
    WEIR_TRY(batch.push.wait());
    learned_(batch.piece, batch.place);
    return {};
}

Status OnlineLearner::finish() {
    while (computed_ < taken_)
        WEIR_TRY(learn(batches_[computed_++ % kBatches]));
    for (uint64_t i = 0; i < kBatches; ++i)  // the oldest first: places of a piece only rise
        WEIR_TRY(end_push(batches_[(taken_ + i) % kBatches]));
    return {};
}

}  // namespace weir::apps
