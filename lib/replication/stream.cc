// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/stream.h"

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
               const Holdings& holdings, Replicas& tables, Shared shared)
    : ends_(std::move(ends)),
      endpoint_(endpoint),
      clock_(clock),
      holdings_(holdings),
      tables_(tables),
      lender_(shared.lender),
      failures_(shared.failures) {
    enter(State::kPaused);
}

Stream::~Stream() {
    if (!connection_) return;
    set_lent_aside();
    endpoint_.close(*connection_);
}

void Stream::enter(State state, uint64_t pause_ns) {
    WEIR_CHECK(state != State::kConnecting || (state_ == State::kPaused && connection_));
    WEIR_CHECK(state != State::kOpen || (state_ == State::kConnecting && connection_));
    state_ = state;
    until_ns_ = clock_.now_ns() + pause_ns;
    if (state == State::kOpen) return;
    ends_.lasting != 0 ? send_again() : begin_anew();
}

void Stream::enter(Batch& batch, Stage stage) {
    switch (stage) {
        case Stage::kNamed:  // on another connection, of a stream that does not last
            WEIR_CHECK(!is_lasting() && !batch.is_in_sync());
            batch.tables.clear();
            batch.again.clear();
            batch.walked.reset();
            break;
        case Stage::kRows: WEIR_CHECK(batch.stage == Stage::kNamed); break;
        case Stage::kEnded:
            WEIR_CHECK(batch.stage == Stage::kRows && batch.tables.empty() && !batch.walked);
            batch.end = next_index() - 1;
            break;
        case Stage::kInSync:
            WEIR_CHECK(batch.is_backup() && is_lasting() && batch.is_done());
            batch.in_sync_behind = next_index() - 1;
            batch.in_sync_change = last_change_;
            break;
    }
    batch.stage = stage;
}

/// What was sent and not applied is sent on the next connection, before all else.
void Stream::send_again() {
    if (has_sent_fragment()) {
        queue_.front().sent = 0;
        unapplied_.pop_back();
    }
    for (; !unapplied_.empty(); unapplied_.pop_back()) {
        Queued& record = queue_.emplace_front(std::move(unapplied_.back().kept));
        record.sent = 0;
        record.change = 0;
        queue_bytes_ += record.size();
    }
    unaccepted_bytes_ = 0;
    forget_chunks_ahead();
    last_index_ = accepted_ = applied_;
}

/// What was sent counts for nothing: a connection begins with nothing.
void Stream::begin_anew() {
    queue_.clear();
    queue_bytes_ = 0;
    unapplied_.clear();
    unaccepted_bytes_ = 0;
    forget_chunks_ahead();
    last_index_ = 0;
    applied_ = accepted_ = 0;
    mark_ = 0;  // the chunks that follow have it all
    last_list_ = 0;
    for (Batch& batch : batches_) {
        enter(batch, Stage::kNamed);
    }
    find_positions();
}

void Stream::connect() {
    const Result<transport::ConnectionId> connection = endpoint_.connect(ends_.address);
    if (!connection) return try_later(connection.error().message());
    connection_ = *connection;
    enter(State::kConnecting);
}

/// There is no connection, or not long. The learner may be gone, and the view without it on its way.
void Stream::try_later(std::string_view why) {
    if (state_ != State::kOpen && !std::exchange(is_out_, true)) {
        failures_.log(LogLevel::kWarning, fmt::format("stream: {}", why),
                      fmt::format("shard {}: cannot connect to shard {} at {}, which has or learns "
                                  "copies of what it holds: {}; it is tried again",
                                  ends_.primary, ends_.learner, ends_.address, why));
    }
    pause_ns_ = std::clamp(2 * pause_ns_, kPauseNs, kPauseNsMax);
    enter(State::kPaused, pause_ns_);
}

void Stream::connected() {
    enter(State::kOpen);
    connected_ns_ = clock_.now_ns();
    wire::FrameHeader header = wire::header_of(Kind::kFollow);
    header.first = ends_.primary;
    const std::vector<std::byte> body =
        FollowMessage{epoch_, ++connection_count_, ends_.lasting, applied_, ends_.pass}.encode();
    header.body_bytes = static_cast<uint32_t>(body.size());
    const std::array parts{wire::bytes_of(header), std::span<const std::byte>(body)};
    if (endpoint_.send(*connection_, parts) == transport::Post::kPosted) return;
    endpoint_.close(*connection_);
    closed();
}

