// SPDX-License-Identifier: Apache-2.0
#include "lib/server/stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {
namespace {

using wire::Kind;

PositionSet positions_of(std::span<const LearnedSegment> segments) {
    std::vector<PositionRange> ranges;
    for (const LearnedSegment& segment : segments)
        ranges.push_back(segment.range);
    return PositionSet(ranges);
}

}  // namespace

Stream::Stream(Ends ends, transport::Endpoint& endpoint, const Clock& clock,
               const Holdings& holdings, ShardTables& tables, RepeatedLog& failures)
    : ends_(std::move(ends)),
      endpoint_(endpoint),
      clock_(clock),
      holdings_(holdings),
      tables_(tables),
      failures_(failures) {
    enter(State::kPaused);
}

Stream::~Stream() {
    if (connection_) endpoint_.close(*connection_);
}

/// What was sent before a state is entered counts for nothing: a connection begins with nothing.
void Stream::enter(State state, uint64_t pause_ns) {
    state_ = state;
    until_ns_ = clock_.now_ns() + pause_ns;
    if (state == State::kOpen) return;
    queue_.clear();
    queue_bytes_ = 0;
    unapplied_.clear();
    unapplied_bytes_ = 0;
    last_index_ = 0;
    applied_ = 0;
    mark_ = 0;  // the chunks that follow have it all
    for (Batch& batch : batches_) {
        batch.has_begun = false;
        batch.tables.clear();
        batch.again.clear();
        batch.walked.reset();
        batch.end.reset();
    }
    find_positions();
}

void Stream::connect() {
    const Result<transport::ConnectionId> connection = endpoint_.connect(ends_.address);
    if (!connection) {
        const std::string why = connection.error().message();
        failures_.log(LogLevel::kWarning, "stream: " + why,
                      fmt::format("shard {}: cannot connect to shard {} at {}, which learns from "
                                  "it: {}",
                                  ends_.primary, ends_.learner, ends_.address, why));
        return enter(State::kPaused, kRefusedPauseNs);
    }
    connection_ = *connection;
    enter(State::kConnecting);
}

void Stream::connected() {
    enter(State::kOpen);
    wire::FrameHeader header = wire::header_of(Kind::kFollow);
    header.first = ends_.primary;
    const std::vector<std::byte> body = FollowMessage{epoch_, ++connection_count_}.encode();
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array parts{wire::bytes_of(header), std::span<const std::byte>(body)};
    if (endpoint_.send(*connection_, parts) == transport::Post::kPosted) return;
    endpoint_.close(*connection_);
    closed();
}

void Stream::closed() {
    connection_.reset();
    if (state_ != State::kPaused) enter(State::kPaused, kPauseNs);
}

void Stream::carry(std::span<const LearnedSegment> segments, uint64_t epoch) {
    epoch_ = epoch;
    std::vector<LearnedSegment> fresh(segments.begin(), segments.end());
    for (Batch& batch : batches_) {
        std::erase_if(batch.segments, [&](const LearnedSegment& segment) {
            return std::erase(fresh, segment) == 0;
        });
        batch.positions = positions_of(batch.segments);
    }
    std::erase_if(batches_, [](const Batch& batch) { return batch.segments.empty(); });
    if (!fresh.empty()) {
        Batch batch;
        batch.positions = positions_of(fresh);
        batch.segments = std::move(fresh);
        batches_.push_back(std::move(batch));
    }
    find_positions();
}

void Stream::find_positions() {
    std::vector<LearnedSegment> begun;
    for (const Batch& batch : batches_) {
        if (batch.has_begun)
            begun.insert(begun.end(), batch.segments.begin(), batch.segments.end());
    }
    positions_ = positions_of(begun);
    ++generation_;
}

/// Rows that are too many for one record go ahead of it: what else it says counts when all are there.
void Stream::add(const RecordMessage& record) {
    const uint64_t step = record.rows_to_cut();
    if (record.row_count <= step) return add_whole(record);
    for (uint64_t row = 0; row < record.row_count; row += step)
        add_whole(record.rows_from(row, std::min(step, record.row_count - row)));
    RecordMessage rest = record;
    rest.is_range = false;
    rest.row_count = 0;
    rest.first_key = 0;
    rest.keys = rest.values = rest.state = {};
    if (rest.has_tail()) add_whole(rest);
}

