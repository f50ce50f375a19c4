// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/row_scan.h"

#include <algorithm>
#include <cstring>

#include "lib/base/random.h"
#include "lib/base/secret_seed.h"
#include "lib/wire/frame.h"

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

RowScan::Room RowScan::room_for(const TableShard& table, size_t bytes_max) {
    const bool is_dense = table.schema().layout == Layout::kDense;
    const size_t row_bytes = table.row_layout().value_bytes();
    const size_t key_bytes = is_dense ? 0 : sizeof(uint64_t);
    const size_t room = bytes_max - ScanReply::kHeadBytes;
    if (row_bytes + key_bytes <= room) return {room / (row_bytes + key_bytes), false};
    // The worker then pulls the values: not more than in one request.
    const size_t pulled = std::max<size_t>(1, wire::kPieceBytesMax / row_bytes);
    return {std::min(pulled, room / sizeof(uint64_t)), true};
}

std::span<const std::byte> RowScan::run(const TableShard& table, const ScanMessage& asked,
                                        const PositionSet& served, size_t bytes_max) {
    const Room room = room_for(table, bytes_max);
    KeyCursor cursor;
    if (!asked.begins) cursor.next = decrypted(asked.cursor);
    const bool is_dense = table.schema().layout == Layout::kDense;
    const PositionSet asked_for(asked.positions);
    const PositionSet positions = served.without(served.without(asked_for));
    if (is_dense) {
        list_range(table, asked, positions, room.row_count, cursor);
    } else {
        list_keys(table, asked, positions, room.row_count, cursor);
    }
    ScanReply reply;
    reply.cursor = encrypted(cursor.next);
    reply.first_key = listed_.range.begin;
    reply.row_count = static_cast<uint32_t>(listed_.row_count());
    if (cursor.at_end) reply.flags |= ScanReply::kAtEnd;
    if (is_dense) reply.flags |= ScanReply::kRange;
    if (room.keys_only) reply.flags |= ScanReply::kKeysOnly;
    reply_ = reply.encode_head();
    const size_t key_bytes = listed_.keys.size() * sizeof(uint64_t);
    const size_t value_bytes =
        room.keys_only ? 0 : listed_.row_count() * table.row_layout().value_bytes();
    reply_.resize(reply_.size() + key_bytes + value_bytes);
    std::byte* const to = reply_.data() + ScanReply::kHeadBytes;
    if (key_bytes != 0) std::memcpy(to, listed_.keys.data(), key_bytes);
    if (value_bytes != 0) table.copy_values(listed_, {to + key_bytes, value_bytes});
    return reply_;
}

void RowScan::list_range(const TableShard& table, const ScanMessage& asked,
                         const PositionSet& positions, size_t row_count_max, KeyCursor& cursor) {
    cursor.next = std::max(cursor.next, asked.first_key);
    table.list(cursor, positions, row_count_max, listed_);
    KeyRange& range = listed_.range;
    if (!range.empty() && range.end - 1 >= asked.last_key) {
        range.end = std::max(range.begin, asked.last_key + 1);  // the table ends before 2^64 - 1
        cursor.at_end = true;
    }
}

void RowScan::list_keys(const TableShard& table, const ScanMessage& asked,
                        const PositionSet& positions, size_t row_count_max, KeyCursor& cursor) {
    table.list(cursor, positions, row_count_max, listed_);
    sorted_.clear();
    for (size_t i = 0; i < listed_.keys.size(); ++i) {
        const uint64_t key = listed_.keys[i];
        if (key >= asked.first_key && key <= asked.last_key)
            sorted_.emplace_back(key, listed_.rows[i]);
    }
    std::ranges::sort(sorted_);
    listed_.keys.resize(sorted_.size());
    listed_.rows.resize(sorted_.size());
    for (size_t i = 0; i < sorted_.size(); ++i) {
        listed_.keys[i] = sorted_[i].first;
        listed_.rows[i] = sorted_[i].second;
    }
}

}  // namespace weir
