// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/streams.h"

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"
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
            const bool is_copy = segment.learner.replaces != number;
            wanted[segment.learner.shard].push_back({{range, segment.learner.named}, is_copy});
        }
        for (size_t b = 0; b < segment.backup_count(); ++b) {
            // One that has learned it from here goes on; another one has all, from the last primary.
            Stream::Carried carried{{range, view.epoch()}, true, true};
            if (const Stream* const stream = to(segment.backups[b])) {
                for (const LearnedSegment& known : stream->segments()) {
                    if (known.range == range) carried = {known, true, false};
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
            // Of what it has from another primary it may lack nothing that is answered here.
            return !carried.has_all && std::ranges::count(known, carried.is) == 0;
        });
    }
    std::erase_if(wanted, [](const auto& entry) { return entry.second.empty(); });
}

void Streams::take_view(const View& view, uint32_t number, Begin begin) {
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
    // Copies need whole changes, so a stream that carries any has to last.
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
        stream->at_state(state_);
        stream->carry(segments, view.epoch());
        take_over(*stream);
    }
    lender_.take_back_if([&](uint32_t reader) { return view.shard(reader) == nullptr; });
    touched_.clear();
    forget_lists();       // they name streams
    positions_seen_ = 0;  // other streams may have generations of the same sum
    look_at_positions();
}

/// A copy that the last primary had may lack what this shard had from it. What is promised from now on
/// waits until it has that. (Empty iterations may also have been closed since this shard got the view.)
void Streams::take_over(Stream& stream) {
    const PositionSet positions = stream.take_taken_over();
    if (positions.ranges().empty()) return;
    changes();
    for (size_t i = 0; i < tables_.size(); ++i) {
        if (tables_[i] == nullptr || !tables_[i]->was_pushed) continue;
        stream.add_as_now(i, positions, touched_[static_cast<uint32_t>(i)]);
    }
    stream.was_changed(state_);
}

