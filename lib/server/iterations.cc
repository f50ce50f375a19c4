// SPDX-License-Identifier: Apache-2.0
#include "lib/server/iterations.h"

#include <algorithm>

#include "lib/base/check.h"

namespace weir {

Iterations::Verdict Iterations::judge(uint64_t iteration, uint32_t worker,
                                      uint32_t parts) const noexcept {
    if (worker >= in_.size() || parts == 0 || iteration <= last_applied_) return Verdict::kRefuse;
    if (iteration > last_applied_ + 1) return Verdict::kLater;
    const Worker& w = in_[worker];
    const bool as_announced = w.announced == 0 || (w.announced == parts && w.admitted < parts);
    return as_announced ? Verdict::kNow : Verdict::kRefuse;
}

void Iterations::admit(uint32_t worker, uint32_t parts) noexcept {
    in_[worker].announced = parts;
    ++in_[worker].admitted;
}

bool Iterations::arrived(uint32_t worker) noexcept {
    Worker& w = in_[worker];
    ++w.arrived;
    WEIR_CHECK(w.arrived <= w.announced);
    if (w.arrived == w.announced) ++complete_;
    return complete_ == in_.size();
}

void Iterations::applied() noexcept {
    std::fill(in_.begin(), in_.end(), Worker());
    complete_ = 0;
    ++last_applied_;
}

}  // namespace weir
