// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/end_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/core.h>

namespace weir::apps {
namespace {

/// The rule for "no progress" ends no training before kPassCountMin passes, because trust may
/// still be growing. If passes are cheap it waits for as many as take about kPatienceNs, but for
/// at most kCheapPassCountMin.
constexpr double kPassCountMin = 20;
constexpr double kCheapPassCountMin = 400;
constexpr double kPatienceNs = 1e9;

}  // namespace

Status check_options(const LrOptions& options) {
    for (const auto& [name, value] : {std::pair{"l1", options.l1}, std::pair{"l2", options.l2}}) {
        if (value >= 0 && !std::isinf(value)) continue;
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is {}; it must be a finite number from 0", name, value));
    }
    if (!(options.tolerance >= 0)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("tolerance is {}; it must be a number from 0", options.tolerance));
    }
    if (options.pass_count_max == 0) {
        return Error(Errc::kInvalidArgument, "passes is 0; at least one is needed");
    }
    return {};
}

EndRule::EndRule(double tolerance, double pass_ns) noexcept
    : tolerance_(tolerance),
      pass_count_min_(std::clamp(kPatienceNs / pass_ns, kPassCountMin, kCheapPassCountMin)) {}

void EndRule::take_bound(const LrResult& result, double bound) noexcept {
    next_gap_pass_ = result.pass_count + std::max(5U, result.pass_count / 10);
    bound_ = std::max(bound_, bound);
}

double EndRule::gap(double objective) const noexcept {
    return bound_ > 0 ? std::max(0.0, objective - bound_) / objective
                      : std::numeric_limits<double>::infinity();
}

bool EndRule::gap_is_due(const LrResult& result) const noexcept {
    if (result.pass_count < next_gap_pass_) return false;
    // The gap is at least the gain of the next pass. While passes gain much, it cannot be small.
    const double before = result.history.back().objective;
    return before - result.objective <= tolerance_ * result.objective;
}

bool EndRule::gap_is_hopeful(const LrResult& result) const noexcept {
    constexpr double kNear = 20;
    return std::isinf(result.gap) || result.gap <= kNear * tolerance_;
}

/// If the objective converges like 1 / passes, about as much is left to gain as the later half of
/// the passes gained; if it converges faster, much less is left. If it converges more slowly, the
/// gains do not fall from the third quarter of the passes to the fourth. Then the remaining gain
/// is unknown and the training goes on.
bool EndRule::progress_has_ended(const LrResult& result) const noexcept {
    const uint32_t passes = result.pass_count;
    if (passes < pass_count_min_ || tolerance_ == 0) return false;
    const double now = result.objective;
    const double half = result.history[passes / 2 - 1].objective;
    const double quarter = result.history[passes * 3 / 4 - 1].objective;
    const double enough_gained = tolerance_ / 5 * now;
    if (half - now >= enough_gained) return false;
    return quarter - now <= 0.6 * (half - quarter) || half - now <= enough_gained / 100;
}

}  // namespace weir::apps
