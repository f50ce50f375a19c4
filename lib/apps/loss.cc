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

void take_logistic(std::span<const float> targets, std::span<float> scores,
                   LossSums& sums) noexcept {
    for (size_t i = 0; i < targets.size(); ++i) {
        const double margin = static_cast<double>(targets[i]) * static_cast<double>(scores[i]);
        sums.loss += linalg::logistic_loss(margin);
        sums.right += (scores[i] > 0) == (targets[i] > 0) ? 1 : 0;
        scores[i] = -targets[i] * static_cast<float>(linalg::logistic_alpha(margin));
    }
}

void take_softmax(std::span<const float> targets, std::span<float> scores, size_t width,
                  LossSums& sums) noexcept {
    for (size_t i = 0; i < targets.size(); ++i) {
        const std::span<float> row = scores.subspan(i * width, width);
        const auto is = static_cast<size_t>(targets[i]);
        const float greatest = *std::max_element(row.begin(), row.end());
        sums.right +=
            row[is] == greatest && std::max_element(row.begin(), row.end()) - row.begin() ==
                                       static_cast<std::ptrdiff_t>(is)
                ? 1
                : 0;
        const auto margin = static_cast<double>(row[is] - greatest);
        double sum = 0;
        for (float& score : row) {
            score = std::exp(score - greatest);
            sum += static_cast<double>(score);
        }
        sums.loss += std::log(sum) - margin;
        const auto scale = static_cast<float>(1 / sum);
        for (float& score : row)
            score *= scale;
        row[is] -= 1;
    }
}

void take_squared(std::span<const float> targets, std::span<float> scores,
                  LossSums& sums) noexcept {
    for (size_t i = 0; i < targets.size(); ++i) {
        scores[i] -= targets[i];
        sums.loss += static_cast<double>(scores[i]) * static_cast<double>(scores[i]);
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
    switch (loss_) {
        case Loss::kLogistic: return take_logistic(targets, scores, sums);
        case Loss::kSoftmax: return take_softmax(targets, scores, width_, sums);
        case Loss::kSquared: return take_squared(targets, scores, sums);
    }
}

}  // namespace weir::apps