void Stream::add_whole(const RecordMessage& record) {
    queue_.push_back({.bytes = record.encode()});
    queue_bytes_ += queue_.back().bytes.size();
}

std::vector<LearnedSegment> Stream::segments() const {
    std::vector<LearnedSegment> all;
    for (const Batch& batch : batches_)
        all.insert(all.end(), batch.segments.begin(), batch.segments.end());
    return all;
}

/// Of a record that is added now.
uint64_t Stream::next_index() const noexcept {
    const bool is_part_sent = !queue_.empty() && queue_.front().sent > 0;
    return last_index_ + queue_.size() + (is_part_sent ? 0 : 1);
}

void Stream::mark() noexcept {
    mark_ = next_index() - 1;
}

bool Stream::has_sent_all_of(const PositionSet& positions) const {
    return applied_ >= mark_ && std::ranges::all_of(batches_, [&](const Batch& batch) {
               return !batch.positions.intersects(positions) ||
                      (batch.is_done() && *batch.end <= applied_);
           });
}

void Stream::iteration_closed(size_t table) {
    for (Batch& batch : batches_) {
        if (!batch.has_begun) continue;
        add_iterations(batch, table);
        batch.again.insert(table);
    }
}

void Stream::add_iterations(const Batch& batch, size_t table) {
    RecordMessage record;
    record.table = static_cast<uint32_t>(table);
    const ClosedIterations& closed = tables_[table]->iterations.state().closed();
    for (const LearnedSegment& segment : batch.segments) {
        for (const ClosedRun& run : closed.runs(segment.range)) {
            RecordedIterations one{run.range, run.state.last, {}};
            for (const FailedIteration& failed : run.state.failed)
                one.failed.push_back(
                    {failed.iteration, failed.failure.status, failed.failure.worker});
            record.iterations.push_back(std::move(one));
        }
    }
    if (!record.iterations.empty()) add(record);
}

std::vector<LearnedSegment> Stream::take_complete() {
    std::vector<LearnedSegment> complete;
    for (Batch& batch : batches_) {
        if (batch.is_reported || !batch.end || *batch.end > applied_) continue;
        batch.is_reported = true;
        complete.insert(complete.end(), batch.segments.begin(), batch.segments.end());
    }
    return complete;
}

std::string_view Stream::applied(const wire::FrameHeader& header) {
    if (state_ != State::kOpen || header.first < applied_ || header.first > last_index_)
        return "an answer to a record that was not sent";
    applied_ = header.first;
    while (!unapplied_.empty() && unapplied_.front().index <= applied_) {
        unapplied_bytes_ -= unapplied_.front().bytes;
        unapplied_.pop_front();
    }
    if (header.status == Errc::kOk) return {};
    log(LogLevel::kWarning,
        "shard {}: shard {} cannot learn from it ({}); the manager is told, and it tries again",
        ends_.primary, ends_.learner, to_string(header.status));
    is_refused_ = true;
    endpoint_.close(*connection_);
    connection_.reset();
    enter(State::kPaused, kRefusedPauseNs);
    return {};
}

size_t Stream::send(size_t bytes_max) {
    must_poll_ = false;
    if (batches_.empty()) return 0;
    if (state_ == State::kPaused) {
        must_poll_ = clock_.now_ns() < until_ns_;
        if (must_poll_ || connection_) return 0;
        connect();
        return 1;
    }
    if (state_ != State::kOpen) return 0;
    constexpr size_t kStepBytes = 2048;  // what a step takes beside its bytes
    const uint64_t before = sent_bytes_;
    for (size_t done = 0; done < bytes_max; done = sent_bytes_ - before) {
        if (queue_.empty() ? !send_next_chunk() : !send_queue()) break;
        sent_bytes_ += kStepBytes;
    }
    return sent_bytes_ - before;
}

