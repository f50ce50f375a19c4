// SPDX-License-Identifier: Apache-2.0
#include "lib/train/kkt_schedule.h"

#include <algorithm>

namespace weir {

namespace {

constexpr double kMarginMin = 1.0 / 16;
constexpr double kMarginMax = 1.0 / 2;
constexpr uint32_t kIntervalMax = 16;
/// So many of the weights that are not 0 may have been at rest: more than one in a hundred, and the features
/// that were left out would have changed the passes.
constexpr uint64_t kNonzerosPerWoken = 100;
/// Passes over all in a row before a lack of progress counts.
constexpr uint32_t kSettlingPasses = 3;

}  // namespace

void KktSchedule::begin_next(bool whole) noexcept {
    if (is_whole_) {
        ++whole_in_row_;
        left_out_in_row_ = 0;
    } else {
        has_left_out_ = true;
        whole_in_row_ = 0;
        ++left_out_in_row_;
    }
    is_whole_ = whole || lambda_ == 0 || left_out_in_row_ >= interval_;
}

bool KktSchedule::may_settle() const noexcept {
    return is_whole() && (!has_left_out_ || whole_in_row_ + 1 >= kSettlingPasses);
}

void KktSchedule::judge(uint64_t woken, uint64_t nonzero) noexcept {
    if (woken > nonzero / kNonzerosPerWoken) {
        margin_ = std::min(2 * margin_, kMarginMax);
        interval_ = std::max(interval_ / 2, 1U);
    } else {
        margin_ = std::max(margin_ / 2, kMarginMin);
        interval_ = std::min(2 * interval_, kIntervalMax);
    }
}

}  // namespace weir
