// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "lib/linalg/logistic.h"

namespace weir::apps {
namespace {

constexpr std::array<std::pair<Loss, std::string_view>, 3> kNames{
    {{Loss::kLogistic, "logistic"}, {Loss::kSoftmax, "softmax"}, {Loss::kSquared, "squared"}}};

/// S: float, or double of those that want every digit.
template <class S>
void take_logistic(std::span<const float> targets, std::span<S> scores, LossSums& sums) noexcept {
    for (size_t i = 0; i < targets.size(); ++i) {
        const double margin = static_cast<double>(targets[i]) * static_cast<double>(scores[i]);
        sums.loss += linalg::logistic_loss(margin);
        sums.right += (scores[i] > 0) == (targets[i] > 0) ? 1 : 0;
        scores[i] = static_cast<S>(-targets[i]) * static_cast<S>(linalg::logistic_alpha(margin));
    }
}

template <class S>
void take_softmax(std::span<const float> targets, std::span<S> scores, size_t width,
                  LossSums& sums) noexcept {
    for (size_t i = 0; i < targets.size(); ++i) {
        const std::span<S> row = scores.subspan(i * width, width);
        const auto is = static_cast<size_t>(targets[i]);
        const S greatest = *std::max_element(row.begin(), row.end());
        sums.right +=
            row[is] == greatest && std::max_element(row.begin(), row.end()) - row.begin() ==
                                       static_cast<std::ptrdiff_t>(is)
                ? 1
                : 0;
        const auto margin = static_cast<double>(row[is] - greatest);
        double sum = 0;
        for (S& score : row) {
            score = std::exp(score - greatest);
            sum += static_cast<double>(score);
        }
        sums.loss += std::log(sum) - margin;
        const auto scale = static_cast<S>(1 / sum);
        for (S& score : row)
            score *= scale;
        row[is] -= 1;
    }
}

template <class S>
void take_squared(std::span<const float> targets, std::span<S> scores, LossSums& sums) noexcept {
    for (size_t i = 0; i < targets.size(); ++i) {
        scores[i] -= static_cast<S>(targets[i]);
        sums.loss += static_cast<double>(scores[i]) * static_cast<double>(scores[i]);
    }
}

template <class S>
void take_scores(const LossFunction& function, std::span<const float> targets, std::span<S> scores,
                 LossSums& sums) noexcept {
    switch (function.loss()) {
        case Loss::kLogistic: return take_logistic(targets, scores, sums);
        case Loss::kSoftmax: return take_softmax(targets, scores, function.width(), sums);
        case Loss::kSquared: return take_squared(targets, scores, sums);
    }
}

}  // namespace

std::string_view name_of(Loss loss) noexcept {
    return kNames[static_cast<size_t>(loss)].second;
}

std::optional<Loss> loss_named(std::string_view name) noexcept {
    for (const auto& [loss, its_name] : kNames) {
        if (its_name == name) return loss;
    }
    return std::nullopt;
}

void LossFunction::take(std::span<const float> targets, std::span<float> scores,
                        LossSums& sums) const noexcept {
    take_scores(*this, targets, scores, sums);
}

void LossFunction::take(std::span<const float> targets, std::span<double> scores,
                        LossSums& sums) const noexcept {
    take_scores(*this, targets, scores, sums);
}

}  // namespace weir::apps
