// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ProgressiveSums: how well examples were predicted before anything was learned of them, as sums that workers can add up.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/apps/loss.h"

namespace weir::apps {

/// The state of an online training. The same for all workers, but for what some have not told yet.
struct OnlineProgress {
    double seconds = 0;
    uint64_t examples = 0;
    uint64_t features = 0;   ///< non-zeros of these examples
    double loss = 0;         ///< mean: log loss, or squared error
    double recent_loss = 0;  ///< of the examples since the last progress
    std::optional<double> accuracy;
    std::optional<double> auc;  ///< of all examples so far, within a bin of the scores
    uint64_t bad_lines = 0;
    double features_per_s = 0;  ///< since the last progress
};

/// Sums of some examples. AUC is of a histogram of the scores w.x: kBins bins of 1/64 from -16 to 16, which hold
/// what is beyond, too; pairs within a bin count half. So it takes no more memory, however many examples there are.
///
/// Thread: one
class ProgressiveSums {
public:
    static constexpr uint32_t kBins = 2048;  ///< of each of two classes
    static constexpr uint32_t kCount = 5 + 2 * kBins;

    ProgressiveSums() : values_(kCount) {}

    /// `scores`: of the examples, with the weights as they were before. They become slopes, as LossFunction::take() has it.
    void add(const LossFunction& function, std::span<const float> targets, std::span<float> scores,
             uint64_t features);

    void add_bad_lines(uint64_t count) noexcept {
        values_[kBadLines] += static_cast<double>(count);
    }

    /// To be added up, or replaced by such a sum.
    [[nodiscard]] std::span<double> values() noexcept { return values_; }

    [[nodiscard]] std::span<const double> values() const noexcept { return values_; }

    void clear();

    /// `before`: the one before, for the recent loss.
    [[nodiscard]] OnlineProgress progress(Loss loss, const ProgressiveSums& before) const;

private:
    enum Value : uint32_t { kExamples, kFeatures, kLoss, kRight, kBadLines, kHistogram };

    [[nodiscard]] std::optional<double> auc() const;

    std::vector<double> values_;
};

}  // namespace weir::apps