void Stream::closed(bool memory_in_doubt) {
    if (memory_in_doubt) set_lent_aside();
    connection_.reset();
    if (state_ == State::kPaused) return;
    if (state_ == State::kOpen && clock_.now_ns() - connected_ns_ >= kPauseNsMax) pause_ns_ = 0;
    try_later("the connection was not accepted, or ended at once");
}

void Stream::carry(std::span<const Carried> segments, uint64_t epoch) {
    epoch_ = epoch;
    std::vector<Carried> fresh(segments.begin(), segments.end());
    for (Batch& batch : batches_) {
        std::erase_if(batch.segments, [&](const LearnedSegment& segment) {
            return std::erase_if(fresh, [&](const Carried& c) { return c.is == segment; }) == 0;
        });
        batch.positions = positions_of(batch.segments);
    }
    std::erase_if(batches_, [](const Batch& batch) { return batch.segments.empty(); });
    for (; !fresh.empty();) {  // those of a kind make a batch
        Batch batch;
        batch.as = fresh.front().as;
        std::erase_if(fresh, [&](const Carried& c) {
            const bool is_alike = c.as == batch.as;
            if (is_alike) batch.segments.push_back(c.is);
            return is_alike;
        });
        WEIR_CHECK(!batch.is_backup() || is_lasting());  // backups need whole changes
        batch.positions = positions_of(batch.segments);
        if (batch.as == As::kTakenOver) {
            take_over(batch);
            taken_over_ = batch.positions;
        }
        batches_.push_back(std::move(batch));
    }
    find_positions();
    find_in_sync();
    find_unreported();
}

void Stream::find_unreported() {
    has_unreported_ = !std::ranges::all_of(batches_, &Batch::is_reported);
}

void Stream::find_in_sync() {
    is_in_sync_ =
        std::ranges::any_of(batches_, [](const Batch& batch) { return batch.is_in_sync(); });
}

void Stream::find_positions() {
    std::vector<LearnedSegment> begun;
    for (const Batch& batch : batches_) {
        if (batch.has_begun())
            begun.insert(begun.end(), batch.segments.begin(), batch.segments.end());
    }
    positions_ = positions_of(begun);
    ++generation_;
}

/// Rows that are too many for one record go ahead of it: what else it says counts when all are there.
void Stream::add(RecordMessage& record, bool has_more) {
    const uint64_t step = record.rows_to_cut();
    if (record.row_count <= step) return add_whole(record, has_more);
    for (uint64_t row = 0; row < record.row_count; row += step) {
        const bool is_end = row + step >= record.row_count && !record.has_tail();
        RecordMessage part = record.rows_from(row, std::min(step, record.row_count - row));
        add_whole(part, has_more || !is_end);
    }
    record.is_range = record.is_known = false;
    record.row_count = 0;
    record.first_key = record.list = 0;
    record.keys = record.values = record.state = {};
    if (record.has_tail()) add_whole(record, has_more);
}

/// Only backups need whole changes.
void Stream::add_whole(RecordMessage& record, bool has_more) {
    record.has_more = has_more && ends_.lasting != 0;
    record.is_shared = is_shared_;
    if (is_shared_) record.common = common_;
    Queued& queued = queue_.emplace_back();
    queued.change = last_change_;
    if (can_lend()) queued.lent = lender_.take(record.rows_bytes());
    if (queued.lent) {
        queued.lent_bytes = record.rows_bytes();
        queued.bytes = record.encode_lent({queued.lent.data(), queued.lent_bytes}, spare_.take());
    } else {
        queued.bytes = record.encode(spare_.take());
    }
    queued.work_bytes = std::max(record.work_bytes(), queued.size());
    queue_bytes_ += queued.size();
}

/// Whether the learner maps memory of this side.
bool Stream::can_lend() const {
    return state_ == State::kOpen && connection_ &&
           endpoint_.capabilities_of(*connection_).maps_memory;
}

void Stream::give_back(Queued&& record) {
    spare_.give(std::move(record.bytes));
    if (record.lent) lender_.put(std::move(record.lent));
}

/// The learner may take what was lent over this connection though that ends. What is sent again has its rows in
/// messages.
void Stream::set_lent_aside() {
    std::vector<Block> lent;
    for (Sent& sent : unapplied_) {
        if (sent.kept.lent) lent.push_back(take_lent(sent.kept));
    }
    if (has_sent_fragment() && queue_.front().lent) {
        queue_bytes_ -= queue_.front().size();
        lent.push_back(take_lent(queue_.front()));
        queue_bytes_ += queue_.front().size();
    }
    if (!lent.empty()) lender_.set_aside(*connection_, ends_.learner, std::move(lent));
}

