// SPDX-License-Identifier: Apache-2.0
/// \file
/// The vacuum of erasable tables: each shard, primary or backup, takes empty rows for itself, some in each poll.

#include <algorithm>

#include "lib/server/shard.h"

namespace weir {

/// A row stays until all backups in sync know that it is empty.
bool Shard::may_vacuum(const ShardTable& table) const {
    return table.rows->wants_vacuum() && table.erased_in <= streams_.replicated_change();
}

bool Shard::may_vacuum() const {
    return std::ranges::any_of(erasable_,
                               [&](uint32_t number) { return may_vacuum(*tables_[number]); });
}

size_t Shard::vacuum_some() {
    const auto next = std::ranges::find_if(
        erasable_, [&](uint32_t number) { return may_vacuum(*tables_[number]); });
    if (next == erasable_.end()) return 0;
    tables_[*next]->rows->vacuum_some();
    return 1;
}

}  // namespace weir
