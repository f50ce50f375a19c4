// SPDX-License-Identifier: Apache-2.0
#include "lib/train/kkt_filter.h"

#include "lib/base/check.h"
#include "lib/base/prox.h"

namespace weir {

KktFilter::KktFilter(std::span<const uint64_t> list_begin, std::span<const uint64_t> keys)
    : list_begin_(list_begin), all_keys_(keys) {
    WEIR_CHECK(!list_begin.empty() && list_begin.back() == keys.size());
    keep_all();
}

void KktFilter::keep_all() {
    keeps_all_ = true;
    kept_keys_.clear();
    kept_begin_.assign(list_begin_.begin(), list_begin_.end());
    ranges_.clear();
    range_begin_.assign(1, 0);
    for (uint64_t list = 0; list + 1 < list_begin_.size(); ++list) {
        const FeatureRange whole{list_begin_[list], list_begin_[list + 1]};
        if (whole.size() > 0) ranges_.push_back(whole);
        range_begin_.push_back(ranges_.size());
    }
}

void KktFilter::leave_out_resting(std::span<const double> weights) {
    WEIR_CHECK(weights.size() == all_keys_.size());
    keeps_all_ = false;
    kept_keys_.clear();
    ranges_.clear();
    range_begin_.assign(1, 0);
    kept_begin_.assign(1, 0);
    for (uint64_t list = 0; list + 1 < list_begin_.size(); ++list) {
        const uint64_t end = list_begin_[list + 1];
        for (uint64_t feature = list_begin_[list]; feature < end; ++feature) {
            if (is_at_rest(weights[feature])) continue;
            kept_keys_.push_back(all_keys_[feature]);
            const bool goes_on =
                ranges_.size() > range_begin_.back() && ranges_.back().end == feature;
            if (goes_on) {
                ++ranges_.back().end;
            } else {
                ranges_.push_back({feature, feature + 1});
            }
        }
        range_begin_.push_back(ranges_.size());
        kept_begin_.push_back(kept_keys_.size());
    }
}

std::span<const FeatureRange> KktFilter::ranges(uint64_t list) const noexcept {
    const uint64_t begin = range_begin_[list];
    return std::span(ranges_).subspan(begin, range_begin_[list + 1] - begin);
}

std::span<const uint64_t> KktFilter::keys(uint64_t list) const noexcept {
    const uint64_t begin = kept_begin_[list];
    const std::span<const uint64_t> kept =
        keeps_all_ ? all_keys_ : std::span<const uint64_t>(kept_keys_);
    return kept.subspan(begin, kept_begin_[list + 1] - begin);
}

}  // namespace weir