void Stream::forget_lists() {
    if (std::exchange(last_list_, 0) == 0) return;
    RecordMessage record;
    record.kind = RecordMessage::Kind::kForgetLists;
    add(record);
}

std::vector<LearnedSegment> Stream::segments() const {
    std::vector<LearnedSegment> all;
    for (const Batch& batch : batches_)
        all.insert(all.end(), batch.segments.begin(), batch.segments.end());
    return all;
}

/// Of a record that is added now.
uint64_t Stream::next_index() const noexcept {
    return last_index_ + queue_.size() + (has_sent_fragment() ? 0 : 1);
}

void Stream::end_change(uint64_t change) {
    WEIR_CHECK(change == last_change_);
    if (ends_.lasting == 0) return;
    WEIR_CHECK(changes_.empty() || changes_.back().number <= change);
    changes_.push_back({next_index() - 1, change});
    if (is_shared_) uncommon_.push_back(changes_.back());
}

void Stream::replicated_everywhere(uint64_t change) noexcept {
    for (; !uncommon_.empty() && uncommon_.front().number <= change; uncommon_.pop_front())
        common_ = uncommon_.front().index;
}

void Stream::mark() noexcept {
    mark_ = next_index() - 1;
}

bool Stream::has_sent_all_of(const PositionSet& positions) const {
    return applied_ >= mark_ && std::ranges::all_of(batches_, [&](const Batch& batch) {
               return !batch.positions.intersects(positions) ||
                      (batch.is_done() && batch.end <= applied_);
           });
}

void Stream::iteration_closed(size_t table, const AggregatedRows& changed) {
    for (Batch& batch : batches_) {
        if (!batch.has_begun()) continue;
        if (is_lasting()) add_rows(batch, table, changed);
        add_iterations(batch, table);
        if (!is_lasting()) batch.again.insert(table);
    }
}

void Stream::table_filled(size_t table) {
    for (Batch& batch : batches_) {
        if (!batch.has_begun()) continue;
        add_iterations(batch, table);
        (batch.has_ended() ? batch.again : batch.tables).insert(table);
    }
}

bool Stream::has_filled(size_t table) const noexcept {
    return std::ranges::all_of(batches_, [&](const Batch& batch) {
        const bool must_have = batch.is_backup() ? batch.is_in_sync() : batch.has_ended();
        return !must_have ||
               (!batch.again.contains(table) && batch.walked != table && batch.end <= applied_);
    });
}

void Stream::forget_filled(size_t table) {
    for (Batch& batch : batches_) {
        if (!batch.has_ended()) continue;
        batch.again.erase(table);
        if (batch.walked != table) continue;
        batch.walked.reset();
        batch.end = next_index() - 1;
    }
}

void Stream::iteration_closed(RecordMessage& record) {
    for (Batch& batch : batches_) {
        if (!batch.has_begun()) continue;
        for (const LearnedSegment& segment : batch.segments)
            put_iterations(record, segment.range);
        if (!is_lasting()) batch.again.insert(record.table);
    }
    if (record.row_count > 0 || record.has_tail()) add(record);
}

void Stream::forget_table(size_t table) {
    for (Batch& batch : batches_) {
        batch.tables.erase(table);
        batch.again.erase(table);
        if (batch.walked != table) continue;
        batch.walked.reset();
        if (batch.has_ended()) batch.end = next_index() - 1;
    }
}

/// They are the beginning of a change; only backups need it whole.
void Stream::add_rows(const Batch& batch, size_t table, const AggregatedRows& changed) {
    const PositionMap& map = tables_[table]->positions;
    listed_.keys.clear();
    listed_.rows.clear();
    for (const KeyRange held : batch.positions.dense_keys(map.is_dense() ? map.key_count() : 0)) {
        for (const KeyRange range : changed.ranges) {
            listed_.range = intersect(range, held);
            if (!listed_.range.empty()) add_listed(table, batch.is_backup());
        }
    }
    listed_.range = {};
    for (size_t i = 0; i < changed.keys.size(); ++i) {
        if (!batch.positions.contains(map.position(changed.keys[i]))) continue;
        listed_.keys.push_back(changed.keys[i]);
        listed_.rows.push_back(changed.rows[i]);
    }
    if (!listed_.keys.empty()) add_listed(table, batch.is_backup());
}

