// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lib/server/reads/table_reads.h"

namespace weir {

std::string_view TableReads::scan(Session& session, const wire::Frame& frame) {
    const uint64_t request = frame.header.request;
    const std::optional<ScanMessage> asked = ScanMessage::decode(frame.values);
    if (!asked) return "a malformed scan";
    const auto refused = [&](Errc why, uint64_t detail = 0) {
        replies_.reply(session.connection, request, why, detail);
        return std::string_view();
    };
    if (asked->table >= tables_.size() || tables_[asked->table] == nullptr ||
        tables_[asked->table]->is_dropped) {
        return refused(Errc::kNotFound);
    }
    ShardTable& table = *tables_[asked->table];
    const TableSchema& schema = table.rows->schema();
    // As of a push: what moved is asked for anew, and a view that is on its way is waited for.
    if (asked->epoch < standing_.since()) return refused(Errc::kStaleEpoch, view_.epoch());
    if (asked->epoch > view_.epoch()) return refused(Errc::kBusy);
    if (replies_.is_busy(session.connection)) return refused(Errc::kBusy);
    if (asked->value_type != static_cast<uint8_t>(schema.value_type) ||
        asked->width != schema.width) {
        return refused(Errc::kTypeMismatch);
    }
    if (asked->call.function != 0) {
        if (!functions_.take_turn()) return refused(Errc::kBusy);
        const Errc called = read_by_function(session, frame, *asked, table);
        return called == Errc::kOk ? std::string_view() : refused(called);
    }
    if ((asked->columns & ScanMessage::kStamps) != 0 && !schema.erasable)
        return refused(Errc::kInvalidArgument);
    const ScanColumns columns = RowScan::columns_of(*table.rows, *asked);
    const size_t row_count_max = columns.rows_in(asked->memory.length_bytes);
    if (schema.layout != Layout::kSparse || row_count_max == 0)
        return refused(Errc::kInvalidArgument);
    const Result<ScanReply> reply =
        row_scan_.list(*table.rows, *asked, replication_.primary(), row_count_max);
    if (!reply) return refused(reply.code());
    write_scanned(session, frame, *asked, *reply, table, columns.bytes(reply->row_count),
                  [&](std::span<std::byte> out) { row_scan_.copy(*table.rows, columns, out); });
    return {};
}

/// Has copy(memory) write `bytes` bytes to the worker's memory, and replies.
template <class Copy>
void TableReads::write_scanned(Session& session, const wire::Frame& frame, const ScanMessage& asked,
                               const ScanReply& reply, ShardTable& table, size_t bytes,
                               Copy&& copy) {
    const uint64_t request = frame.header.request;
    std::byte* const out = bytes == 0
                               ? nullptr
                               : waiting_.map(session.connection, asked.memory, sizeof(uint64_t),
                                              transport::Access::kRemoteWrite);
    if (bytes == 0 || out != nullptr) {
        copy(std::span(out, bytes));
        counters_.bytes_sent += bytes;  // as the endpoint counts what it writes
        return replies_.reply(session.connection, request, Errc::kOk, 0, reply.encode());
    }
    Block block = waiting_.fetcher().spares().take(bytes, options_.fetch_bytes_max);
    if (!block) return replies_.reply(session.connection, request, Errc::kNoMemory);
    copy(std::span(block.data(), bytes));
    counters_.bytes_copied += bytes;
    Request scan;
    scan.connection = session.connection;
    scan.header.kind = frame.header.kind;
    scan.header.request = frame.header.request;
    scan.values_at = {asked.memory.address, bytes, asked.memory.key};
    scan.room = {block.data(), bytes};
    KeptRequest* const kept = waiting_.keep(session, scan, Wait::kWrite);
    if (kept == nullptr) return waiting_.fetcher().spares().put(std::move(block));
    kept->writing = {
        .table = &table, .is_replied = true, .scanned = std::move(block), .reply = reply.encode()};
    writes_.add(*kept);
    end_writes();
}

/// The result of a function for some rows.
Errc TableReads::read_by_function(Session& session, const wire::Frame& frame,
                                  const ScanMessage& asked, ShardTable& table) {
    const Result<FunctionCall> call = functions_.make(table, asked.call, false);
    if (!call) return call.code();
    FunctionResult result;
    call->function->begin(call->numbers, result);
    Result<ScanReply> reply =
        row_scan_.read(*table.rows, asked, replication_.primary(), *call, result);
    if (!reply) return reply.code();
    if (call->function->end) call->function->end(result, call->numbers);
    const std::vector<std::byte> encoded = encode_result(result);
    const bool is_result = call->function->may_be_result(call->numbers, result);
    if (!is_result || encoded.size() > asked.memory.length_bytes) return Errc::kOutOfRange;
    reply->row_count = static_cast<uint32_t>(encoded.size());
    reply->shown = table.iterations.state().last_closed();
    write_scanned(session, frame, asked, *reply, table, encoded.size(),
                  [&](std::span<std::byte> out) { std::ranges::copy(encoded, out.begin()); });
    return Errc::kOk;
}

}  // namespace weir
