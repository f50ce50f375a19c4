// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/streams.h"

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"
#include "lib/filter/bitmap.h"
#include "lib/ring/copy_order.h"

namespace weir {

std::map<uint32_t, std::vector<Stream::Carried>> Streams::wanted_by(const View& view,
                                                                    uint32_t number) const {
    std::map<uint32_t, std::vector<Stream::Carried>> wanted;
    for (size_t i = 0; i < view.segments().size(); ++i) {
        const ViewSegment& segment = view.segments()[i];
        if (segment.primary != number) continue;
        const PositionRange range = view.range(i);
        if (segment.has_learner()) {
            const bool is_backup = segment.learner.replaces != number;
            wanted[segment.learner.shard].push_back(
                {{range, segment.learner.named},
                 is_backup ? Stream::As::kBackup : Stream::As::kLearner});
        }
        for (size_t b = 0; b < segment.backup_count(); ++b) {
            // One that has learned it from here goes on; another one has all, from the last primary.
            Stream::Carried carried{{range, view.epoch()}, Stream::As::kTakenOver};
            if (const Stream* const stream = to(segment.backups[b])) {
                for (const LearnedSegment& known : stream->segments()) {
                    if (known.range == range) carried = {known, Stream::As::kBackup};
                }
            }
            wanted[segment.backups[b]].push_back(carried);
        }
    }
    for (const auto& [learner, stream] : streams_) {
        for (const LearnedSegment& segment : stream->segments()) {
            if (!holdings_.has(segment.range, Holdings::Role::kLeaving)) continue;
            const ViewSegment& is = view.segments()[view.segment_index(segment.range.first)];
            const bool is_its =
                is.primary == learner || std::ranges::count(is.backups, learner) > 0;
            if (is_its) wanted[learner].push_back({segment});
        }
    }
    return wanted;
}

/// What is carried already.
void Streams::leave_only_known(std::map<uint32_t, std::vector<Stream::Carried>>& wanted) const {
    for (auto& [learner, segments] : wanted) {
        const Stream* const stream = to(learner);
        const std::vector<LearnedSegment> known =
            stream != nullptr ? stream->segments() : std::vector<LearnedSegment>();
        std::erase_if(segments, [&](const Stream::Carried& carried) {
            // Of what it has from another primary it may lack nothing that is replied here.
            return carried.as != Stream::As::kTakenOver &&
                   std::ranges::count(known, carried.is) == 0;
        });
    }
    std::erase_if(wanted, [](const auto& entry) { return entry.second.empty(); });
}

void Streams::apply_view(const View& view, uint32_t number, Begin begin) {
    number_ = number;
    auto wanted = wanted_by(view, number);
    if (begin == Begin::kLater) leave_only_known(wanted);
    const bool has_backups = std::ranges::any_of(view.segments(), [](const ViewSegment& segment) {
        return segment.backup_count() > 0 ||
               (segment.has_learner() && segment.learner.replaces != segment.primary);
    });
    is_shared_ = std::ranges::any_of(view.segments(), [](const ViewSegment& segment) {
        const bool has_new = segment.has_learner() && segment.learner.replaces != segment.primary;
        return segment.backup_count() + (has_new ? 1 : 0) > 1;
    });
    // Backups need whole changes, so a stream that carries any has to last.
    std::erase_if(streams_, [&](const ToLearner& one) {
        return !wanted.contains(one.learner) || (has_backups && !one.stream->is_lasting());
    });
    for (const auto& [learner, segments] : wanted) {
        auto place = place_of(learner);
        if (place == streams_.end() || place->learner != learner)
            place = streams_.insert(place, {learner, nullptr});
        std::unique_ptr<Stream>& stream = place->stream;
        if (stream == nullptr) {
            const ViewShard* const shard = view.shard(learner);
            WEIR_CHECK(shard != nullptr);  // View::make() has seen to that
            Stream::Ends ends{number, learner, shard->address, 0, pass_};
            if (has_backups) ends.lasting = ++stream_count_;
            stream = std::make_unique<Stream>(std::move(ends), endpoint_, clock_, holdings_,
                                              tables_, Stream::Shared{lender_, failures_});
        }
        stream->set_shared(is_shared_);
        stream->begin_change(last_change_);
        stream->carry(segments, view.epoch());
        take_over(*stream);
    }
    lender_.take_back_if([&](uint32_t reader) { return view.shard(reader) == nullptr; });
    touched_.clear();
    forget_lists();       // they name streams
    positions_seen_ = 0;  // other streams may have generations of the same sum
    look_at_positions();
}

/// A backup that the last primary had may lack what this shard had from it. Replies of from now on
/// wait until it has that. (Empty iterations may also have been closed since this shard got the view.)
void Streams::take_over(Stream& stream) {
    const PositionSet positions = stream.take_taken_over();
    if (positions.ranges().empty()) return;
    begin_change();
    for (size_t i = 0; i < tables_.size(); ++i) {
        if (tables_[i] == nullptr || !tables_[i]->was_pushed) continue;
        stream.add_as_now(i, positions, touched_[static_cast<uint32_t>(i)]);
    }
    stream.end_change(last_change_);
}

uint64_t Streams::replicated_change() const noexcept {
    uint64_t least = Stream::kAllChanges;
    for (const auto& [learner, stream] : streams_) {
        if (stream->is_in_sync()) least = std::min(least, stream->replicated_change());
    }
    return least;
}

bool Streams::has_room() const noexcept {
    return std::ranges::all_of(streams_,
                               [](const ToLearner& one) { return one.stream->has_room(); });
}

bool Streams::is_streamed(uint64_t position) const noexcept {
    return std::ranges::any_of(
        streams_, [&](const ToLearner& one) { return one.stream->positions().contains(position); });
}

bool Streams::needs_keys(const KnownList& list) const {
    if (list.streamed_in == lists_in_) return false;
    WEIR_CHECK(list.touches(holdings_.segments()));
    const std::span<const PositionRange> segments = holdings_.segments().segments();
    for (const SegmentRun run : list.segments.runs()) {
        for (uint32_t i = run.begin; i < run.end; ++i) {
            if (is_streamed(segments[i].first)) return true;
        }
    }
    return false;
}

/// Remembered keys are those of the positions that were streamed then. A stream that begins anew streams
/// nothing at first.
void Streams::look_at_positions() {
    uint64_t seen = 0;
    for (const auto& [learner, stream] : streams_)
        seen += stream->generation();
    if (seen == positions_seen_) return;
    positions_seen_ = seen;
    forget_lists();
}

void Streams::forget_lists() {
    for (const auto& [learner, stream] : streams_)
        stream->forget_lists();
    if (list_bytes_ > 0) lists_.forget_streamed();
    list_bytes_ = 0;
    ++lists_in_;
}

/// What streams carry of a list, where it is kept from now on: with the list, if that is remembered and
/// there is room; all others are forgotten for that. Call it before it is recorded: a learner forgets the
/// numbers of all lists then.
Streams::Streamed& Streams::remembered(KnownList* list, Streamed& streamed) {
    if (list == nullptr) return streamed;
    size_t bytes = sizeof(Streamed);
    for (const StreamedKeys& one : streamed)
        bytes += sizeof one + one.keys.size() * (sizeof(uint64_t) + sizeof(uint32_t));
    if (bytes > kListBytesMax) return streamed;
    if (list_bytes_ + bytes > kListBytesMax) forget_lists();
    list_bytes_ += bytes;
    list->streamed = std::move(streamed);
    list->streamed_in = lists_in_;
    return list->streamed;
}

void Streams::pushed(TableReplica& table, const Entries& entries, uint32_t worker,
                     const RangeClock& clock) {
    if (entries.count() == 0) return;
    begin_change();
    record(table, entries, {worker, &clock});
}

void Streams::record(TableReplica& table, const Entries& entries, const Cause& cause) {
    if (entries.is_range) {
        for (const auto& [learner, stream] : streams_)
            record_range(*stream, table, entries, cause);
        return;
    }
    const RowList& list = entries.list;
    KnownList* const known = list.remembered.get();
    if (known != nullptr && known->streamed_in == lists_in_)
        return record_list(known->streamed, entries, table, cause);
    std::span<const uint64_t> keys = entries.keys;
    if (keys.empty()) {
        if (!cause.is_iteration()) return;  // needs_keys() has said that nothing of it is streamed
        table.rows->find_keys(list.rows, keys_);
        keys = keys_;
    }
    Streamed streamed = streamed_of(table, keys);
    record_list(remembered(known, streamed), entries, table, cause);
}

Streams::Streamed Streams::streamed_of(const TableReplica& table,
                                       std::span<const uint64_t> keys) const {
    Streamed list;
    const SegmentList& held = holdings_.segments();
    for (const auto& [learner, stream] : streams_) {
        StreamedKeys part{.learner = learner};
        std::vector<uint32_t> segments;
        for (size_t i = 0; i < keys.size(); ++i) {
            const uint64_t key = keys[i];
            if (table.positions.is_dense() && key >= table.positions.key_count()) continue;
            const uint64_t position = table.positions.position(key);
            if (!stream->positions().contains(position)) continue;
            part.keys.push_back(key);
            part.places.push_back(static_cast<uint32_t>(i));
            const uint32_t segment = held.find(position);
            if (segments.empty() || segments.back() != segment) segments.push_back(segment);
        }
        if (part.keys.empty()) continue;
        if (part.keys.size() == keys.size()) part.places.clear();
        std::ranges::sort(segments);
        segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
        for (const uint32_t segment : segments)
            part.segments.push_back(held.segments()[segment]);
        list.push_back(std::move(part));
    }
    return list;
}

/// The times of segments, as they are now.
static void put_times(RecordMessage& record, std::span<const PositionRange> segments,
                      uint32_t worker, const RangeClock& clock) {
    for (const PositionRange segment : segments)
        record.times.push_back({worker, segment, clock.at(segment.first)});
}

/// What the last record of a change says besides its rows makes it count: times, or how far
/// iterations have come. The record is that one.
void Streams::add_last_record(Stream& stream, std::span<const PositionRange> segments,
                              const Cause& cause) {
    if (cause.is_iteration()) {
        stream.iteration_closed(record_);
    } else {
        put_times(record_, segments, cause.worker, *cause.clock);
        stream.add(record_);
    }
    stream.end_change(last_change_);
}

void Streams::iteration_closed(TableReplica& table, const AggregatedRows& changed) {
    if (record_sum(table, changed)) return;
    for (const auto& [learner, stream] : streams_) {
        stream->iteration_closed(table.rows->schema().id, changed);
        stream->end_change(last_change_);
    }
}

/// Workers often push the same lists in each iteration, so that their sums are of the same keys. From the
/// second time on they are recorded as a push of these keys would be. False: it is not, because this is the
/// first time, or there is no room to remember its keys.
bool Streams::record_sum(TableReplica& table, const AggregatedRows& changed) {
    const size_t count = changed.keys.size();
    if (streams_.empty() || !changed.ranges.empty() || count < kRememberedKeysMin) return false;
    const size_t bytes = count * (sizeof(uint64_t) + sizeof(uint32_t));
    if (bytes > kListBytesMax) return false;
    Entries sum;
    RowList& list = sum.list;
    list.rows = changed.rows;
    list.id = list_id(changed.keys);
    const uint32_t number = table.rows->schema().id;
    KnownLists::Entry known = lists_.find(number, list.id);
    if (known != nullptr && known->streamed_in == lists_in_) {
        record_list(known->streamed, sum, table, {});
        return true;
    }
    if (sums_.size() >= kSumsMax) sums_.clear();
    const bool is_first = sums_.insert(list.id.hash ^ mix64(number)).second;
    if (is_first || list_bytes_ + bytes > kListBytesMax) return false;
    if (known == nullptr) known = lists_.keep_without_rows(number, list.id);
    if (known == nullptr) return false;
    Streamed streamed = streamed_of_sum(table, changed.keys);
    record_list(remembered(known.get(), streamed), sum, table, {});
    return true;
}

/// The keys of a sparse table's sum are in the order of their rows; learners know ascending lists only.
Streams::Streamed Streams::streamed_of_sum(const TableReplica& table,
                                           std::span<const uint64_t> keys) {
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    if (!is_sorted_unique(keys)) std::ranges::sort(order, {}, [&](uint32_t i) { return keys[i]; });
    keys_.resize(keys.size());
    std::ranges::transform(order, keys_.begin(), [&](uint32_t i) { return keys[i]; });
    Streamed list = streamed_of(table, keys_);
    for (StreamedKeys& part : list) {
        part.has_come = true;  // and will again
        if (part.places.empty()) {
            part.places = order;
        } else {
            std::ranges::transform(part.places, part.places.begin(),
                                   [&](uint32_t place) { return order[place]; });
        }
    }
    return list;
}

/// The change has no rows that the stream carries. An iteration is closed anyway.
void Streams::record_no_rows(Stream& stream, const TableReplica& table, const Cause& cause) {
    if (!cause.is_iteration()) return;
    record_.clear();
    record_.table = table.rows->schema().id;
    add_last_record(stream, {}, cause);
}

void Streams::record_range(Stream& stream, TableReplica& table, const Entries& entries,
                           const Cause& cause) {
    const KeyRange keys = entries.range;
    const SegmentList& held = holdings_.segments();
    const PositionMap& map = table.positions;
    segments_.clear();
    const SegmentRun run = held.run_of({map.position(keys.begin), map.position(keys.end - 1)});
    for (uint32_t i = run.begin; i < run.end; ++i) {
        const PositionRange segment = held.segments()[i];
        if (stream.positions().contains(segment.first)) segments_.push_back(segment);
    }
    if (segments_.empty()) return record_no_rows(stream, table, cause);
    if (!entries.kept.empty()) return record_kept_of_range(stream, table, entries, cause);
    parts_.clear();
    const bool is_whole = segments_.size() == run.end - run.begin;
    for (const KeyRange extent : table.rows->extents()) {
        const KeyRange pushed = intersect(extent, keys);
        if (pushed.empty()) continue;
        if (is_whole) {
            parts_.push_back(pushed);
            continue;
        }
        for (const KeyRange streamed : stream.positions().dense_keys(map.key_count())) {
            const KeyRange part = intersect(pushed, streamed);
            if (!part.empty()) parts_.push_back(part);
        }
    }
    for (size_t i = 0; i < std::max<size_t>(1, parts_.size()); ++i) {
        const bool is_last = i + 1 >= parts_.size();
        record_.clear();
        record_.table = table.rows->schema().id;
        if (!parts_.empty()) {
            const KeyRange part = parts_[i];
            record_.is_range = true;
            record_.first_key = part.begin;
            record_.row_count = part.key_count();
            record_.values = *table.rows->values(part);
            record_.state = *table.rows->state(part);
        }
        if (!is_last) stream.add(record_, true);
    }
    add_last_record(stream, segments_, cause);
}

/// `segments_` has those of all its keys: their times were raised.
void Streams::record_kept_of_range(Stream& stream, const TableReplica& table,
                                   const Entries& entries, const Cause& cause) {
    const Result<RowList> rows = table.rows->kept_rows(entries);
    WEIR_CHECK(rows);  // they were changed
    kept_.keys.clear();
    rows_.clear();
    auto row = rows->rows.begin();
    for_each_bit(entries.kept, [&](size_t i) {
        const uint64_t key = entries.range.begin + i;
        if (stream.positions().contains(table.positions.position(key))) {
            kept_.keys.push_back(key);
            rows_.push_back(*row);
        }
        ++row;
    });
    put_rows(kept_, rows_, *table.rows);
    add_last_record(stream, segments_, cause);
}

/// `streamed`: what streams carry of the list.
void Streams::record_list(Streamed& streamed, const Entries& entries, TableReplica& table,
                          const Cause& cause) {
    for (const auto& [learner, stream] : streams_) {
        const auto its = std::ranges::find(streamed, learner, &StreamedKeys::learner);
        if (its == streamed.end()) {
            record_no_rows(*stream, table, cause);
        } else if (!entries.kept.empty()) {
            record_kept(*stream, *its, entries, *table.rows, cause);
        } else {
            record_keys(*stream, *its, entries.list, *table.rows, cause);
        }
    }
}

/// The rows of entries that are kept, as those of a list that comes once; and the times of all entries.
void Streams::record_kept(Stream& stream, const StreamedKeys& streamed, const Entries& entries,
                          const TableShard& table, const Cause& cause) {
    kept_.keys.clear();
    rows_.clear();
    for (size_t i = 0; i < streamed.keys.size(); ++i) {
        const size_t place = streamed.places.empty() ? i : streamed.places[i];
        if (!has_bit(entries.kept, place)) continue;
        kept_.keys.push_back(streamed.keys[i]);
        rows_.push_back(entries.list.rows[place]);
    }
    put_rows(kept_, rows_, table);
    add_last_record(stream, streamed.segments, cause);
}

/// A learner knows a list from its second time on: many come only once.
void Streams::record_keys(Stream& stream, StreamedKeys& streamed, const RowList& list,
                          const TableShard& table, const Cause& cause) {
    put_rows(streamed, list.rows, table);
    record_.is_known = streamed.number != 0;
    if (record_.is_known) {
        record_.keys = {};
    } else if (streamed.has_come) {
        streamed.number = stream.number_list(record_.part_count());
    }
    streamed.has_come = true;
    record_.list = streamed.number;
    add_last_record(stream, streamed.segments, cause);
}

/// `rows`: of the list. The record has the keys that are streamed, and their values, then.
void Streams::put_rows(const StreamedKeys& streamed, std::span<const uint32_t> rows,
                       const TableShard& table) {
    const size_t count = streamed.keys.size();
    if (!streamed.places.empty()) {
        rows_.resize(count);
        for (size_t i = 0; i < count; ++i)
            rows_[i] = rows[streamed.places[i]];
        rows = rows_;
    }
    WEIR_CHECK(rows.size() == count);
    values_.resize(count * table.row_layout().value_bytes());
    state_bytes_.resize(count * table.row_layout().state_bytes);
    table.copy_values(rows, values_);
    table.copy_state(rows, state_bytes_);
    record_.clear();
    record_.table = table.schema().id;
    record_.row_count = count;
    record_.keys = std::as_bytes(std::span(streamed.keys));
    record_.values = values_;
    record_.state = state_bytes_;
}

void Streams::made_rows(TableReplica& table, std::span<const uint64_t> keys) {
    if (streams_.empty()) return;
    const Result<RowList> list = table.rows->rows_for_pull(keys);
    if (!list) return;
    std::vector<uint64_t> made;
    std::vector<uint32_t> rows;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (list->rows[i] == kNoRow || !table.rows->was_made(list->rows[i])) continue;
        made.push_back(keys[i]);
        rows.push_back(list->rows[i]);
    }
    begin_change();
    for (const StreamedKeys& streamed : streamed_of(table, made)) {
        Stream& stream = *to(streamed.learner);
        put_rows(streamed, rows, *table.rows);
        for (const PositionRange segment : streamed.segments)
            stream.put_iterations(record_, segment);
        stream.add(record_);
        stream.end_change(last_change_);
    }
}

