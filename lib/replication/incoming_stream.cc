// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/incoming_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/wire/messages.h"

namespace weir {
namespace {

/// Of a record that comes in fragments, whose length is the sender's word.
constexpr uint64_t kReservedMax = uint64_t{4} << 20;

/// Between two signs of life. A primary waits for some times as long, if a lease is as short as it may be.
constexpr uint64_t kSignNs = 10 * kMillisecond;

}  // namespace

IncomingStream::IncomingStream(Ends ends, const View& view, Holdings& holdings, Replicas& tables,
                               size_t change_bytes_max)
    : ends_(ends),
      view_(view),
      holdings_(holdings),
      tables_(tables),
      change_bytes_max_(change_bytes_max) {}

std::string_view IncomingStream::receive(const wire::Frame& frame, Source source) {
    const wire::FrameHeader& h = frame.header;
    if (refusal_ != Errc::kOk) return {};
    const bool is_first = bytes_to_come_ == 0;
    if (h.first != received_ + (is_first ? 1 : 0)) return "a record with another index than is due";
    if (frame.values.empty() && !(is_first && h.request == 0))
        return "a fragment of a record with nothing in it";
    received_ = h.first;
    if (is_first && h.request == 0) return receive_whole(frame.values, nullptr, source);
    if (is_first) {
        if (h.request > RecordMessage::kBytesMax) return "a record that is too long";
        partial_ = spare_.take();
        partial_.clear();
        partial_.reserve(frame.values.size() + std::min(h.request, kReservedMax));
    } else if (h.request + frame.values.size() != bytes_to_come_) {
        return "a fragment of a record that does not fit to those before";
    }
    partial_.insert(partial_.end(), frame.values.begin(), frame.values.end());
    if (partial_.size() > RecordMessage::kBytesMax) return "a record that is too long";
    bytes_to_come_ = h.request;
    if (bytes_to_come_ > 0) return {};
    std::vector<std::byte> whole = std::exchange(partial_, {});
    const std::string_view wrong = receive_whole(whole, &whole, source);
    spare_.give(std::move(whole));
    return wrong;
}

/// All of a record is here, or can be read. `memory`: that of the bytes, which it may keep.
std::string_view IncomingStream::receive_whole(std::span<const std::byte> bytes,
                                               std::vector<std::byte>* memory, Source source) {
    std::span<const std::byte> lent;
    if (const auto at = RecordMessage::lent_at(bytes)) {
        const std::byte* const rows =
            source.endpoint.map(source.connection, {at->address, at->length_bytes, at->key},
                                transport::Access::kRemoteRead);
        if (rows == nullptr) {
            return "a record whose rows are not where it says, or cannot be mapped here (has its "
                   "process ended since? is the address space of this process limited, as by "
                   "ulimit -v?)";
        }
        lent = {rows, at->length_bytes};
        memory = nullptr;
    }
    if (!record_.become(bytes, lent)) return "a malformed record";
    has_received_push_ = record_.has_more || record_.has_tail();
    if (waiting_.empty()) {
        const Outcome outcome = accept(record_, memory);
        if (outcome != Outcome::kWait) return judge(outcome);
    }
    const bool is_alone = waiting_.empty();
    waiting_.push_back(memory != nullptr ? std::move(*memory) : record_.encode(spare_.take()));
    waiting_bytes_ += waiting_.back().size();
    if (is_alone) return {};
    return waiting_bytes_ > kWaitingBytesMax ? "more records than the window has room for" : "";
}

std::string_view IncomingStream::go_on() {
    while (!waiting_.empty() && refusal_ == Errc::kOk) {
        const Outcome outcome = accept_waiting(kStepBytes);
        if (outcome == Outcome::kWait) return {};
        if (const std::string_view wrong = judge(outcome); !wrong.empty()) return wrong;
    }
    return {};
}

/// `bytes_max`: as of accept().
IncomingStream::Outcome IncomingStream::accept_waiting(size_t bytes_max) {
    std::vector<std::byte>& first = waiting_.front();
    const size_t bytes = first.size();
    const Outcome outcome = accept(*RecordMessage::decode(first), &first, bytes_max);
    if (outcome == Outcome::kWait) return outcome;
    WEIR_CHECK(waiting_bytes_ >= bytes);
    waiting_bytes_ -= bytes;
    spare_.give(std::move(first));
    waiting_.pop_front();
    return outcome;
}

std::string_view IncomingStream::finish_change() {
    if (applied_records_ == 0) return {};
    const std::string_view wrong = judge(accept_waiting(~size_t{0}));
    if (!wrong.empty()) tear();
    return wrong;
}

std::string_view IncomingStream::judge(Outcome outcome) {
    if (outcome == Outcome::kApplied) {
        ++accepted_;
        if (change_.empty() && accepted_ > applied_) {
            applied_ = accepted_;
            mend();
        }
    }
    if (outcome == Outcome::kRefused) {
        waiting_.clear();
        waiting_bytes_ = 0;
    }
    applied_records_ = 0;
    return outcome == Outcome::kMalformed ? wrong_ : std::string_view();
}

std::optional<IncomingStream::Progress> IncomingStream::take_progress() {
    const Progress progress{std::min(applied_, accepted_), accepted_};
    const bool is_news = told_ != progress || (refusal_ != Errc::kOk && !has_told_refusal_);
    if (!is_news) return std::nullopt;
    has_told_refusal_ = refusal_ != Errc::kOk;
    return told_ = progress;
}

std::optional<IncomingStream::Progress> IncomingStream::take_sign_of_life(
    uint64_t now_ns) noexcept {
    if (now_ns < next_sign_ns_) return std::nullopt;
    next_sign_ns_ = now_ns + kSignNs;
    return told_;
}

bool IncomingStream::go_on_behind(uint64_t index, uint64_t number) {
    if (index > applied_) return false;
    ends_.connection = number;
    received_ = accepted_ = index;
    told_ = {index, index};
    partial_.clear();
    bytes_to_come_ = 0;
    waiting_.clear();
    waiting_bytes_ = 0;
    change_.clear();
    applied_records_ = 0;
    change_bytes_ = 0;
    refusal_ = Errc::kOk;
    has_told_refusal_ = false;
    return true;
}

/// A whole record comes: it is applied, or kept until its change is whole. `memory`: that of its bytes,
/// which it may keep; null: its spans point to where nobody may keep anything. `bytes_max`: of records that
/// were kept, when there are more, the rest is applied when it is called again.
IncomingStream::Outcome IncomingStream::accept(const RecordMessage& record,
                                               std::vector<std::byte>* memory, size_t bytes_max) {
    if (accepted_ < applied_) return Outcome::kApplied;  // on an earlier connection
    if (record.has_more) {
        change_.push_back(memory != nullptr ? std::move(*memory) : record.encode(spare_.take()));
        change_bytes_ += change_.back().size();
        wrong_ = "a change that is too long";
        const bool is_sound = ends_.stream != 0 && change_bytes_ <= change_bytes_max_;
        return is_sound ? Outcome::kApplied : Outcome::kMalformed;
    }
    wrong_ = "a malformed record";
    // All records of a change are of one table: only the first one can have to wait.
    for (size_t bytes = 0; applied_records_ < change_.size(); ++applied_records_) {
        if (bytes >= bytes_max) return Outcome::kWait;
        const std::vector<std::byte>& part = change_[applied_records_];
        bytes += part.size();
        const Outcome outcome = apply(*RecordMessage::decode(part));
        if (outcome != Outcome::kApplied) return outcome;
    }
    const Outcome outcome = apply(record);
    if (outcome == Outcome::kApplied) {
        note_change(record);
        for (std::vector<std::byte>& one : change_)
            spare_.give(std::move(one));
        change_.clear();
        change_bytes_ = 0;
    }
    WEIR_CHECK(change_.empty() == (change_bytes_ == 0));
    return outcome;
}

/// A change was applied. Chunks are none: all backups have what they show before this one is in sync.
void IncomingStream::note_change(const RecordMessage& last) {
    if (!last.is_shared) return touched_.replicated_everywhere(accepted_);
    touched_.replicated_everywhere(last.common);
    if (last.kind != RecordMessage::Kind::kRows || !last.has_tail()) return;
    const auto note = [&](RecordMessage record) {
        if (record.is_known) record.keys = std::as_bytes(std::span(lists_.at(record.list).keys));
        touched_.add(accepted_ + 1, record);
    };
    for (const std::vector<std::byte>& part : change_)
        note(*RecordMessage::decode(part));
    note(last);
}

/// Some rows of a change may have been written. If this shard became primary now, the change would
/// come again from its worker, and take effect twice there.
void IncomingStream::tear() {
    for (Segment& segment : segments_) {
        if (!segment.is_active || !holdings_.has(segment.is.range, Holdings::Role::kLearned))
            continue;
        segment.is_torn = true;
        holdings_.unlearned(segment.is.range);
    }
}

/// The refused change came again and is whole.
void IncomingStream::mend() {
    for (Segment& segment : segments_) {
        if (std::exchange(segment.is_torn, false) && segment.is_active)
            holdings_.learned(segment.is.range);
    }
}

IncomingStream::Outcome IncomingStream::apply(const RecordMessage& message) {
    const RecordMessage* const record = &message;
    is_preparing_ = false;  // a view may have taken what it prepared
    switch (record->kind) {
        case RecordMessage::Kind::kBegin: return begin(*record);
        case RecordMessage::Kind::kTakeOver: return take_over(*record);
        case RecordMessage::Kind::kEnd:
            for (const LearnedSegment& segment : record->segments) {
                const Segment* const known = find(segment.range);
                if (known == nullptr || known->is != segment || !known->is_active) continue;
                is_preparing_ = holdings_.fill_some(segment.range);
                if (is_preparing_) return Outcome::kWait;
                holdings_.learned(segment.range);
            }
            return Outcome::kApplied;
        case RecordMessage::Kind::kForgetLists:
            lists_.clear();
            list_bytes_ = 0;
            return Outcome::kApplied;
        case RecordMessage::Kind::kRows: break;
    }
    if (record->table >= TableMessage::kTablesMax) return Outcome::kMalformed;
    if (record->table >= tables_.size() || tables_[record->table] == nullptr)
        return tables_.dropped.contains(record->table) ? skip_rows(*record) : Outcome::kWait;
    const Outcome outcome = apply_rows(*tables_[record->table], *record);
    if (outcome == Outcome::kRefused) tear();
    return outcome;
}

/// Of whichever primary.
bool IncomingStream::is_backup(PositionRange range) const noexcept {
    const size_t i = view_.segment_index(range.first);
    return view_.range(i) == range &&
           std::ranges::count(view_.segments()[i].backups, ends_.learner) > 0;
}

bool IncomingStream::is_learner(const LearnedSegment& segment) const noexcept {
    const size_t i = view_.segment_index(segment.range.first);
    const ViewSegment& is = view_.segments()[i];
    return view_.range(i) == segment.range && is.primary == ends_.primary &&
           is.learner.shard == ends_.learner && is.learner.named == segment.named;
}

const IncomingStream::Segment* IncomingStream::find(PositionRange range) const noexcept {
    for (const Segment& segment : segments_) {
        if (segment.is.range == range) return &segment;
    }
    return nullptr;
}

/// Drops what is here of the segments, and makes room for them.
IncomingStream::Outcome IncomingStream::begin(const RecordMessage& record) {
    for (const LearnedSegment& segment : record.segments) {
        if (segment.named > view_.epoch()) return Outcome::kWait;
    }
    wrong_ = "the beginning of a segment that it has begun";
    for (const LearnedSegment& segment : record.segments) {
        const Segment* const known = find(segment.range);
        // Named anew, or begun in part before rows had to be dropped.
        if (known != nullptr && known->is.named >= segment.named && known->is != segment)
            return Outcome::kMalformed;
        if (known != nullptr && known->is == segment && known->is_active) continue;
        const bool is_active = is_learner(segment);
        if (is_active) {
            holdings_.forget(segment.range);  // what came on an earlier connection
            is_preparing_ = holdings_.prepare(segment.range);
            if (is_preparing_) return Outcome::kWait;
            const Status room = holdings_.learn(segment.range);
            if (room.code() == Errc::kBusy) return Outcome::kWait;
            if (!room) return ended(room);
        }
        if (!add_segment(segment, is_active)) return Outcome::kMalformed;
    }
    return Outcome::kApplied;
}

/// Goes on from what is here of the segments: the last primary has seen to it that this is all.
IncomingStream::Outcome IncomingStream::take_over(const RecordMessage& record) {
    for (const LearnedSegment& segment : record.segments) {
        if (segment.named > view_.epoch()) return Outcome::kWait;
    }
    wrong_ = "a takeover of a segment that this shard has not";
    for (const LearnedSegment& segment : record.segments) {
        const bool is_ours = is_backup(segment.range);
        if (is_ours && !holdings_.has(segment.range, Holdings::Role::kLearned))
            return Outcome::kMalformed;
        const bool is_active = is_ours && holdings_.take_over(segment.range, segment.named);
        if (!add_segment(segment, is_active)) return Outcome::kMalformed;
    }
    return Outcome::kApplied;
}

bool IncomingStream::add_segment(const LearnedSegment& segment, bool is_active) {
    std::erase_if(segments_, [&](const Segment& s) { return s.is.range == segment.range; });
    if (segments_.size() >= kSegmentsMax) return false;
    segments_.push_back({segment, is_active});
    find_positions();
    return true;
}

IncomingStream::Outcome IncomingStream::ended(const Status& status) {
    if (status) return Outcome::kApplied;
    if (status.code() != Errc::kNoMemory) {
        wrong_ = "rows that do not fit the table, or a segment that this shard has";
        return Outcome::kMalformed;
    }
    log(LogLevel::kError, "shard {}: no memory for what it is to learn from shard {}: {}",
        ends_.learner, ends_.primary, status.error().message());
    refusal_ = Errc::kNoMemory;
    return Outcome::kRefused;
}

IncomingStream::Outcome IncomingStream::apply_rows(TableReplica& table,
                                                   const RecordMessage& record) {
    table.was_pushed = true;
    if (record.row_count > 0) {
        const Outcome rows =
            record.is_range ? apply_range(table, record) : apply_list(table, record);
        if (rows != Outcome::kApplied) return rows;
    }
    return apply_times(table, record);
}

/// Of a table that was dropped here; its primary had not heard that yet.
IncomingStream::Outcome IncomingStream::skip_rows(const RecordMessage& record) {
    if (record.list == 0) return Outcome::kApplied;
    if (!record.is_known) return keep_list(record) ? Outcome::kApplied : Outcome::kMalformed;
    return numbered_list(record) != nullptr ? Outcome::kApplied : Outcome::kMalformed;
}

IncomingStream::Outcome IncomingStream::apply_range(TableReplica& table,
                                                    const RecordMessage& record) {
    wrong_ = "rows of segments that it has not begun";
    if (!table.positions.is_dense()) return Outcome::kMalformed;
    const uint64_t key_count = table.positions.key_count();
    const KeyRange keys = record.range();
    if (keys.end > key_count) return Outcome::kMalformed;
    const PositionRange positions{table.positions.position(keys.begin),
                                  table.positions.position(keys.end - 1)};
    uint64_t covered = 0;
    for (const PositionRange known : known_.ranges()) {
        const KeyRange has{table.positions.first_key_at(known.first),
                           table.positions.end_key_at(known.last)};
        covered += intersect(has, keys).key_count();
    }
    if (covered != keys.key_count()) return Outcome::kMalformed;
    const size_t row_bytes = table.rows->row_layout().value_bytes();
    const size_t state_row_bytes = table.rows->row_layout().state_bytes;
    if (record.values.size() != row_bytes * keys.key_count() ||
        record.state.size() != state_row_bytes * keys.key_count()) {
        return ended(Error(Errc::kInvalidArgument, "rows of another size"));
    }
    for (const PositionRange active : active_.ranges()) {
        if (active.last < positions.first || active.first > positions.last) continue;
        const KeyRange part = intersect(keys, {table.positions.first_key_at(active.first),
                                               table.positions.end_key_at(active.last)});
        if (part.empty()) continue;
        const size_t at = part.begin - keys.begin;
        const Status written = table.rows->take(
            part, record.values.subspan(at * row_bytes, part.key_count() * row_bytes),
            record.state.subspan(at * state_row_bytes, part.key_count() * state_row_bytes));
        if (!written) return ended(written);
    }
    return Outcome::kApplied;
}

IncomingStream::Outcome IncomingStream::apply_list(TableReplica& table,
                                                   const RecordMessage& record) {
    if (record.list != 0 && !record.is_known && !keep_list(record)) return Outcome::kMalformed;
    if (record.list != 0) return apply_known_list(table, record);
    keys_.resize(record.row_count);
    std::memcpy(keys_.data(), record.keys.data(), record.keys.size());
    wrong_ = "rows of segments that it has not begun";
    if (!are_known(table, keys_)) return Outcome::kMalformed;
    if (all_active_) return ended(table.rows->take(keys_, record.values, record.state));
    return apply_keys(table, keys_, record);
}

/// A change that was refused, or that has waited, brings its lists once more. False: too much would be
/// kept, or the number is that of another list.
bool IncomingStream::keep_list(const RecordMessage& record) {
    std::vector<uint64_t> keys(record.row_count);
    std::memcpy(keys.data(), record.keys.data(), record.keys.size());
    if (const auto known = lists_.find(record.list); known != lists_.end()) {
        wrong_ = "two lists by one number";
        return known->second.table == record.table && known->second.keys == keys;
    }
    wrong_ = "more lists than it may name by number";
    if (list_bytes_ + record.keys.size() > kListBytesMax) return false;
    list_bytes_ += record.keys.size();
    lists_[record.list] = {record.table, std::move(keys)};
    return true;
}

/// The list that the record names by its number, if that was sent for so many rows of this table.
IncomingStream::NumberedList* IncomingStream::numbered_list(const RecordMessage& record) {
    wrong_ = "a list that it has not sent by this number";
    const auto found = lists_.find(record.list);
    const bool is_it = found != lists_.end() && found->second.table == record.table &&
                       found->second.keys.size() == record.row_count;
    return is_it ? &found->second : nullptr;
}

IncomingStream::Outcome IncomingStream::apply_known_list(TableReplica& table,
                                                         const RecordMessage& record) {
    NumberedList* const known = numbered_list(record);
    if (known == nullptr) return Outcome::kMalformed;
    NumberedList& list = *known;
    wrong_ = "rows of segments that it has not begun";
    if (list.seen_in != segment_changes_ && !are_known(table, list.keys))
        return Outcome::kMalformed;
    list.seen_in = segment_changes_;
    if (!all_active_) return apply_keys(table, list.keys, record);
    if (table.rows->has_empty(record.state)) [[unlikely]]
        return ended(table.rows->take(list.keys, record.values, record.state));
    Result<RowList> rows = table.rows->known_rows_to_take(list.id);
    if (!rows || rows->remembered != list.rows.lock()) {
        rows = table.rows->rows_to_take(list.keys);
        if (!rows) return ended(rows.error());
        list.id = rows->id;
        list.rows = rows->remembered;
    }
    return ended(table.rows->take(*rows, record.values, record.state));
}

/// Whether all keys are in segments that were begun.
bool IncomingStream::are_known(const TableReplica& table, std::span<const uint64_t> keys) const {
    const bool is_dense = table.positions.is_dense();
    return std::ranges::all_of(keys, [&](uint64_t key) {
        return (!is_dense || key < table.positions.key_count()) &&
               known_.contains(table.positions.position(key));
    });
}

/// Leaves out what is for segments that are not active.
IncomingStream::Outcome IncomingStream::apply_keys(TableReplica& table,
                                                   std::span<const uint64_t> keys,
                                                   const RecordMessage& record) {
    const size_t count = keys.size();
    const size_t row_bytes = table.rows->row_layout().value_bytes();
    const size_t state_row_bytes = table.rows->row_layout().state_bytes;
    if (record.values.size() != row_bytes * count || record.state.size() != state_row_bytes * count)
        return ended(Error(Errc::kInvalidArgument, "rows of another size"));
    values_.assign(record.values.begin(), record.values.end());
    state_.assign(record.state.begin(), record.state.end());
    active_keys_.resize(count);
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        if (!active_.contains(table.positions.position(keys[i]))) continue;
        active_keys_[kept] = keys[i];
        std::copy_n(&values_[i * row_bytes], row_bytes, &values_[kept * row_bytes]);
        if (state_row_bytes > 0)
            std::copy_n(&state_[i * state_row_bytes], state_row_bytes,
                        &state_[kept * state_row_bytes]);
        ++kept;
    }
    return ended(table.rows->take(std::span(active_keys_).first(kept),
                                  std::span(values_).first(kept * row_bytes),
                                  std::span(state_).first(kept * state_row_bytes)));
}

