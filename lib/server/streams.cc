// SPDX-License-Identifier: Apache-2.0
#include "lib/server/streams.h"

#include <algorithm>

#include "lib/base/check.h"

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
            const auto stream = streams_.find(segment.backups[b]);
            if (stream != streams_.end()) {
                for (const LearnedSegment& known : stream->second->segments()) {
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
        const auto stream = streams_.find(learner);
        const std::vector<LearnedSegment> known =
            stream != streams_.end() ? stream->second->segments() : std::vector<LearnedSegment>();
        std::erase_if(segments, [&](const Stream::Carried& carried) {
            return std::ranges::count(known, carried.is) == 0;
        });
    }
    std::erase_if(wanted, [](const auto& entry) { return entry.second.empty(); });
}

void Streams::take_view(const View& view, uint32_t number, Begin begin) {
    auto wanted = wanted_by(view, number);
    if (begin == Begin::kLater) leave_only_known(wanted);
    const bool has_backups = std::ranges::any_of(view.segments(), [](const ViewSegment& segment) {
        return segment.backup_count() > 0 ||
               (segment.has_learner() && segment.learner.replaces != segment.primary);
    });
    std::erase_if(streams_, [&](const auto& entry) { return !wanted.contains(entry.first); });
    for (const auto& [learner, segments] : wanted) {
        std::unique_ptr<Stream>& stream = streams_[learner];
        if (stream == nullptr) {
            const ViewShard* const shard = view.shard(learner);
            WEIR_CHECK(shard != nullptr);  // View::make() has seen to that
            Stream::Ends ends{number, learner, shard->address, 0};
            if (has_backups) ends.lasting = ++stream_count_;
            stream = std::make_unique<Stream>(std::move(ends), endpoint_, clock_, holdings_,
                                              tables_, failures_);
        }
        stream->carry(segments, view.epoch());
    }
    positions_seen_ = 0;  // other streams may have generations of the same sum
    look_at_positions();
}

bool Streams::is_counted() const noexcept {
    return std::ranges::any_of(streams_,
                               [](const auto& entry) { return entry.second->is_counted(); });
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
                               [](const auto& entry) { return entry.second->has_room(); });
}

bool Streams::is_streamed(uint64_t position) const noexcept {
    return std::ranges::any_of(
        streams_, [&](const auto& entry) { return entry.second->positions().contains(position); });
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
    return found != lists_.end() && found->second.table == table && found->second.id == id;
}

/// Remembered keys are those of the positions that were streamed then.
void Streams::look_at_positions() {
    uint64_t seen = 0;
    for (const auto& [learner, stream] : streams_)
        seen += stream->generation();
    if (seen == positions_seen_) return;
    positions_seen_ = seen;
    lists_.clear();
    list_bytes_ = 0;
}

void Streams::pushed(ShardTable& table, uint32_t worker, const RangeClock& clock,
                     const ShardRequest& request) {
    const wire::FrameHeader& h = request.header;
    if (h.count == 0) return;
    ++state_;
    if ((h.flags & wire::kKeysRange) != 0) {
        for (const auto& [learner, stream] : streams_)
            pushed_range(*stream, table, {h.first, h.first + h.count}, worker, clock);
        return;
    }
    const Result<RowList> list = rows_of(table, request);
    if (!list) return;  // its sender has changed its keys meanwhile
    const uint32_t number = table.rows->schema().id;
    if ((h.flags & wire::kKeysKnown) != 0) {
        const auto found = lists_.find(place(number, list->id));
        if (found == lists_.end()) return;  // knows(): nothing of it is streamed
        selected_ = found->second;
        selected_rows_.clear();
        for (const uint32_t at : selected_.places)
            selected_rows_.push_back(list->rows[at]);
    } else {
        select(table, {reinterpret_cast<const uint64_t*>(request.keys.data()), h.count},
               list->rows);
        selected_.table = number;
        selected_.id = list->id;
        if (h.count >= kRememberedKeysMin && list_bytes_ < kListBytesMax) {
            list_bytes_ += sizeof(StreamedKeys) + selected_.keys.size() * 12;
            lists_.insert_or_assign(place(number, list->id), selected_);
        }
    }
    for (const auto& [learner, stream] : streams_)
        pushed_list(*stream, table, worker, clock);
}

void Streams::select(const ShardTable& table, std::span<const uint64_t> keys,
                     std::span<const uint32_t> rows) {
    selected_.keys.clear();
    selected_.places.clear();
    selected_rows_.clear();
    for (size_t i = 0; i < keys.size(); ++i) {
        const uint64_t key = keys[i];
        if (table.positions.is_dense() && key >= table.positions.key_count()) continue;
        if (!is_streamed(table.positions.position(key))) continue;
        selected_.keys.push_back(key);
        selected_.places.push_back(static_cast<uint32_t>(i));
        selected_rows_.push_back(rows[i]);
    }
}

