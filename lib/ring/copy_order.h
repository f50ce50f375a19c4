// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// In which order the backups of a segment get what their primary streams.

#include <algorithm>
#include <cstdint>
#include <span>

#include "lib/base/random.h"
#include "lib/ring/view_data.h"

namespace weir {

/// One gets what those with a smaller number have: so the first one that is left when the primary dies
/// has all that any of them has. It differs from primary to primary, so that no shard follows all.
[[nodiscard]] inline uint64_t copy_order(uint32_t primary, uint32_t backup) noexcept {
    return mix64(uint64_t{primary} << 32 | backup);
}

/// The segment has got another primary, or another backup.
inline void put_backups_in_order(ViewSegment& segment) {
    const std::span backups(segment.backups.data(), segment.backup_count());
    std::ranges::sort(backups, [&](uint32_t a, uint32_t b) {
        return copy_order(segment.primary, a) < copy_order(segment.primary, b);
    });
}

}  // namespace weir
