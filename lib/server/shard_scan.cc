// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a scan does: it sends the next rows of a table, whatever is pushed meanwhile.

#include "lib/server/shard.h"

namespace weir {

void Shard::scan(const Session& session, const wire::Frame& frame) {
    const uint64_t request = frame.header.request;
    const std::optional<ScanMessage> asked = ScanMessage::decode(frame.values);
    if (!asked) return refuse(session.connection, "a malformed scan");
    if (asked->table >= tables_.size() || tables_[asked->table] == nullptr ||
        tables_[asked->table]->is_dropped) {
        return replies_.reply(session.connection, request, Errc::kNotFound);
    }
    const TableShard& table = *tables_[asked->table]->rows;
    // As of a push: what moved is asked for anew, and a view that is on its way is waited for.
    if (asked->epoch < since_)
        return replies_.reply(session.connection, request, Errc::kStaleEpoch, view_.epoch());
    if (asked->epoch > view_.epoch())
        return replies_.reply(session.connection, request, Errc::kBusy);
    if (replies_.is_busy(session.connection))
        return replies_.reply(session.connection, request, Errc::kBusy);
    if (asked->value_type != static_cast<uint8_t>(table.schema().value_type) ||
        asked->width != table.schema().width) {
        return replies_.reply(session.connection, request, Errc::kTypeMismatch);
    }
    const size_t room = endpoint_->capabilities().message_bytes_max - sizeof(wire::FrameHeader);
    const std::span<const std::byte> rows = row_scan_.run(table, *asked, holdings_.primary(), room);
    counters_.bytes_copied += 2 * rows.size();  // into the buffer, then the message
    replies_.reply(session.connection, request, Errc::kOk, 0, rows);
}

}  // namespace weir
