// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TouchedRows: which rows the last changes of a table have written, by their keys.

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "lib/key/key_range.h"
#include "lib/wire/record_message.h"

namespace weir {

/// Of one table.
struct TouchedRows {
    std::vector<KeyRange> ranges;
    std::vector<uint64_t> keys;
};

/// What a backup has applied and others may lack. If it becomes primary, it sends them these rows.
///
/// Thread: the shard's
class TouchedLog {
public:
    /// A record with this index, or the last one of its change with that, was applied.
    void add(uint64_t index, const RecordMessage& record);

    /// All backups have the records up to this index.
    void replicated_everywhere(uint64_t index);

    /// Adds what it holds to `rows`, by table.
    void collect(std::map<uint32_t, TouchedRows>& rows) const;

private:
    struct Entry {
        uint64_t index = 0;
        uint32_t table = 0;
        KeyRange range;
        std::vector<uint64_t> keys;
    };

    std::deque<Entry> entries_;
};

}  // namespace weir