/// A view says what numbers were given out; records may be ahead of it, but not by much.
bool IncomingStream::is_plausible(uint32_t worker) const noexcept {
    return worker < uint64_t{view_.data().next_worker} + ViewLimits::kWorkersMax;
}

IncomingStream::Outcome IncomingStream::apply_times(TableReplica& table,
                                                    const RecordMessage& record) {
    wrong_ = "times of segments that it has not begun, or of workers that cannot be";
    for (const ClockTimes& times : record.clocks) {
        const Segment* const segment = find(times.range);
        if (segment == nullptr) return Outcome::kMalformed;
        for (const WorkerTimes& one : times.workers) {
            if (!is_plausible(one.worker)) return Outcome::kMalformed;
        }
        if (!segment->is_active) continue;
        if (!table.clocks.take(holdings_.segments(), times)) return Outcome::kMalformed;
    }
    for (const RecordedTime& time : record.times) {
        const Segment* const segment = find(time.range);
        if (segment == nullptr || !is_plausible(time.worker)) return Outcome::kMalformed;
        if (!segment->is_active) continue;
        const ClockStep step{time.range.first, time.time};
        if (RangeClock* const clock = table.clocks.of(time.worker))
            clock->set(holdings_.segments(), time.range, std::span(&step, 1));
    }
    return apply_iterations(table, record);
}

