// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ByteBudget: how many bytes may be sent by now, at so many bytes a second.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"

namespace weir {

/// A bucket that fills at a rate up to a limit, and is full at first: in any t seconds no more than
/// `burst` + t * `rate` bytes are available. What is spent beyond is a debt that is paid first.
/// Thread: one.
class ByteBudget {
public:
    ByteBudget(const Clock& clock, uint64_t bytes_per_second, uint64_t burst_bytes) noexcept
        : clock_(clock),
          bytes_per_second_(bytes_per_second),
          full_(static_cast<Parts>(burst_bytes) * kParts),
          left_(full_),
          filled_ns_(clock.now_ns()) {}

    /// By now; 0 while there is a debt.
    [[nodiscard]] uint64_t available_bytes() noexcept {
        fill();
        return left_ > 0 ? static_cast<uint64_t>(left_ / kParts) : 0;
    }

    void spend(uint64_t bytes) noexcept { left_ -= static_cast<Parts>(bytes) * kParts; }

private:
    /// Of a byte: 10^9, so that each nanosecond fills in a whole number of them, and nothing is
    /// lost by rounding.
    __extension__ using Parts = __int128;
    static constexpr Parts kParts = 1'000'000'000;

    void fill() noexcept {
        const uint64_t now_ns = clock_.now_ns();
        if (now_ns <= filled_ns_) return;
        left_ =
            std::min(full_, left_ + static_cast<Parts>(now_ns - filled_ns_) * bytes_per_second_);
        filled_ns_ = now_ns;
    }

    const Clock& clock_;
    uint64_t bytes_per_second_;
    Parts full_;
    Parts left_;
    uint64_t filled_ns_;
};

}  // namespace weir