/// The times of segments, as they are now.
static std::vector<RecordedTime> times_of(const SegmentList& held, std::vector<uint32_t> segments,
                                          uint32_t worker, const RangeClock& clock) {
    std::ranges::sort(segments);
    segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
    std::vector<RecordedTime> times;
    for (const uint32_t i : segments) {
        const PositionRange range = held.segments()[i];
        times.push_back({worker, range, clock.at(range.first)});
    }
    return times;
}

void Streams::pushed_range(Stream& stream, ShardTable& table, KeyRange keys, uint32_t worker,
                           const RangeClock& clock) {
    const SegmentList& held = holdings_.segments();
    const PositionMap& map = table.positions;
    std::vector<uint32_t> segments;
    const SegmentRun run = held.run_of({map.position(keys.begin), map.position(keys.end - 1)});
    for (uint32_t i = run.begin; i < run.end; ++i) {
        if (stream.positions().contains(held.segments()[i].first)) segments.push_back(i);
    }
    if (segments.empty()) return;
    RecordMessage record;
    record.table = table.rows->schema().id;
    for (const KeyRange extent : table.rows->extents()) {
        for (const KeyRange streamed : stream.positions().dense_keys(map.key_count())) {
            const KeyRange part = intersect(intersect(extent, streamed), keys);
            if (part.empty()) continue;
            record.is_range = true;
            record.first_key = part.begin;
            record.row_count = part.key_count();
            record.values = *table.rows->values(part);
            record.state = *table.rows->state(part);
            stream.add(record, true);
        }
    }
    RecordMessage times;
    times.table = record.table;
    times.times = times_of(held, std::move(segments), worker, clock);
    stream.add(times);
    stream.was_changed(state_);
}

void Streams::pushed_list(Stream& stream, ShardTable& table, uint32_t worker,
                          const RangeClock& clock) {
    const SegmentList& held = holdings_.segments();
    std::vector<uint32_t> segments;
    listed_.range = {};
    listed_.keys.clear();
    listed_.rows.clear();
    for (size_t i = 0; i < selected_.keys.size(); ++i) {
        const uint64_t position = table.positions.position(selected_.keys[i]);
        if (!stream.positions().contains(position)) continue;
        listed_.keys.push_back(selected_.keys[i]);
        listed_.rows.push_back(selected_rows_[i]);
        const uint32_t segment = held.find(position);
        if (segments.empty() || segments.back() != segment) segments.push_back(segment);
    }
    if (listed_.keys.empty()) return;
    values_.resize(listed_.keys.size() * table.rows->pulled_row_bytes());
    state_bytes_.resize(listed_.keys.size() * table.rows->state_row_bytes());
    table.rows->copy_values(listed_, values_);
    table.rows->copy_state(listed_, state_bytes_);
    RecordMessage record;
    record.table = table.rows->schema().id;
    record.row_count = listed_.keys.size();
    record.keys = std::as_bytes(std::span(listed_.keys));
    record.values = values_;
    record.state = state_bytes_;
    record.times = times_of(held, std::move(segments), worker, clock);
    stream.add(record);
    stream.was_changed(state_);
}

Stream* Streams::find(transport::ConnectionId connection) const noexcept {
    for (const auto& [learner, stream] : streams_) {
        if (stream->connection() == connection) return stream.get();
    }
    return nullptr;
}

bool Streams::has(transport::ConnectionId connection) const noexcept {
    return find(connection) != nullptr;
}

bool Streams::connected(transport::ConnectionId connection) {
    Stream* const stream = find(connection);
    if (stream != nullptr) stream->connected();
    return stream != nullptr;
}

bool Streams::closed(transport::ConnectionId connection) {
    Stream* const stream = find(connection);
    if (stream != nullptr) stream->closed();
    return stream != nullptr;
}

std::string_view Streams::receive(transport::ConnectionId connection,
                                  const wire::FrameHeader& header) {
    Stream* const stream = find(connection);
    if (stream == nullptr) return {};
    if (header.kind != wire::Kind::kApplied) return "a frame that learners do not send";
    return stream->applied(header);
}

/// They take turns, poll by poll.
size_t Streams::send(size_t bytes_max) {
    size_t sent = 0;
    auto next = streams_.lower_bound(next_to_send_);
    for (size_t i = 0; i < streams_.size() && sent < bytes_max; ++i) {
        if (next == streams_.end()) next = streams_.begin();
        sent += next->second->send(bytes_max - sent);
        ++next;
    }
    next_to_send_ = next == streams_.end() ? 0 : next->first;
    look_at_positions();
    return sent;
}

bool Streams::must_poll() const noexcept {
    return std::ranges::any_of(streams_,
                               [](const auto& entry) { return entry.second->must_poll(); });
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
        for (const LearnedSegment& segment : stream->take_complete())
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

bool Streams::have_leavers_arrived() const {
    const PositionSet leaving = holdings_.in_role({Holdings::Role::kLeaving});
    return std::ranges::all_of(
        streams_, [&](const auto& entry) { return entry.second->has_sent_all_of(leaving); });
}

}  // namespace weir
