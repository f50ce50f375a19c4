// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pins: the rows of one table that the network is reading for pulls, and the changes that wait
/// until no row is pinned.

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/key/key_range.h"
#include "lib/wire/frame.h"

namespace weir {

/// A pinned row stays as it is from pin() to unpin(). A push that touches one waits here, as does
/// a complete iteration. Whatever waits goes on when no row is pinned at all; while anything
/// waits, no row may be pinned anew: otherwise pulls that never pause would keep rows pinned for
/// ever.
///
/// Thread: the shard's
class Pins {
public:
    /// Pins the rows of `keys` for the write `write`. Not while has_waiting().
    void pin(uint64_t write, KeyRange keys) {
        WEIR_CHECK(!has_waiting() && !keys.empty());
        pins_.push_back({write, keys});
    }

    /// The write has ended. True if it had rows pinned, and none is pinned any more.
    bool unpin(uint64_t write);

    [[nodiscard]] bool any() const noexcept { return !pins_.empty(); }

    /// Whether some row of `keys` is pinned.
    [[nodiscard]] bool any_of(KeyRange keys) const noexcept;

    /// Whether a push with this header may touch a pinned row. Which rows those of a key list
    /// are is not known here, so any pin stops it.
    [[nodiscard]] bool stop(const wire::FrameHeader& push) const noexcept {
        if (!any()) return false;
        if ((push.flags & wire::kKeysRange) == 0) return true;
        return any_of({push.first, push.first + push.count});
    }

    /// A push was stopped; it waits in its PushOrder.
    void hold_push() noexcept { push_waits_ = true; }

    /// A complete iteration, whose rule changes any row.
    void hold_iteration() noexcept { iteration_waits_ = true; }

    [[nodiscard]] bool has_waiting() const noexcept { return iteration_waits_ || push_waits_; }

    /// Pushes, and no iteration before them, may go on: take_push().
    [[nodiscard]] bool may_go_on() const noexcept { return !any() && has_waiting(); }

    [[nodiscard]] bool take_iteration() noexcept { return std::exchange(iteration_waits_, false); }

    /// Whether pushes were stopped.
    [[nodiscard]] bool take_push() noexcept { return std::exchange(push_waits_, false); }

private:
    struct Pin {
        uint64_t write = 0;
        KeyRange keys;
    };

    std::vector<Pin> pins_;
    bool iteration_waits_ = false;
    bool push_waits_ = false;
};

}  // namespace weir
