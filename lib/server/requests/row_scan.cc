// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/row_scan.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/secret_seed.h"

namespace weir {

RowScan::RowScan(std::optional<uint64_t> secret) {
    Random fixed(secret.value_or(0));
    for (uint64_t& part : secret_)
        part = secret ? fixed() : secret_seed();
}

uint64_t RowScan::encrypted(uint64_t next) const noexcept {
    return mix64(mix64(next ^ secret_[0]) ^ secret_[1]);
}

uint64_t RowScan::decrypted(uint64_t cursor) const noexcept {
    return unmix64(unmix64(cursor) ^ secret_[1]) ^ secret_[0];
}

ScanColumns RowScan::columns_of(const TableShard& table, const ScanMessage& asked) noexcept {
    const RowLayout& layout = table.row_layout();
    const bool has_values = (asked.columns & ScanMessage::kValues) != 0;
    const bool has_state = (asked.columns & ScanMessage::kState) != 0;
    const bool has_stamps = (asked.columns & ScanMessage::kStamps) != 0;
    return {has_values ? layout.value_bytes() : 0, has_state ? layout.state_bytes : 0,
            has_stamps ? sizeof(uint32_t) : 0};
}

/// Where the walk goes on. A dense table has no other order than that of its keys.
static KeyCursor cursor_of(const ScanMessage& asked, uint64_t next) noexcept {
    KeyCursor cursor;
    if (!asked.begins) cursor.next = next;
    return cursor;
}

static PositionSet both(const PositionSet& served, std::span<const PositionRange> asked) {
    return served.without(served.without(PositionSet(asked)));
}

Result<ScanReply> RowScan::list(TableShard& table, const ScanMessage& asked,
                                const PositionSet& served, size_t row_count_max) {
    WEIR_CHECK(table.schema().layout == Layout::kSparse);
    KeyCursor cursor = cursor_of(asked, decrypted(asked.cursor));
    bool is_by_row = asked.begins || asked.by_row;
    WEIR_TRY(
        list_some(table, asked, both(served, asked.positions), row_count_max, cursor, is_by_row));
    return reply(cursor, is_by_row);
}

Result<ScanReply> RowScan::read(TableShard& table, const ScanMessage& asked,
                                const PositionSet& served, const FunctionCall& call,
                                FunctionResult& result) {
    constexpr size_t kRangesMax = 64;  // of a dense table
    constexpr size_t kStepsMax = 8;  // of a walk, each of which may look at many rows and find none
    constexpr uint64_t kPieces =
        4;  // of a function that changes, unless others' rows are to be found
    const TableSchema& schema = table.schema();
    const bool is_dense = schema.layout == Layout::kDense;
    const PositionSet positions = both(served, asked.positions);
    KeyCursor cursor = cursor_of(asked, decrypted(asked.cursor));
    bool is_by_row = !is_dense && (asked.begins || asked.by_row);
    const bool finds_others = !is_dense && call.function->tables > 0;
    uint64_t left = (finds_others ? 1 : kPieces) *
                    call.function->rows_max(schema.value_type, call.widest, is_dense);
    const size_t steps_max = is_dense ? kRangesMax : kStepsMax;
    for (size_t i = 0; i < steps_max && left > 0 && !cursor.at_end; ++i) {
        const uint64_t from = cursor.next;
        WEIR_TRY(list_some(table, asked, positions, left, cursor, is_by_row));
        WEIR_TRY(table.read(listed_, call, result));
        // Of rows that were looked at and left out, too.
        const uint64_t looked = is_by_row && cursor.next > from ? (cursor.next - from) / 2 : 0;
        left -= std::min<uint64_t>(left, std::max<uint64_t>(looked, listed_.row_count()));
    }
    return reply(cursor, is_by_row);
}

Status RowScan::list_some(TableShard& table, const ScanMessage& asked, const PositionSet& positions,
                          size_t row_count_max, KeyCursor& cursor, bool& is_by_row) {
    if (is_by_row && !table.list_by_row(cursor, positions, row_count_max, listed_)) {
        if (cursor.next != 0) return Error(Errc::kNoMemory, "the keys of the rows are gone");
        is_by_row = false;
    }
    if (!is_by_row) table.list(cursor, positions, row_count_max, listed_);
    if (asked.first_key != 0 || asked.last_key != ~uint64_t{0}) leave_out_others(table, asked);
    return {};
}

ScanReply RowScan::reply(const KeyCursor& cursor, bool is_by_row) const {
    ScanReply reply;
    reply.cursor = encrypted(cursor.next);
    reply.row_count = static_cast<uint32_t>(listed_.row_count());
    reply.flags = (cursor.at_end ? ScanReply::kAtEnd : 0U) | (is_by_row ? ScanReply::kByRow : 0U);
    return reply;
}

void RowScan::leave_out_others(const TableShard& table, const ScanMessage& asked) {
    if (!listed_.range.empty()) {
        const uint64_t end = asked.last_key == ~uint64_t{0} ? asked.last_key : asked.last_key + 1;
        listed_.range = intersect(listed_.range, {asked.first_key, end});
        return;
    }
    if (listed_.run.row_count != 0) {
        listed_.rows.resize(listed_.run.row_count);
        std::iota(listed_.rows.begin(), listed_.rows.end(), listed_.run.first_row);
        std::vector<uint64_t> keys(listed_.run.row_count);
        table.copy_keys(listed_, std::as_writable_bytes(std::span(keys)));
        listed_.keys = std::move(keys);
        listed_.run = {};
    }
    size_t kept = 0;
    for (size_t i = 0; i < listed_.keys.size(); ++i) {
        const uint64_t key = listed_.keys[i];
        if (key < asked.first_key || key > asked.last_key) continue;
        listed_.keys[kept] = key;
        listed_.rows[kept++] = listed_.rows[i];
    }
    listed_.keys.resize(kept);
    listed_.rows.resize(kept);
}

void RowScan::copy(const TableShard& table, const ScanColumns& columns,
                   std::span<std::byte> out) const {
    const size_t count = listed_.row_count();
    WEIR_CHECK(out.size() == columns.bytes(count));
    if (count == 0) return;
    const auto column = [&](size_t at, size_t row_bytes) {
        const size_t bytes = count * row_bytes;
        // What pads a column is written, too: the memory may have held something of another worker.
        std::memset(out.data() + at + bytes, 0, ScanColumns::aligned(bytes) - bytes);
        return out.subspan(at, bytes);
    };
    table.copy_keys(listed_, out.first(count * sizeof(uint64_t)));
    if (columns.value_bytes != 0)
        table.copy_values(listed_, column(columns.values_at(count), columns.value_bytes));
    if (columns.state_bytes != 0)
        table.copy_state(listed_, column(columns.state_at(count), columns.state_bytes));
    if (columns.stamp_bytes != 0)
        table.copy_stamps(listed_, column(columns.stamps_at(count), columns.stamp_bytes));
}

}  // namespace weir
