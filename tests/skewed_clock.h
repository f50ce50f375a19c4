// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SkewedClock: the clock of a process that goes too fast or too slow.

#include <cstdint>

#include "lib/base/clock.h"

namespace weir::testing {

/// Thread: that of the other clock.
class SkewedClock final : public Clock {
public:
    /// `of` must outlive it.
    SkewedClock(const Clock& of, double rate) : of_(of), rate_(rate) {}

    [[nodiscard]] uint64_t now_ns() const noexcept override {
        return static_cast<uint64_t>(static_cast<double>(of_.now_ns()) * rate_);
    }

private:
    const Clock& of_;
    double rate_;
};

}  // namespace weir::testing
