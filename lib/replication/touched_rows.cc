// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/touched_rows.h"

#include <cstring>
#include <utility>

namespace weir {

void TouchedLog::add(uint64_t index, const RecordMessage& record) {
    if (record.row_count == 0) return;
    Entry entry{index, record.table, {}, {}};
    if (record.is_range) {
        entry.range = record.range();
    } else {
        entry.keys.resize(record.keys.size() / sizeof(uint64_t));
        std::memcpy(entry.keys.data(), record.keys.data(), record.keys.size());
    }
    entries_.push_back(std::move(entry));
}

void TouchedLog::replicated_everywhere(uint64_t index) {
    while (!entries_.empty() && entries_.front().index <= index)
        entries_.pop_front();
}

void TouchedLog::collect(std::map<uint32_t, TouchedRows>& rows) const {
    for (const Entry& entry : entries_) {
        TouchedRows& of_table = rows[entry.table];
        if (!entry.range.empty()) of_table.ranges.push_back(entry.range);
        of_table.keys.insert(of_table.keys.end(), entry.keys.begin(), entry.keys.end());
    }
}

}  // namespace weir