std::vector<Streams::ToLearner>::iterator Streams::place_of(uint32_t learner) noexcept {
    return std::ranges::lower_bound(streams_, learner, {}, &ToLearner::learner);
}

/// Null: there is none.
Stream* Streams::to(uint32_t learner) const noexcept {
    const auto found = std::ranges::find(streams_, learner, &ToLearner::learner);
    return found != streams_.end() ? found->stream.get() : nullptr;
}

Stream* Streams::find(transport::ConnectionId connection) const noexcept {
    for (const auto& [learner, stream] : streams_) {
        if (stream->connection() == connection) return stream.get();
    }
    return nullptr;
}

bool Streams::connected(transport::ConnectionId connection) {
    Stream* const stream = find(connection);
    if (stream != nullptr) stream->connected();
    look_at_positions();
    return stream != nullptr;
}

bool Streams::closed(transport::ConnectionId connection, bool memory_in_doubt) {
    Stream* const stream = find(connection);
    if (stream != nullptr) stream->closed(memory_in_doubt);
    if (!memory_in_doubt) lender_.take_back(connection);
    look_at_positions();
    return stream != nullptr;
}

std::string_view Streams::receive(transport::ConnectionId connection,
                                  const wire::FrameHeader& header) {
    Stream* const stream = find(connection);
    if (stream == nullptr) return {};
    if (header.kind != wire::Kind::kApplied) return "a frame that learners do not send";
    const std::string_view wrong = stream->applied(header);
    look_at_positions();
    return wrong;
}

