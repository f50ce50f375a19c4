// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Deadlines: when calls end at the latest, and when it has to be looked.

#include <algorithm>
#include <cstdint>

#include "lib/worker/calls/calls.h"

namespace weir {

/// Invariant: no deadline, or sign of life, of a call is due before next_ns_.
///
/// Thread: the client's
class Deadlines {
public:
    /// `default_ns`: of a call that has none of its own.
    explicit Deadlines(uint64_t default_ns) noexcept : default_ns_(default_ns) {}

    [[nodiscard]] uint64_t default_ns() const noexcept { return default_ns_; }

    /// Half the usual deadline, so that a stopped server is noticed within that deadline.
    [[nodiscard]] uint64_t sign_period_ns() const noexcept { return default_ns_ / 2 + 1; }

    /// The call was sent. `deadline_ns`: from now; 0: the default.
    void begin(Call& call, uint64_t now_ns, uint64_t deadline_ns) noexcept {
        call.begun_ns = now_ns;
        call.deadline_ns = now_ns + (deadline_ns != 0 ? deadline_ns : default_ns_);
        call.next_sign_ns = now_ns + sign_period_ns();
        look_at(std::min(call.deadline_ns, call.next_sign_ns));
    }

    /// There is something to look at then, or before.
    void look_at(uint64_t at_ns) noexcept { next_ns_ = std::min(next_ns_, at_ns); }

    /// Calls that are withdrawn may end now.
    void look_soon() noexcept { next_ns_ = 0; }

    /// Whether it is time to look. Then look_at() has to be called for all that is left.
    [[nodiscard]] bool begin_to_look(uint64_t now_ns) noexcept {
        if (now_ns < next_ns_) return false;
        next_ns_ = ~uint64_t{0};
        return true;
    }

private:
    uint64_t default_ns_;
    uint64_t next_ns_ = ~uint64_t{0};
};

}  // namespace weir
