// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a Stream sends: records that wait, and chunks of rows when none does; few chunks behind records
/// that always wait.

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/check.h"
#include "lib/replication/stream.h"

namespace weir {

using wire::Kind;

namespace {

constexpr size_t kChunkWorkBytes = size_t{16} << 10;
constexpr size_t kChunkWorkBytesOfFew = size_t{8} << 10;

}  // namespace

size_t Stream::send(size_t bytes_max, What what, uint64_t change_max) {
    must_poll_ = false;
    if (batches_.empty()) return 0;
    if (state_ == State::kPaused) {
        if (clock_.now_ns() < until_ns_ || connection_) return 0;
        connect();
        return 1;
    }
    if (state_ != State::kOpen) return 0;
    constexpr size_t kStepBytes = 2048;  // what a step takes beside its bytes
    const uint64_t before = sent_bytes_;
    if (!queue_.empty() && what != What::kRecords) (void)send_next_chunk(what);
    for (size_t done = 0; done < bytes_max; done = sent_bytes_ - before) {
        if (queue_.empty() && what == What::kRecords) break;
        if (queue_.empty() ? !send_next_chunk(what) : !send_queue(change_max)) break;
        sent_bytes_ += kStepBytes;
    }
    return sent_bytes_ - before;
}

bool Stream::has_window(size_t work_bytes) const noexcept {
    return accepted_ == last_index_ || unaccepted_bytes_ + work_bytes <= kWindowBytes;
}

/// False: the connection takes nothing now, or is closed.
bool Stream::post(uint64_t index, size_t bytes_to_come,
                  std::span<const std::span<const std::byte>> body) {
    constexpr size_t kPartsMax = 4;
    wire::FrameHeader header = wire::header_of(Kind::kRecord);
    header.first = index;
    header.request = bytes_to_come;
    std::array<std::span<const std::byte>, kPartsMax + 1> parts{wire::bytes_of(header)};
    WEIR_CHECK(body.size() <= kPartsMax);
    size_t bytes = 0;
    for (size_t i = 0; i < body.size(); ++i) {
        parts[i + 1] = body[i];
        bytes += body[i].size();
    }
    header.body_bytes = static_cast<uint32_t>(bytes);
    switch (endpoint_.send(*connection_, std::span(parts).first(body.size() + 1))) {
        case transport::Post::kPosted: sent_bytes_ += bytes; return true;
        case transport::Post::kNotNow: must_poll_ = true; return false;
        case transport::Post::kClosed: return false;  // its kClosed comes
        case transport::Post::kInvalid: break;
    }
    log(LogLevel::kError,
        "shard {}: a record of {} bytes to shard {} is not sent: the connection takes no frames of "
        "this length; this is a bug of weir",
        ends_.primary, bytes, ends_.learner);
    return false;
}

void Stream::was_sent(size_t work_bytes) {
    unapplied_.push_back({.index = ++last_index_, .work_bytes = work_bytes});
    unaccepted_bytes_ += work_bytes;
}

void Stream::chunk_is_ahead(uint64_t index, size_t work_bytes) {
    chunks_ahead_.push_back({.index = index, .work_bytes = work_bytes});
    chunk_bytes_ahead_ += work_bytes;
}

void Stream::forget_chunks_ahead() noexcept {
    chunks_ahead_.clear();
    chunk_bytes_ahead_ = 0;
}

/// The record says where its rows are, as the learner reaches them over this connection. False: it
/// cannot.
bool Stream::lend(Queued& record) {
    if (!can_lend()) return false;
    const auto at = endpoint_.expose(*connection_, {record.lent.data(), record.lent_bytes});
    if (!at) return false;
    RecordMessage::set_lent_at(record.bytes, {at->address, at->length_bytes, at->key});
    return true;
}

/// Puts the rows into the record: the learner does not map memory, on this connection.
void Stream::put_rows_into(Queued& record) {
    queue_bytes_ -= record.size();
    lender_.put(take_lent(record));
    queue_bytes_ += record.size();
}

/// The record has its rows itself from now on.
Block Stream::take_lent(Queued& record) {
    const std::span<const std::byte> rows(record.lent.data(), record.lent_bytes);
    record.bytes = RecordMessage::decode(record.bytes, rows)->encode();
    record.lent_bytes = 0;
    return std::exchange(record.lent, {});
}

/// Sends the next frame of what waits. False: not now.
bool Stream::send_queue(uint64_t change_max) {
    Queued& next = queue_.front();
    if (next.sent == 0 && next.change > change_max) return false;
    const bool is_first = next.sent == 0;
    if (is_first && !has_window(next.work_bytes)) return false;
    if (is_first && next.lent && !lend(next)) put_rows_into(next);
    const size_t room =
        endpoint_.capabilities_of(*connection_).message_bytes_max - wire::kHeaderBytesMin;
    const auto rest = std::span<const std::byte>(next.bytes).subspan(next.sent);
    const auto some = rest.first(std::min(rest.size(), room));
    const uint64_t index = last_index_ + (is_first ? 1 : 0);
    if (!post(index, rest.size() - some.size(), std::span(&some, 1))) return false;
    if (is_first) was_sent(next.work_bytes);
    next.sent += some.size();
    if (next.sent < next.bytes.size()) return true;
    queue_bytes_ -= next.size();
    if (ends_.lasting != 0 || next.lent) unapplied_.back().kept = std::move(next);
    queue_.pop_front();
    return true;
}

size_t Stream::chunk_bytes_ahead_max(What what) const noexcept {
    if (what == What::kFewChunks) return kFewChunksBytes;
    return queue_.empty() ? ~size_t{0} : std::max(kFewChunksBytes, queue_bytes_ / kChunksShare);
}

/// What comes next of the first batch that is not done; if records wait, it waits behind them. False:
/// nothing, or not now.
bool Stream::send_next_chunk(What what) {
    if (chunk_bytes_ahead_ >= chunk_bytes_ahead_max(what)) return false;
    const size_t work_bytes_max = what == What::kFewChunks ? kChunkWorkBytesOfFew : kChunkWorkBytes;
    const auto batch =
        std::ranges::find_if(batches_, [](const Batch& one) { return !one.is_done(); });
    if (batch == batches_.end() || (queue_.empty() && !has_window(0))) return false;
    if (!batch->has_begun()) {
        begin(*batch);
        return true;
    }
    if (!batch->walked && !begin_walk(*batch)) return true;
    if (!batch->cursor.at_end) return send_rows(*batch, *tables_[*batch->walked], work_bytes_max);
    batch->walked.reset();
    if (batch->has_ended()) batch->end = next_index() - 1;
    return true;
}

/// Chooses the next table whose rows are to be sent. False: there is none, and the end is sent.
bool Stream::begin_walk(Batch& batch) {
    if (batch.tables.empty() && !batch.has_ended()) {
        end(batch);
        return false;
    }
    std::set<size_t>& tables = batch.tables.empty() ? batch.again : batch.tables;
    batch.walked = tables.extract(tables.begin()).value();
    batch.cursor = {};
    return true;
}

/// Opens a batch for a backup that has its rows already: it is in sync at once.
void Stream::take_over(Batch& batch) {
    RecordMessage record;
    record.kind = RecordMessage::Kind::kTakeOver;
    record.segments = batch.segments;
    add(record);
    for (const Stage stage : {Stage::kRows, Stage::kEnded, Stage::kInSync})
        enter(batch, stage);
    batch.is_reported = true;
}

/// Opens the batch: queues kBegin and each table's times. Later changes bring their own, so those of
/// now suffice.
void Stream::begin(Batch& batch) {
    RecordMessage record;
    record.kind = RecordMessage::Kind::kBegin;
    record.segments = batch.segments;
    add(record);
    enter(batch, Stage::kRows);
    for (size_t i = 0; i < tables_.size(); ++i) {
        // Without a push it is as in the beginning, and a learner may not have it yet.
        if (tables_[i] == nullptr || !tables_[i]->was_pushed) continue;
        RecordMessage times;
        times.table = static_cast<uint32_t>(i);
        for (const LearnedSegment& segment : batch.segments)
            times.clocks.push_back(tables_[i]->clocks.part(holdings_.segments(), segment.range));
        add(times);
        add_iterations(batch, i);
        batch.tables.insert(i);
    }
    find_positions();
}

void Stream::end(Batch& batch) {
    RecordMessage record;
    record.kind = RecordMessage::Kind::kEnd;
    record.segments = batch.segments;
    add(record);
    enter(batch, Stage::kEnded);
}

/// Of the rows that were listed.
RecordMessage Stream::record_of(const TableReplica& table, size_t number) {
    const TableShard& rows = *table.rows;
    RecordMessage record;
    record.table = static_cast<uint32_t>(number);
    record.is_range = !listed_.range.empty();
    record.row_count = listed_.row_count();
    if (record.is_range) {
        record.first_key = listed_.range.begin;
        record.values = *rows.values(listed_.range);
        record.state = *rows.state(listed_.range);
        return record;
    }
    values_.resize(listed_.row_count() * rows.row_layout().value_bytes());
    state_bytes_.resize(listed_.row_count() * rows.row_layout().state_bytes);
    rows.copy_values(listed_, values_);
    rows.copy_state(listed_, state_bytes_);
    record.keys = std::as_bytes(std::span(listed_.keys));
    record.values = values_;
    record.state = state_bytes_;
    return record;
}

/// `has_more`: as of add().
void Stream::add_listed(size_t table, bool has_more) {
    RecordMessage record = record_of(*tables_[table], table);
    add(record, has_more);
}

void Stream::add_as_now(size_t number, const PositionSet& positions, const TouchedRows& touched) {
    const TableReplica& table = *tables_[number];
    const bool is_dense = table.positions.is_dense();
    listed_ = {};
    for (const KeyRange extent : table.rows->extents()) {
        for (const KeyRange held :
             positions.dense_keys(is_dense ? table.positions.key_count() : 0)) {
            for (const KeyRange range : touched.ranges) {
                listed_.range = intersect(intersect(extent, held), range);
                if (!listed_.range.empty()) add_listed(number, true);
            }
        }
    }
    listed_ = {};
    std::vector<uint64_t> keys;
    for (const uint64_t key : touched.keys) {
        const bool is_key = !is_dense || key < table.positions.key_count();
        if (is_key && positions.contains(table.positions.position(key))) keys.push_back(key);
    }
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    if (const Result<RowList> list = tables_[number]->rows->rows_for_pull(keys); list) {
        for (size_t i = 0; i < keys.size(); ++i) {
            // The backup may have a row that was erased, and that the vacuum has taken here.
            if (list->rows[i] == kNoRow && !table.rows->schema().erasable) continue;
            listed_.keys.push_back(keys[i]);
            listed_.rows.push_back(list->rows[i]);
        }
    }
    if (!listed_.keys.empty()) add_listed(number, true);
    RecordMessage rest;
    rest.table = static_cast<uint32_t>(number);
    for (const Batch& batch : batches_) {
        for (const LearnedSegment& segment : batch.segments) {
            if (!positions.contains(segment.range.first)) continue;
            rest.clocks.push_back(table.clocks.part(holdings_.segments(), segment.range));
            put_iterations(rest, segment.range);
        }
    }
    add(rest);
}

/// Sends rows of a table, as they are now. False: not now.
bool Stream::send_rows(Batch& batch, const TableReplica& table, size_t work_bytes_max) {
    const TableShard& rows = *table.rows;
    const bool is_dense = table.positions.is_dense();
    const size_t row_bytes = rows.row_layout().value_bytes() + rows.row_layout().state_bytes +
                             (is_dense ? 0 : sizeof(uint64_t));
    const size_t row_work_bytes = row_bytes + (is_dense ? 0 : kFoundKeyBytes);
    const size_t room = endpoint_.capabilities_of(*connection_).message_bytes_max -
                        wire::kHeaderBytesMin - RecordMessage::kHeadBytes;
    const size_t row_count =
        std::max<size_t>(1, std::min(room / row_bytes, work_bytes_max / row_work_bytes));
    KeyCursor cursor = batch.cursor;
    rows.list(cursor, batch.positions, row_count, listed_);
    if (listed_.row_count() == 0) {
        constexpr size_t kListBytes = size_t{8} << 10;  // it has read many buckets
        sent_bytes_ += kListBytes;
        batch.cursor = cursor;
        return true;
    }
    RecordMessage record = record_of(table, *batch.walked);
    const size_t found_bytes = record.work_bytes() - record.rows_bytes();
    // A row is longer than a message; or it is kept; or it waits behind records.
    if (row_bytes > room || ends_.lasting != 0 || !queue_.empty()) {
        batch.cursor = cursor;
        sent_bytes_ += found_bytes;
        add(record);
        chunk_is_ahead(next_index() - 1, record.work_bytes());
        return true;
    }
    const auto head = record.encode_head();
    const std::array<std::span<const std::byte>, 4> parts{head, record.keys, record.values,
                                                          record.state};
    if (!post(last_index_ + 1, 0, parts)) return false;
    was_sent(record.work_bytes());
    chunk_is_ahead(last_index_, record.work_bytes());
    sent_bytes_ += found_bytes;
    batch.cursor = cursor;
    return true;
}

}  // namespace weir