uint64_t Streams::confirmed_state() const noexcept {
    uint64_t least = Stream::kAllStates;
    for (const auto& [learner, stream] : streams_) {
        if (stream->is_counted()) least = std::min(least, stream->confirmed_state());
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

uint64_t Streams::place(uint32_t table, const ListId& id) noexcept {
    return id.hash ^ mix64(table);
}

bool Streams::knows(uint32_t table, const ListId& id, const TouchedSegments& touched) const {
    const std::span<const PositionRange> segments = holdings_.segments().segments();
    bool is_any_streamed = false;
    for (const SegmentRun run : touched.runs()) {
        for (uint32_t i = run.begin; i < run.end; ++i)
            is_any_streamed = is_any_streamed || is_streamed(segments[i].first);
    }
    if (!is_any_streamed) return true;
    const auto found = lists_.find(place(table, id));
    return found != lists_.end() && found->second.is(table, id);
}

/// Null: its parts are not known.
Streams::StreamedList* Streams::find_list(uint32_t table, const ListId& id) noexcept {
    const auto found = lists_.find(place(table, id));
    return found != lists_.end() && found->second.is(table, id) ? &found->second : nullptr;
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
    lists_.clear();
    list_bytes_ = 0;
}

/// Forgets all others if there is no room.
void Streams::remember(StreamedList&& list, size_t key_count) {
    if (key_count < kRememberedKeysMin) return;
    size_t bytes = sizeof list;
    for (const ListPart& part : list.parts)
        bytes += sizeof part + part.keys.size() * (sizeof(uint64_t) + sizeof(uint32_t));
    if (bytes > kListBytesMax) return;
    if (list_bytes_ + bytes > kListBytesMax) forget_lists();
    list_bytes_ += bytes;
    lists_.insert_or_assign(place(list.table, list.id), std::move(list));
}

void Streams::pushed(TableReplica& table, const Entries& entries, uint32_t worker,
                     const RangeClock& clock) {
    if (entries.count() == 0) return;
    changes();
    record(table, entries, {worker, &clock});
}

void Streams::record(TableReplica& table, const Entries& entries, const Cause& cause) {
    if (entries.is_range) {
        for (const auto& [learner, stream] : streams_)
            record_range(*stream, table, entries.range, cause);
        return;
    }
    const RowList& list = entries.list;
    const uint32_t number = table.rows->schema().id;
    if (StreamedList* const known = find_list(number, list.id); known != nullptr)
        return record_list(*known, list, table, cause);
    std::span<const uint64_t> keys = entries.keys;
    if (keys.empty()) {
        if (!cause.is_iteration()) return;  // knows() has said that nothing of it is streamed
        table.rows->find_keys(list.rows, keys_);
        keys = keys_;
    }
    StreamedList streamed = parts_of(table, keys);
    streamed.table = number;
    streamed.id = list.id;
    record_list(streamed, list, table, cause);
    remember(std::move(streamed), list.rows.size());
}

Streams::StreamedList Streams::parts_of(const TableReplica& table,
                                        std::span<const uint64_t> keys) const {
    StreamedList list;
    const SegmentList& held = holdings_.segments();
    for (const auto& [learner, stream] : streams_) {
        ListPart part;
        part.stream = stream.get();
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
        list.parts.push_back(std::move(part));
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
void Streams::end_change(Stream& stream, std::span<const PositionRange> segments,
                         const Cause& cause) {
    if (cause.is_iteration()) {
        stream.iteration_closed(record_);
    } else {
        put_times(record_, segments, cause.worker, *cause.clock);
        stream.add(record_);
    }
    stream.was_changed(state_);
}

void Streams::iteration_closed(TableReplica& table, const AggregatedRows& changed) {
    if (record_sum(table, changed)) return;
    for (const auto& [learner, stream] : streams_) {
        stream->iteration_closed(table.rows->schema().id, changed);
        stream->was_changed(state_);
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
    const RowList list{changed.rows, list_id(changed.keys), {}};
    const uint32_t number = table.rows->schema().id;
    if (StreamedList* const known = find_list(number, list.id); known != nullptr) {
        record_list(*known, list, table, {});
        return true;
    }
    if (sums_.size() >= kSumsMax) sums_.clear();
    const bool is_first = sums_.insert(place(number, list.id)).second;
    if (is_first || list_bytes_ + bytes > kListBytesMax) return false;
    StreamedList streamed = parts_of_sum(table, changed.keys);
    streamed.table = number;
    streamed.id = list.id;
    record_list(streamed, list, table, {});
    remember(std::move(streamed), count);
    return true;
}

/// The keys of a sparse table's sum are in the order of their rows; learners know ascending lists only.
Streams::StreamedList Streams::parts_of_sum(const TableReplica& table,
                                            std::span<const uint64_t> keys) {
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    if (!is_sorted_unique(keys)) std::ranges::sort(order, {}, [&](uint32_t i) { return keys[i]; });
    keys_.resize(keys.size());
    std::ranges::transform(order, keys_.begin(), [&](uint32_t i) { return keys[i]; });
    StreamedList list = parts_of(table, keys_);
    for (ListPart& part : list.parts) {
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
    end_change(stream, {}, cause);
}

void Streams::record_range(Stream& stream, TableReplica& table, KeyRange keys, const Cause& cause) {
    const SegmentList& held = holdings_.segments();
    const PositionMap& map = table.positions;
    segments_.clear();
    const SegmentRun run = held.run_of({map.position(keys.begin), map.position(keys.end - 1)});
    for (uint32_t i = run.begin; i < run.end; ++i) {
        const PositionRange segment = held.segments()[i];
        if (stream.positions().contains(segment.first)) segments_.push_back(segment);
    }
    if (segments_.empty()) return record_no_rows(stream, table, cause);
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
    end_change(stream, segments_, cause);
}

/// `streamed`: what streams carry of the list.
void Streams::record_list(StreamedList& streamed, const RowList& list, TableReplica& table,
                          const Cause& cause) {
    for (const auto& [learner, stream] : streams_) {
        const auto part = std::ranges::find(streamed.parts, stream.get(), &ListPart::stream);
        if (part == streamed.parts.end()) {
            record_no_rows(*stream, table, cause);
        } else {
            record_part(*part, list, *table.rows, cause);
        }
    }
}

/// A learner knows a list from its second time on: many come only once.
void Streams::record_part(ListPart& part, const RowList& list, const TableShard& table,
                          const Cause& cause) {
    put_rows(part, list.rows, table);
    record_.is_known = part.known != 0;
    if (record_.is_known) {
        record_.keys = {};
    } else if (part.has_come) {
        part.known = part.stream->number_list(record_.part_count());
    }
    part.has_come = true;
    record_.list = part.known;
    end_change(*part.stream, part.segments, cause);
}

/// `rows`: of the list of which `part` is a part. The record has its keys and values then.
void Streams::put_rows(const ListPart& part, std::span<const uint32_t> rows,
                       const TableShard& table) {
    const size_t count = part.keys.size();
    if (!part.places.empty()) {
        rows_.resize(count);
        for (size_t i = 0; i < count; ++i)
            rows_[i] = rows[part.places[i]];
        rows = rows_;
    }
    values_.resize(count * table.pulled_row_bytes());
    state_bytes_.resize(count * table.state_row_bytes());
    table.copy_values(rows, values_);
    table.copy_state(rows, state_bytes_);
    record_.clear();
    record_.table = table.schema().id;
    record_.row_count = count;
    record_.keys = std::as_bytes(std::span(part.keys));
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
    changes();
    const StreamedList streamed = parts_of(table, made);
    for (const ListPart& part : streamed.parts) {
        put_rows(part, rows, *table.rows);
        for (const PositionRange segment : part.segments)
            part.stream->put_iterations(record_, segment);
        part.stream->add(record_);
        part.stream->was_changed(state_);
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

/// What a copy may be sent: if several have the same segments, what those before it have. So the
/// first one that is left when this shard dies has all that any of them has.
uint64_t Streams::state_of_those_before(const ToLearner& one) const noexcept {
    uint64_t least = Stream::kAllStates;
    if (!is_shared_ || !one.stream->is_counted()) return least;
    for (const auto& [other, stream] : streams_) {
        const bool is_before = copy_order(number_, other) < copy_order(number_, one.learner);
        if (is_before && stream->is_counted()) least = std::min(least, stream->confirmed_state());
    }
    return least;
}

/// They take turns, poll by poll.
size_t Streams::send(size_t bytes_max, Stream::What what) {
    if (is_shared_) {
        for (const auto& [learner, stream] : streams_)
            stream->all_have(confirmed_state());
    }
    const auto has_work = [](const ToLearner& one) { return one.stream->has_work(); };
    if (std::ranges::none_of(streams_, has_work)) return 0;
    size_t sent = 0;
    auto next = place_of(next_to_send_);
    for (size_t i = 0; i < streams_.size() && sent < bytes_max; ++i) {
        if (next == streams_.end()) next = streams_.begin();
        next->stream->at_state(state_);
        sent += next->stream->send(bytes_max - sent, what, state_of_those_before(*next));
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
        for (const LearnedSegment& segment : stream->take_complete(confirmed_state()))
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
