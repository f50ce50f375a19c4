// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/chunk_check.h"

#include "lib/checkpoint/range_reader.h"

namespace weir::checkpoint {

Result<size_t> ChunkCheck::check(const Manifest& manifest) {
    size_t unread_count = 0;
    for (const TableSchema& table : manifest.tables) {
        for (const ChunkEntry& entry : manifest.chunks_of(table.id)) {
            if (right_.contains({entry.name, entry.checksum})) continue;
            if (is_over()) {
                ++unread_count;
                continue;
            }
            WEIR_TRY(read_chunk(disk_, folder_, entry, table, bytes_));
            right_.emplace(entry.name, entry.checksum);
        }
    }
    return unread_count;
}

}  // namespace weir::checkpoint
