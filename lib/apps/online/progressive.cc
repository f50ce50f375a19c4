// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/online/progressive.h"

#include <algorithm>

namespace weir::apps {
namespace {

constexpr float kBinsPerUnit = 64;

/// Also of a NaN, which is in the middle.
uint32_t bin_of(float score) noexcept {
    constexpr auto kMiddle = static_cast<float>(ProgressiveSums::kBins / 2);
    const float place = score * kBinsPerUnit + kMiddle;
    if (place >= 0 && place < 2 * kMiddle) return static_cast<uint32_t>(place);
    return place < 0 ? 0 : place > 0 ? ProgressiveSums::kBins - 1 : ProgressiveSums::kBins / 2;
}

}  // namespace

void ProgressiveSums::add(const LossFunction& function, std::span<const float> targets,
                          std::span<float> scores, uint64_t features) {
    if (function.loss() == Loss::kLogistic) {
        for (size_t i = 0; i < targets.size(); ++i)
            values_[kHistogram + (targets[i] > 0 ? kBins : 0) + bin_of(scores[i])] += 1;
    }
    LossSums sums;
    function.take(targets, scores, sums);
    values_[kExamples] += static_cast<double>(targets.size());
    values_[kFeatures] += static_cast<double>(features);
    values_[kLoss] += sums.loss;
    values_[kRight] += static_cast<double>(sums.right);
}

void ProgressiveSums::clear() {
    std::ranges::fill(values_, 0);
}

std::optional<double> ProgressiveSums::auc() const {
    const auto negative = std::span(values_).subspan(kHistogram, kBins);
    const auto positive = std::span(values_).subspan(kHistogram + kBins, kBins);
    double below = 0;
    double right = 0;
    double positives = 0;
    for (uint32_t i = 0; i < kBins; ++i) {
        right += positive[i] * (below + negative[i] / 2);
        below += negative[i];
        positives += positive[i];
    }
    if (below == 0 || positives == 0) return std::nullopt;
    return right / (below * positives);
}

OnlineProgress ProgressiveSums::progress(Loss loss, const ProgressiveSums& before) const {
    OnlineProgress now;
    now.examples = static_cast<uint64_t>(values_[kExamples]);
    now.features = static_cast<uint64_t>(values_[kFeatures]);
    now.bad_lines = static_cast<uint64_t>(values_[kBadLines]);
    if (now.examples == 0) return now;
    now.loss = values_[kLoss] / values_[kExamples];
    const double recent = values_[kExamples] - before.values_[kExamples];
    now.recent_loss = recent > 0 ? (values_[kLoss] - before.values_[kLoss]) / recent : now.loss;
    if (loss != Loss::kSquared) now.accuracy = values_[kRight] / values_[kExamples];
    if (loss == Loss::kLogistic) now.auc = auc();
    return now;
}

}  // namespace weir::apps