/// What a backup may be sent: if several have the same segments, what those before it have. So the
/// first one that is left when this shard dies has all that any of them has.
uint64_t Streams::change_of_those_before(const ToLearner& one) const noexcept {
    uint64_t least = Stream::kAllChanges;
    if (!is_shared_ || !one.stream->is_in_sync()) return least;
    for (const auto& [other, stream] : streams_) {
        const bool is_before = copy_order(number_, other) < copy_order(number_, one.learner);
        if (is_before && stream->is_in_sync()) least = std::min(least, stream->replicated_change());
    }
    return least;
}

/// They take turns, poll by poll.
size_t Streams::send(size_t bytes_max, Stream::What what) {
    if (is_shared_) {
        for (const auto& [learner, stream] : streams_)
            stream->replicated_everywhere(replicated_change());
    }
    const auto has_work = [](const ToLearner& one) { return one.stream->has_work(); };
    if (std::ranges::none_of(streams_, has_work)) return 0;
    size_t sent = 0;
    auto next = place_of(next_to_send_);
    for (size_t i = 0; i < streams_.size() && sent < bytes_max; ++i) {
        if (next == streams_.end()) next = streams_.begin();
        next->stream->begin_change(last_change_);
        sent += next->stream->send(bytes_max - sent, what, change_of_those_before(*next));
        ++next;
    }
    next_to_send_ = next == streams_.end() ? 0 : next->learner;
    look_at_positions();
    return sent;
}