void Stream::add_iterations(const Batch& batch, size_t table) {
    RecordMessage record;
    record.table = static_cast<uint32_t>(table);
    for (const LearnedSegment& segment : batch.segments)
        put_iterations(record, segment.range);
    if (!record.iterations.empty()) add(record);
}

/// Of the record's table.
void Stream::put_iterations(RecordMessage& record, PositionRange range) const {
    const ClosedIterations& closed = tables_[record.table]->closed;
    for (const ClosedRun& run : closed.runs(range)) {
        RecordedIterations one{run.range, run.state.last, {}};
        for (const FailedIteration& failed : run.state.failed)
            one.failed.push_back({failed.iteration, failed.failure.status, failed.failure.worker,
                                  failed.failure.other});
        record.iterations.push_back(std::move(one));
    }
}

std::vector<LearnedSegment> Stream::refused_segments() const {
    std::vector<LearnedSegment> learned;
    for (const Batch& batch : batches_) {
        if (!batch.is_reported)
            learned.insert(learned.end(), batch.segments.begin(), batch.segments.end());
    }
    return learned.empty() ? segments() : learned;
}

std::vector<LearnedSegment> Stream::take_complete(uint64_t replicated) {
    std::vector<LearnedSegment> complete;
    for (Batch& batch : batches_) {
        if (batch.is_reported || !batch.has_ended() || batch.end > applied_) continue;
        if (batch.is_backup()) {
            if (!batch.is_done()) continue;
            if (!batch.is_in_sync()) enter(batch, Stage::kInSync);
            find_in_sync();
            // Chunks may have shown it what another backup still lacks.
            if (batch.in_sync_behind > applied_ || batch.in_sync_change > replicated) continue;
        }
        batch.is_reported = true;
        complete.insert(complete.end(), batch.segments.begin(), batch.segments.end());
    }
    find_unreported();
    return complete;
}

bool Stream::is_stuck(uint64_t now_ns, uint64_t most_ns) noexcept {
    const bool has_slept = now_ns - std::exchange(looked_ns_, now_ns) > most_ns / 2;
    const bool is_heard = std::exchange(seen_, heard_) != heard_;
    if (!awaits_learner() || is_heard || has_slept) went_on_ns_ = now_ns;
    if (now_ns - went_on_ns_ <= most_ns) return false;
    went_on_ns_ = now_ns;
    return true;
}

std::string_view Stream::applied(const wire::FrameHeader& header) {
    const uint64_t accepted = std::max(header.first, header.request);
    const uint64_t whole =
        last_index_ - (has_sent_fragment() ? 1 : 0);  // nobody has applied a fragment
    if (state_ != State::kOpen || header.first < applied_ || accepted < accepted_ ||
        accepted > whole)
        return "an ack of a record that was not sent";
    WEIR_CHECK(unapplied_.size() == last_index_ - applied_);
    ++heard_;
    // It has accepted this connection, and reads nothing over those before.
    lender_.take_back_if([&](uint32_t reader) { return reader == ends_.learner; });
    pause_ns_ = 0;
    is_out_ = false;
    for (const Sent& sent : unapplied_) {
        if (sent.index <= accepted_ || sent.index > accepted) continue;
        WEIR_CHECK(unaccepted_bytes_ >= sent.work_bytes);
        unaccepted_bytes_ -= sent.work_bytes;
    }
    accepted_ = accepted;
    for (; !chunks_ahead_.empty() && chunks_ahead_.front().index <= accepted_;
         chunks_ahead_.pop_front())
        chunk_bytes_ahead_ -= chunks_ahead_.front().work_bytes;
    applied_ = header.first;
    for (; !unapplied_.empty() && unapplied_.front().index <= applied_; unapplied_.pop_front())
        give_back(std::move(unapplied_.front().kept));
    while (!changes_.empty() && changes_.front().index <= applied_)
        changes_.pop_front();
    WEIR_CHECK(applied_ <= accepted_ &&
               (accepted_ != whole || has_sent_fragment() || unaccepted_bytes_ == 0));
    if (header.status == Errc::kOk) return {};
    log(LogLevel::kWarning,
        "shard {}: shard {} cannot learn from it ({}); the manager is told, and it tries again",
        ends_.primary, ends_.learner, to_string(header.status));
    is_refused_ = true;
    endpoint_.close(*connection_);
    set_lent_aside();
    connection_.reset();
    enter(State::kPaused, kPauseNsMax);
    return {};
}

}  // namespace weir
