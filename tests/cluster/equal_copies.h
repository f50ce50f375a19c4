// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whether a backup is equal to its primary, bit by bit: values and rule state of all rows, times,
/// and how far iterations have come and which of them failed.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "lib/server/shard.h"

namespace weir::test {

using CopiedRows = std::map<uint64_t, std::vector<std::byte>>;

/// Values and state of the rows of a segment, by key.
[[nodiscard]] inline CopiedRows rows_of(const ShardTable& table, PositionRange range) {
    CopiedRows rows;
    const PositionSet positions(std::span(&range, 1));
    const size_t value_bytes = table.rows->row_layout().value_bytes();
    const size_t state_bytes = table.rows->row_layout().state_bytes;
    ListedRows listed;
    for (KeyCursor cursor; !cursor.at_end;) {
        table.rows->list(cursor, positions, 100, listed);
        const size_t count = listed.row_count();
        std::vector<std::byte> values(count * value_bytes);
        std::vector<std::byte> state(count * state_bytes);
        table.rows->copy_values(listed, values);
        table.rows->copy_state(listed, state);
        for (size_t i = 0; i < count; ++i) {
            const uint64_t key = listed.keys.empty() ? listed.range.begin + i : listed.keys[i];
            auto& row = rows[key];
            row.insert(row.end(), values.begin() + static_cast<ptrdiff_t>(i * value_bytes),
                       values.begin() + static_cast<ptrdiff_t>((i + 1) * value_bytes));
            row.insert(row.end(), state.begin() + static_cast<ptrdiff_t>(i * state_bytes),
                       state.begin() + static_cast<ptrdiff_t>((i + 1) * state_bytes));
        }
    }
    return rows;
}

/// Of one segment, when all is quiet.
inline void check_equal_copies(const Shard& primary, const Shard& backup, PositionRange range) {
    for (size_t t = 0; t < primary.tables().size(); ++t) {
        INFO("segment " << range.first << " of table " << t << ", " << primary.name() << " and "
                        << backup.name());
        const ShardTable& a = *primary.tables()[t];
        const ShardTable& b = *backup.tables()[t];
        REQUIRE(rows_of(a, range) == rows_of(b, range));
        const auto closed = [&](const ShardTable& table) {
            std::vector<ClosedRun> runs = table.iterations.state().closed().runs(range);
            // A segment of which nothing is known is one of which nothing is closed.
            std::erase_if(runs, [](const ClosedRun& run) { return run.state == ClosedState(); });
            return runs;
        };
        REQUIRE((closed(a) == closed(b)));
        // A push of a range sets its time also in segments between its keys that have none,
        // where nobody ever asks for it.
        if (a.positions.is_dense() && rows_of(a, range).empty()) continue;
        REQUIRE(a.clocks.part(primary.holdings().segments(), range) ==
                b.clocks.part(backup.holdings().segments(), range));
    }
}

}  // namespace weir::test