bool Streams::must_poll() const noexcept {
    return std::ranges::any_of(streams_,
                               [](const ToLearner& one) { return one.stream->must_poll(); });
}

uint64_t Streams::due_ns() const noexcept {
    uint64_t due_ns = ~uint64_t{0};
    for (const auto& [learner, stream] : streams_)
        due_ns = std::min(due_ns, stream->due_ns());
    return due_ns;
}

std::vector<LearnerReport> Streams::take_complete() {
    std::vector<LearnerReport> reports;
    for (const auto& [learner, stream] : streams_) {
        for (const LearnedSegment& segment : stream->take_complete(replicated_change()))
            reports.push_back({segment.range.first, learner, segment.named});
    }
    return reports;
}

std::vector<LearnerReport> Streams::take_refused() {
    std::vector<LearnerReport> reports;
    for (const auto& [learner, stream] : streams_) {
        if (!stream->take_refusal()) continue;
        for (const LearnedSegment& segment : stream->refused_segments())
            reports.push_back({segment.range.first, learner, segment.named});
    }
    return reports;
}

std::vector<LearnerReport> Streams::take_stuck(uint64_t now_ns, uint64_t most_ns) {
    std::vector<LearnerReport> reports;
    for (const auto& [learner, stream] : streams_) {
        if (!stream->is_stuck(now_ns, most_ns)) continue;
        for (const LearnedSegment& segment : stream->segments())
            reports.push_back({segment.range.first, learner, segment.named});
    }
    return reports;
}

bool Streams::have_leavers_arrived() const {
    const PositionSet leaving = holdings_.in_role({Holdings::Role::kLeaving});
    return std::ranges::all_of(
        streams_, [&](const ToLearner& one) { return one.stream->has_sent_all_of(leaving); });
}

}  // namespace weir
