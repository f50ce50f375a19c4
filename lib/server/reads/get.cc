// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lib/server/reads/table_reads.h"

namespace weir {

static KeyState read_key(TableShard& rows, uint64_t key, std::span<std::byte> values) {
    const Result<RowList> list = rows.rows_for_pull({&key, 1});
    if (!list || !rows.pull(*list, values)) return KeyState::kUnknown;
    return rows.is_written(list->rows.front()) ? KeyState::kThere : KeyState::kInitial;
}

/// What moves meanwhile, and tables that are not here, the manager asks others for: these keys are unknown here.
void TableReads::get(uint64_t request, std::span<const std::byte> body) {
    const std::optional<ShardGetMessage> asked = ShardGetMessage::decode(body);
    if (!asked)
        return standing_.end(
            Error(Errc::kProtocol, "the manager sent a malformed question for keys"));
    wire::FrameHeader header = wire::header_of(wire::Kind::kGet);
    header.request = request;
    const bool is_here = asked->table < tables_.size() && tables_[asked->table] != nullptr;
    const size_t row_bytes = is_here ? tables_[asked->table]->rows->row_layout().value_bytes() : 0;
    if (!is_here || row_bytes > GetLimits::kRowBytesMax) {
        header.status = Errc::kNotFound;
        return to_manager_.send(header);
    }
    TableShard& rows = *tables_[asked->table]->rows;
    const size_t key_count = asked->keys.size();
    std::vector<std::byte> found(key_count * (1 + row_bytes));
    std::vector<std::byte> values(row_bytes);  // aligned, as initial rows are made in place
    for (size_t i = 0; i < key_count; ++i) {
        found[i] = static_cast<std::byte>(read_key(rows, asked->keys[i], values));
        std::ranges::copy(values,
                          found.begin() + static_cast<std::ptrdiff_t>(key_count + i * row_bytes));
    }
    counters_.bytes_copied += found.size();
    header.first = found.size();
    const size_t part_bytes_max =
        endpoint_.capabilities().message_bytes_max - wire::kHeaderBytesMin;
    for (size_t at = 0; at < found.size(); at += part_bytes_max)
        to_manager_.send(header,
                         std::span(found).subspan(at, std::min(part_bytes_max, found.size() - at)));
}

}  // namespace weir
