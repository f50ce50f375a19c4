// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PushOrder: the pushes of one connection into one table, executed in the order in which they were
/// sent.

#include <algorithm>
#include <cstdint>

#include "lib/server/requests/request.h"
#include "lib/vclock/range_clock.h"
#include "lib/wire/frame.h"

namespace weir {

/// Pushes are counted as they come, as the worker counts them as it sends them. A push names the
/// one before it and is executed only if that is the last one that was.
struct PushOrder {
    uint32_t received = 0;        ///< number of the last push that came
    uint32_t last = 0;            ///< number of the last one that was executed
    uint64_t base_time = 0;       ///< the newest time that the worker named
    RangeClock* clock = nullptr;  ///< of the worker in the table
    RequestQueue queue;           ///< pushes that cannot be executed yet, and those behind them

    /// A push has come. Returns its number.
    [[nodiscard]] uint32_t arrived(const wire::FrameHeader& push) noexcept {
        base_time = std::max(base_time, whole_time(push.time));
        return ++received;
    }

    /// The whole of a time whose low half is `low`: the one that is closest to base_time.
    [[nodiscard]] uint64_t whole_time(uint32_t low) const noexcept {
        const auto ahead = static_cast<int32_t>(low - static_cast<uint32_t>(base_time));
        if (ahead >= 0) return base_time + static_cast<uint32_t>(ahead);
        const auto behind = static_cast<uint64_t>(-int64_t{ahead});
        return behind > base_time ? 0 : base_time - behind;
    }
};

}  // namespace weir
