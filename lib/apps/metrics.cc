// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/linalg/logistic.h"

namespace weir::apps {
namespace {

/// Sorts the scores. Infinities become the greatest finite numbers, and NaN becomes 0.
void arrange(std::vector<double>& scores) {
    constexpr double kMost = std::numeric_limits<double>::max();
    for (double& score : scores)
        score = std::isnan(score) ? 0 : std::clamp(score, -kMost, kMost);
    std::sort(scores.begin(), scores.end());
}

/// Counts the pairs of one of `some` and one of `others` in which that of `others` is lower.
/// Equal pairs count half. Both lists are in rising order.
double count_below(std::span<const double> some, std::span<const double> others) {
    double count = 0;
    auto from = others.begin();  // all before it are lower
    for (const double score : some) {
        // A few single steps are fast for lists of similar length, the binary search for others.
        for (int i = 0; i < 8 && from != others.end() && *from < score; ++i)
            ++from;
        if (from != others.end() && *from < score)
            from = std::lower_bound(from, others.end(), score);
        count += static_cast<double>(from - others.begin());
        if (from != others.end() && *from == score) {
            const auto equal_end = std::upper_bound(from, others.end(), score);
            count += 0.5 * static_cast<double>(equal_end - from);
        }
    }
    return count;
}

/// The sums over a worker's examples: positives, negatives, right predictions, loss.
std::array<double, 4> totals_of(const Scores& scores) {
    const auto loss = [](std::span<const double> margins, double label) {
        double sum = 0;
        for (const double margin : margins)
            sum += linalg::logistic_loss(label * margin);
        return sum;
    };
    const auto right = [](double score) { return score > 0; };
    const auto wrong_count = std::count_if(scores.negative.begin(), scores.negative.end(), right);
    const auto right_count = std::count_if(scores.positive.begin(), scores.positive.end(), right);
    return {static_cast<double>(scores.positive.size()),
            static_cast<double>(scores.negative.size()),
            static_cast<double>(right_count) + static_cast<double>(scores.negative.size()) -
                static_cast<double>(wrong_count),
            loss(scores.positive, 1) + loss(scores.negative, -1)};
}

/// `totals`: as totals_of() orders them. `above`: the pairs of a positive and a negative example
/// in which the positive one has the higher score; equal scores count half.
Metrics metrics_of(const std::array<double, 4>& totals, double above) {
    const double count = totals[0] + totals[1];
    Metrics metrics;
    metrics.example_count = static_cast<uint64_t>(count);
    if (count > 0) {
        metrics.accuracy = totals[2] / count;
        metrics.log_loss = totals[3] / count;
    }
    if (totals[0] > 0 && totals[1] > 0) metrics.auc = above / (totals[0] * totals[1]);
    return metrics;
}

/// Counts the pairs of one of all workers' `rare` and one of this worker's `own` in which that of
/// `own` is lower. Equal pairs count half.
Result<double> count_below_all(BlockExchange& exchange, std::span<const double> rare,
                               std::span<const double> own) {
    std::vector<double> counts(exchange.worker_count(), 0);
    counts[exchange.worker_index()] = static_cast<double>(rare.size());
    WEIR_TRY(exchange.sum(counts));
    const auto mine = counts.begin() + exchange.worker_index();
    const auto my_begin = static_cast<uint64_t>(std::accumulate(counts.begin(), mine, 0.0));
    const auto total = static_cast<uint64_t>(std::accumulate(counts.begin(), counts.end(), 0.0));
    double below = 0;
    std::vector<double> window;
    for (uint64_t begin = 0; begin < total; begin += kReduceValueCountMax) {
        const uint64_t end = std::min(total, begin + kReduceValueCountMax);
        window.assign(end - begin, 0);
        const uint64_t first = std::max(begin, my_begin);
        const uint64_t last = std::min(end, my_begin + rare.size());
        for (uint64_t i = first; i < last; ++i)
            window[i - begin] = rare[i - my_begin];
        WEIR_TRY(exchange.sum(window));
        std::sort(window.begin(), window.end());
        below += count_below(window, own);
    }
    return below;
}

}  // namespace

void Scores::add(std::span<const int8_t> labels, std::span<const double> scores) {
    for (size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] == 0) continue;
        (labels[i] > 0 ? positive : negative).push_back(scores[i]);
    }
}

Metrics measure(Scores& scores) {
    arrange(scores.positive);
    arrange(scores.negative);
    return metrics_of(totals_of(scores), count_below(scores.positive, scores.negative));
}

Result<Metrics> measure(BlockExchange& exchange, Scores& scores) {
    if (exchange.worker_count() == 1) return measure(scores);
    arrange(scores.positive);
    arrange(scores.negative);
    std::array<double, 4> totals = totals_of(scores);
    WEIR_TRY(exchange.sum(totals));
    const bool few_positive = totals[0] <= totals[1];
    WEIR_ASSIGN(double below,
                count_below_all(exchange, few_positive ? scores.positive : scores.negative,
                                few_positive ? scores.negative : scores.positive));
    WEIR_TRY(exchange.sum({&below, 1}));
    return metrics_of(totals, few_positive ? below : totals[0] * totals[1] - below);
}

Metrics measure(Loss loss, const LossSums& sums, uint64_t example_count) {
    const auto count = static_cast<double>(std::max<uint64_t>(1, example_count));
    Metrics metrics;
    metrics.example_count = example_count;
    metrics.loss = loss;
    if (loss == Loss::kSquared) {
        metrics.squared_error = sums.loss / count;
        return metrics;
    }
    metrics.accuracy = static_cast<double>(sums.right) / count;
    metrics.log_loss = sums.loss / count;
    return metrics;
}

Result<Metrics> measure(BlockExchange& exchange, Loss loss, const LossSums& sums,
                        uint64_t example_count) {
    std::array<double, 3> all = {sums.loss, static_cast<double>(sums.right),
                                 static_cast<double>(example_count)};
    WEIR_TRY(exchange.sum(all));
    return measure(loss, {all[0], static_cast<uint64_t>(all[1])}, static_cast<uint64_t>(all[2]));
}

}  // namespace weir::apps
