// SPDX-License-Identifier: Apache-2.0
#include "lib/train/sweep_plan.h"

#include <algorithm>

#include <fmt/core.h>

namespace weir {

Result<SweepPlan> SweepPlan::make(const SweepLimits& limits, uint64_t row_bytes) {
    const uint64_t rows_max = limits.bytes_max == 0 ? ~uint64_t{0} : limits.bytes_max / row_bytes;
    if (limits.rows_min <= rows_max) return SweepPlan(limits, rows_max);
    return Error(
        Errc::kInvalidArgument,
        fmt::format("a sweep that leaves at least {} rows and at most {} bytes: a row with "
                    "its key has {} bytes; choose a lower floor or a higher cap",
                    limits.rows_min, limits.bytes_max, row_bytes));
}

// Here, not in each file that includes weir.h.
SweepPlan::SweepPlan(const SweepLimits& limits, uint64_t rows_max) noexcept
    : limits_(limits), rows_max_(rows_max) {}

SweepPlan::SweepPlan(SweepPlan&& other) noexcept = default;
SweepPlan::~SweepPlan() = default;

void SweepPlan::make_list(std::vector<uint64_t>& keys) {
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

void SweepPlan::count(std::span<const uint32_t> stamps) {
    rows_ += stamps.size();
    for (size_t i = 0; i < stamps.size();) {  // neighbours are often equal
        size_t end = i + 1;
        while (end < stamps.size() && stamps[end] == stamps[i])
            ++end;
        rows_of_[stamps[i]] += end - i;
        i = end;
    }
}

void SweepPlan::decide() {
    uint64_t old = 0;
    for (auto at = rows_of_.begin(); at != rows_of_.end() && at->first < limits_.before; ++at)
        old += at->second;
    const uint64_t too_many = rows_ - std::min(rows_, rows_max_);
    left_ = std::min(std::max(old, too_many), rows_ - std::min(rows_, limits_.rows_min));
    uint64_t below = 0;
    for (auto at = rows_of_.begin(); below < left_; ++at) {
        cut_ = at->first + 1;
        left_of_last_ = std::min(at->second, left_ - below);
        below += left_of_last_;
    }
}

bool SweepPlan::choose(uint32_t stamp) noexcept {
    if (left_ == 0 || stamp >= cut_) return false;
    if (stamp + 1 == cut_) {
        if (left_of_last_ == 0) return false;
        --left_of_last_;
    }
    --left_;
    return true;
}

}  // namespace weir