bool Stream::has_window(size_t bytes) const noexcept {
    return unapplied_.empty() || unapplied_bytes_ + bytes <= kWindowBytes;
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

void Stream::was_sent(size_t bytes) {
    unapplied_.push_back({++last_index_, bytes});
    unapplied_bytes_ += bytes;
}

/// Sends the next frame of what waits. False: not now.
bool Stream::send_queue() {
    Queued& next = queue_.front();
    const size_t room =
        endpoint_.capabilities_of(*connection_).message_bytes_max - wire::kHeaderBytesMin;
    const auto rest = std::span<const std::byte>(next.bytes).subspan(next.sent);
    const auto some = rest.first(std::min(rest.size(), room));
    const bool is_first = next.sent == 0;
    if (is_first && !has_window(next.bytes.size())) return false;
    const uint64_t index = last_index_ + (is_first ? 1 : 0);
    if (!post(index, rest.size() - some.size(), std::span(&some, 1))) return false;
    if (is_first) was_sent(next.bytes.size());
    next.sent += some.size();
    if (next.sent < next.bytes.size()) return true;
    queue_bytes_ -= next.bytes.size();
    queue_.pop_front();
    return true;
}

/// What comes next of the first batch that is not done. False: nothing, or not now.
bool Stream::send_next_chunk() {
    const auto batch =
        std::ranges::find_if(batches_, [](const Batch& one) { return !one.is_done(); });
    if (batch == batches_.end() || !has_window(0)) return false;
    if (!batch->has_begun) {
        begin(*batch);
        return true;
    }
    if (!batch->walked && !begin_walk(*batch)) return true;
    if (!batch->cursor.at_end) return send_rows(*batch, *tables_[*batch->walked]);
    batch->walked.reset();
    if (batch->end) batch->end = next_index() - 1;
    return true;
}

/// Chooses the next table whose rows are to be sent. False: there is none, and the end is sent.
bool Stream::begin_walk(Batch& batch) {
    if (batch.tables.empty() && !batch.end) {
        end(batch);
        return false;
    }
    std::set<size_t>& tables = batch.tables.empty() ? batch.again : batch.tables;
    batch.walked = tables.extract(tables.begin()).value();
    batch.cursor = {};
    return true;
}

/// From now on every change is recorded, so the times of now are enough.
void Stream::begin(Batch& batch) {
    RecordMessage record;
    record.kind = RecordMessage::Kind::kBegin;
    record.segments = batch.segments;
    add(record);
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
    batch.has_begun = true;
    find_positions();
}

void Stream::end(Batch& batch) {
    RecordMessage record;
    record.kind = RecordMessage::Kind::kEnd;
    record.segments = batch.segments;
    add(record);
    batch.end = next_index() - 1;
}

/// Sends rows of a table, as they are now. False: not now.
bool Stream::send_rows(Batch& batch, const ShardTable& table) {
    const TableShard& rows = *table.rows;
    const bool is_dense = table.positions.is_dense();
    const size_t row_bytes =
        rows.pulled_row_bytes() + rows.state_row_bytes() + (is_dense ? 0 : sizeof(uint64_t));
    const size_t room = endpoint_.capabilities_of(*connection_).message_bytes_max -
                        wire::kHeaderBytesMin - RecordMessage::kHeadBytes;
    const size_t row_count = std::max<size_t>(1, room / row_bytes);
    KeyCursor cursor = batch.cursor;
    rows.list(cursor, batch.positions, row_count, listed_);
    if (listed_.row_count() == 0) {
        constexpr size_t kListBytes = size_t{8} << 10;  // it has read many buckets
        sent_bytes_ += kListBytes;
        batch.cursor = cursor;
        return true;
    }
    RecordMessage record;
    record.table = static_cast<uint32_t>(*batch.walked);
    record.is_range = is_dense;
    record.row_count = listed_.row_count();
    if (is_dense) {
        record.first_key = listed_.range.begin;
        record.values = *rows.values(listed_.range);
        record.state = *rows.state(listed_.range);
    } else {
        values_.resize(listed_.row_count() * rows.pulled_row_bytes());
        state_bytes_.resize(listed_.row_count() * rows.state_row_bytes());
        rows.copy_values(listed_, values_);
        rows.copy_state(listed_, state_bytes_);
        record.keys = std::as_bytes(std::span(listed_.keys));
        record.values = values_;
        record.state = state_bytes_;
    }
    if (row_bytes > room) {  // a single row, longer than a message
        batch.cursor = cursor;
        add(record);
        return true;
    }
    const auto head = record.encode_head();
    const std::array<std::span<const std::byte>, 4> parts{head, record.keys, record.values,
                                                          record.state};
    if (!post(last_index_ + 1, 0, parts)) return false;
    was_sent(listed_.row_count() * row_bytes);
    batch.cursor = cursor;
    return true;
}

}  // namespace weir