IncomingStream::Outcome IncomingStream::apply_iterations(TableReplica& table,
                                                         const RecordMessage& record) {
    wrong_ = "iterations of segments that it has not begun, or that cannot be";
    for (const RecordedIterations& one : record.iterations) {
        ClosedRun run{one.range, {one.last_closed, {}}};
        for (const RecordedIterations::Failed& failed : one.failed)
            run.state.failed.push_back(
                {failed.iteration, {failed.status, failed.worker, failed.other}});
        const auto segment = std::ranges::find_if(segments_, [&](const Segment& s) {
            return s.is.range.first <= one.range.first && one.range.last <= s.is.range.last;
        });
        if (segment == segments_.end() || !run.state.is_sound()) return Outcome::kMalformed;
        if (segment->is_active) table.closed.set(run);
    }
    return Outcome::kApplied;
}

/// A backup follows the old primary until the new one takes over: the view may have come early, for
/// something that it takes from this shard, and the old primary is not done then.
void IncomingStream::apply_view(uint32_t learner) {
    ends_.learner = learner;
    for (Segment& segment : segments_)
        segment.is_active =
            segment.is_active && (is_learner(segment.is) || is_backup(segment.is.range));
    find_positions();
}

void IncomingStream::find_positions() {
    std::vector<PositionRange> known;
    std::vector<PositionRange> active;
    for (const Segment& segment : segments_) {
        known.push_back(segment.is.range);
        if (segment.is_active) active.push_back(segment.is.range);
    }
    known_ = PositionSet(known);
    active_ = PositionSet(active);
    all_active_ = active.size() == known.size();
    ++segment_changes_;
}

}  // namespace weir
