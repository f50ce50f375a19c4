// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// StreamPair: a primary's Streams and a learner's IncomingStream, without shards around them.

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/node/outbox.h"
#include "lib/replication/incoming_stream.h"
#include "lib/replication/streams.h"
#include "lib/ring/plan.h"
#include "lib/server/shard_table.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/wire/messages.h"
#include "tests/frames.h"
#include "tests/registered_memory.h"
#include "tests/table_schemas.h"
#include "transport/sim/network.h"

namespace weir::test {

/// Memory that knows how much of an allocation was not prepared.
class PreparedMemory final : public Memory {
public:
    static constexpr size_t kStepBytes = 4096;

    explicit PreparedMemory(size_t limit_bytes) noexcept : heap_(limit_bytes) {}

    [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
        unprepared_bytes_max =
            std::max(unprepared_bytes_max, bytes - std::min(bytes, ready_bytes_));
        ready_bytes_ -= std::min(bytes, ready_bytes_);
        return heap_.allocate(bytes, alignment);
    }

    bool prepare(size_t bytes) noexcept override {
        if (bytes < kStepBytes || bytes <= ready_bytes_) return false;
        ready_bytes_ += kStepBytes;
        return true;
    }

    void deallocate(std::byte* data, size_t bytes, size_t alignment) noexcept override {
        heap_.deallocate(data, bytes, alignment);
    }

    void set_limit(size_t limit_bytes) noexcept { heap_.set_limit(limit_bytes); }

    [[nodiscard]] size_t bytes_in_use() const noexcept { return heap_.bytes_in_use(); }

    size_t unprepared_bytes_max = 0;

private:
    HeapMemory heap_;
    size_t ready_bytes_ = 0;
};

inline constexpr uint64_t kSparseKeys = 400;
inline constexpr uint32_t kMessageBytesMax = 1024;

/// Tables, and what is held of them.
struct Side {
    explicit Side(size_t memory_bytes = ~size_t{0})
        : heap(memory_bytes), lists(heap, size_t{1} << 20), holdings(tables) {}

    void make_table(TableSchema schema) {
        schema.id = static_cast<uint32_t>(tables.size());
        const PositionSet held = holdings.in_role(
            {Holdings::Role::kPrimary, Holdings::Role::kLearning, Holdings::Role::kLearned});
        auto rows = TableShard::make(schema, held, rules, heap, lists);
        REQUIRE(rows);
        while ((*rows)->fill_some()) {
        }
        tables.push_back(std::make_unique<ShardTable>(std::move(*rows)));
        std::vector<PositionRange> ranges;
        for (const PositionRange range : holdings.primary().ranges())
            ranges.push_back(range);
        tables[schema.id]->iterations.state().restart(ranges);
    }

    PreparedMemory heap;
    KnownLists lists;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    ShardTables tables;
    Holdings holdings;
};

/// Shard 0 and shard 1, which learns some of its segments over a simulated network.
class StreamPair {
public:
    /// `lends`: the learner maps memory of the primary, and takes rows from there.
    explicit StreamPair(uint64_t seed, size_t learner_memory_bytes = ~size_t{0}, bool lends = false)
        : network(seed, clock, {.maps_memory = lends}),
          random(seed),
          learner(learner_memory_bytes),
          devices{network.make_device(0), network.make_device(1)},
          lent(*devices[0], transport::Access::kRemoteRead),
          from(endpoint(0)),
          to(endpoint(1)),
          streams(*from, clock, primary.holdings, primary.tables, primary.lists,
                  {.memory = lends ? &lent : nullptr, .bytes_min = 200}, failures) {
        const std::vector<NewServer> servers{{.rank = 0, .host = 0, .addresses = {from->address()}},
                                             {.rank = 1, .host = 1, .addresses = {to->address()}}};
        data = first_view(servers, 4)->data();
        view = std::move(View::make(data)).value();
        hold(primary, 0);
        hold(learner, 1);
    }

    /// A later view, in which shard 1 learns these segments of shard 0.
    void name_learner(const std::vector<size_t>& segments) {
        ++data.epoch;
        for (const size_t i : segments) {
            REQUIRE(data.segments[i].primary == 0);
            data.segments[i].learner = {1, 0, data.epoch};
        }
        apply_view();
    }

    /// A later view, in which shard 1 is to be a backup of segments of shard 0.
    void name_backup(const std::vector<size_t>& segments) {
        ++data.epoch;
        for (const size_t i : segments)
            data.segments[i].learner = {1, kNoShard, data.epoch};
        apply_view();
    }

    /// A later view, in which nobody learns from shard 0.
    void name_nobody() {
        ++data.epoch;
        for (const size_t i : segments_of_primary())
            data.segments[i].learner = {};
        apply_view();
    }

    /// A later view, in which shard 1 is no more.
    void remove_learner() {
        ++data.epoch;
        std::erase_if(data.shards, [](const ViewShard& shard) { return shard.number == 1; });
        std::erase_if(data.servers, [](const ViewServer& server) { return server.number == 1; });
        for (ViewSegment& segment : data.segments) {
            segment.primary = 0;
            segment.learner = {};
        }
        for (ViewShard& shard : data.shards)
            shard.since = data.epoch;
        view = std::move(View::make(data)).value();
        streams.apply_view(view, 0);
    }

    /// A later view, which shard 0 has and shard 1 has not: shard 0 hands over one segment, and gets the
    /// shard that takes it as the backup of another one.
    void take_over_and_lose(size_t taken, size_t lost) {
        ++data.epoch;
        ViewSegment& leaving = data.segments[lost];
        leaving.primary = 1;
        leaving.learner = {};
        data.segments[taken].backups[0] = 1;
        for (ViewShard& shard : data.shards)
            shard.since = data.epoch;
        view_of_primary = std::move(View::make(data)).value();
        std::vector<PositionRange> left;
        for (const uint32_t i : view_of_primary.segments_of(0))
            left.push_back(view_of_primary.range(i));
        REQUIRE(primary.holdings.set_primary(left));
        streams.mark();
        streams.apply_view(view_of_primary, 0, Streams::Begin::kLater);
    }

    void apply_view() {
        view = std::move(View::make(data)).value();
        streams.apply_view(view, 0);
        if (incoming != nullptr) incoming->apply_view(1);
        learner.holdings.forget_unless([&](PositionRange range) {
            const size_t i = view.segment_index(range.first);
            return view.range(i) == range && view.segments()[i].learner.shard == 1;
        });
    }

    void make_table(const TableSchema& schema) {
        primary.make_table(schema);
        learner.make_table(schema);
    }

    /// Tables 0 and 2 have state, 2 and 3 are sparse, and a row of 1 is longer than a message.
    void make_some_tables() {
        TableSchema state = testing::dense_table("state", 300);
        TableSchema sparse = testing::sparse_table("sparse");
        for (TableSchema* const schema : {&state, &sparse}) {
            schema->rule = "adagrad";
            schema->parameters.value = {0.1, 1e-8};
        }
        make_table(state);
        make_table(testing::dense_table("wide", 20, ValueType::kFloat32, 600));
        make_table(sparse);
        make_table(testing::sparse_table("pairs", ValueType::kFloat32, 3));
    }

    /// Shard 1 learns all that shard 0 has, and has it then.
    void learn_all() {
        name_learner(segments_of_primary());
        wait_until_all_is_there();
    }

    /// The same as a backup.
    void back_up_all() {
        name_backup(segments_of_primary());
        wait_until_all_is_there();
    }

    void wait_until_all_is_there() {
        REQUIRE(run_until([&] { return has_all(); }));
    }

    /// Until nothing has happened for so many ms.
    void settle(size_t idle_max = 50) {
        (void)run_until([] { return false; }, idle_max);
    }

    /// What the stream sends when act() changes something.
    template <class Act>
    [[nodiscard]] size_t bytes_sent_for(Act&& act) {
        const size_t before = sent_bytes;
        act();
        settle(10);
        return sent_bytes - before;
    }

    /// How many packets a stream sends to a learner that stops as soon as it follows.
    [[nodiscard]] uint64_t packets_ahead() {
        const uint64_t before = network.counters().packets;
        name_learner(segments_of_primary());
        REQUIRE(run_until([&] { return incoming != nullptr; }));
        is_learner_stopped = true;
        settle();
        return network.counters().packets - before;
    }

    /// All segments of shard 0.
    [[nodiscard]] std::vector<size_t> segments_of_primary() const {
        std::vector<size_t> its;
        for (size_t i = 0; i < view.segments().size(); ++i)
            if (view.segments()[i].primary == 0) its.push_back(i);
        return its;
    }

    /// All keys of a dense table that shard 0 has; ascending.
    [[nodiscard]] std::vector<uint64_t> keys_of_primary(uint32_t number) const {
        std::vector<uint64_t> keys;
        for (const KeyRange extent : primary.tables[number]->rows->extents()) {
            for (uint64_t key = extent.begin; key < extent.end; ++key)
                keys.push_back(key);
        }
        return keys;
    }

    bool step() {
        size_t done = poll_primary();
        if (!is_learner_stopped) done += poll_learner();
        if (done > 0) return true;
        if (network.step()) return true;
        clock.advance(kMillisecond);
        return false;
    }

    template <class Over>
    bool run_until(Over&& over, size_t idle_max = 5000) {
        for (size_t idle = 0; idle < idle_max;) {
            if (over()) return true;
            if (!step()) ++idle;
        }
        return over();
    }

    /// Both ends lose what is under way.
    void break_stream() {
        network.partition(0, 1);
        const uint64_t until = clock.now_ns() + 200 * kMillisecond;
        (void)run_until([&] { return clock.now_ns() >= until; });
        network.heal(0, 1);
    }

    /// A push to all keys of an extent of a dense table.
    void push_extent(uint32_t number) {
        const KeyRange extent = primary.tables[number]->rows->extents()[0];
        PushedList pushed{number, std::vector<uint64_t>(extent.key_count())};
        std::iota(pushed.keys.begin(), pushed.keys.end(), extent.begin);
        Request request;
        request.header = wire::header_of(wire::Kind::kPush);
        request.header.flags = wire::kKeysRange | wire::kValuesInline;
        request.header.first = extent.begin;
        push(pushed, request);
    }

    /// Any push to what shard 0 has, by any of three workers.
    void push_something() {
        const auto number = static_cast<uint32_t>(random.below(primary.tables.size()));
        const ShardTable& table = *primary.tables[number];
        PushedList pushed{number, some_keys(table)};
        if (pushed.keys.empty()) return;
        Request request;
        request.header = wire::header_of(wire::Kind::kPush);
        if (table.positions.is_dense() && random.below(2) == 0) {
            const KeyRange extent =
                table.rows->extents()[random.below(table.rows->extents().size())];
            const uint64_t begin = extent.begin + random.below(extent.key_count());
            const uint64_t end = std::min(extent.end, begin + 1 + random.below(20));
            pushed.keys.resize(end - begin);
            std::iota(pushed.keys.begin(), pushed.keys.end(), begin);
            request.header.flags = wire::kKeysRange | wire::kValuesInline;
            request.header.first = begin;
        } else {
            request.header.flags = wire::kKeysInline | wire::kValuesInline;
            request.keys = std::as_bytes(std::span(pushed.keys));
        }
        push(pushed, request);
    }

    /// Makes a list of up to so many keys of a table, and pushes it in full.
    void push_list(uint32_t number, uint64_t keys_max) {
        ShardTable& table = *primary.tables[number];
        lists_.push_back({number, some_keys(table, keys_max)});
        if (lists_.back().keys.empty()) return lists_.pop_back();
        Request request;
        request.header = wire::header_of(wire::Kind::kPush);
        request.header.flags = wire::kKeysInline | wire::kValuesInline;
        request.keys = std::as_bytes(std::span(lists_.back().keys));
        push(lists_.back(), request);
    }

    /// Pushes such a list again, by its hash if both ends of that are remembered.
    void push_again(size_t i) {
        const PushedList& list = lists_[i];
        const ListId id = list_id(list.keys);
        Request request;
        request.header = wire::header_of(wire::Kind::kPush);
        request.header.first = id.hash;
        request.ends = {id.first_key, id.last_key};
        const SegmentList& held = primary.holdings.segments();
        const Result<RowList> known = primary.tables[list.table]->rows->known_rows(id, &held);
        const bool is_known = known && (are_iterations || !streams.needs_keys(*known->remembered));
        request.header.flags =
            wire::kValuesInline | (is_known ? wire::kKeysKnown : wire::kKeysInline);
        if (!is_known) request.keys = std::as_bytes(std::span(list.keys));
        push(list, request);
    }

    [[nodiscard]] size_t list_count() const noexcept { return lists_.size(); }

    /// An iteration of a table is closed: its rule has run on some rows.
    void close_iteration(bool fails) {
        const auto number = static_cast<uint32_t>(random.below(primary.tables.size()));
        close_iteration({number, some_keys(*primary.tables[number])}, fails);
    }

    /// The same of the rows of a list.
    void close_iteration_of(size_t i) { close_iteration(lists_[i], false); }

    /// The same of the rows of these keys.
    void close_iteration_of(uint32_t number, std::vector<uint64_t> keys) {
        close_iteration({number, std::move(keys)}, false);
    }

    /// Values, state, times and iterations of the learned segments are the same on both sides.
    void check_equal() {
        for (size_t t = 0; t < primary.tables.size(); ++t) {
            for (size_t i = 0; i < view.segments().size(); ++i) {
                if (view.segments()[i].has_learner()) check_equal(t, i);
            }
        }
    }

    void check_equal(size_t t, size_t segment) {
        INFO("table " << t << ", segment " << segment);
        const PositionRange range = view.range(segment);
        CHECK(rows(primary, t, range) == rows(learner, t, range));
        const auto times = [&](Side& side) {
            return side.tables[t]->clocks.part(side.holdings.segments(), range).workers;
        };
        CHECK(times(primary) == times(learner));
        const auto last = [&](Side& side) {
            const auto& closed = side.tables[t]->iterations.state().closed();
            const ClosedState* const state = closed.find(range.first);
            return state == nullptr ? ClosedState{} : *state;
        };
        CHECK(last(primary) == last(learner));
    }

    /// The primary's end of it.
    [[nodiscard]] transport::ConnectionId stream_connection() const { return stream_connection_; }

    [[nodiscard]] bool has_all() {
        bool all = true;
        for (const LearnerReport& report : streams.take_complete())
            complete.push_back(report);
        for (const ViewSegment& segment : view.segments()) {
            all = all && (!segment.has_learner() ||
                          std::ranges::any_of(complete, [&](const LearnerReport& r) {
                              return r.first == segment.first && r.named == segment.learner.named;
                          }));
        }
        return all;
    }

    ManualClock clock;
    transport::sim::Network network;
    Random random;
    Side primary;
    Side learner;
    std::unique_ptr<transport::Device> devices[2];
    testing::RegisteredMemory lent;
    std::unique_ptr<transport::Endpoint> from;
    std::unique_ptr<transport::Endpoint> to;
    RepeatedLog failures{clock};
    Streams streams;
    ViewData data;
    View view;
    View view_of_primary;  ///< by take_over_and_lose()
    std::unique_ptr<IncomingStream> incoming;
    transport::ConnectionId connection = 0;  // of the incoming stream
    std::vector<LearnerReport> complete;
    std::string_view wrong;
    Errc refusal = Errc::kOk;
    size_t chunk_bytes = 2000;  // of a step
    Stream::What sent_what = Stream::What::kChunks;
    size_t sent_max = 0;    // by any step
    size_t sent_bytes = 0;  // in all
    uint64_t applied = 0;   // index of the last record that the learner has applied
    bool is_learner_stopped = false;
    bool is_in_doubt = false;  // whether the learner can still read what a closed connection lent
    bool are_iterations = false;  // pushes: each is all that one changes

private:
    using Row = std::pair<std::vector<std::byte>, std::vector<std::byte>>;

    [[nodiscard]] std::unique_ptr<transport::Endpoint> endpoint(size_t i) {
        transport::EndpointOptions options;
        options.message_bytes_max = kMessageBytesMax;
        options.messages_in_flight = 2048;
        return std::move(devices[i]->make_endpoint(options)).value();
    }

    void hold(Side& side, uint32_t shard) const {
        std::vector<PositionRange> ranges;
        for (const uint32_t i : view.segments_of(shard))
            ranges.push_back(view.range(i));
        side.holdings.begin(ranges);
    }

    struct PushedList {
        uint32_t table = 0;
        std::vector<uint64_t> keys;
    };

    void close_iteration(const PushedList& list, bool fails) {
        ShardTable& table = *primary.tables[list.table];
        table.was_pushed = true;
        if (!fails && !list.keys.empty()) {
            const RowList rows = *table.rows->rows_for_push(list.keys);
            const size_t count =
                list.keys.size() * table.rows->row_layout().pushed_bytes() / sizeof(float);
            const std::vector<float> ones(count, 2.5F);
            REQUIRE(table.rows->push_aggregate(1, rows, std::as_bytes(std::span(ones))));
        }
        AggregatedRows changed;
        table.rows->list_aggregated(1, changed);
        table.rows->apply_aggregate(1);
        std::optional<IterationFailure> failure;
        if (fails) failure = IterationFailure{Errc::kNoMemory, 1};
        ClosedIterations& closed = table.iterations.state().closed();
        closed.close(closed.lowest() + 1, failure);
        streams.iteration_closes();
        streams.iteration_closed(table, changed);
    }

    /// Executes and records a push of these keys.
    void push(const PushedList& list, Request& request) {
        ShardTable& table = *primary.tables[list.table];
        const auto worker = static_cast<uint32_t>(random.below(3));
        RangeClock& times = *table.clocks.of(worker);
        table.was_pushed = true;
        request.header.table = list.table;
        request.header.count = static_cast<uint32_t>(list.keys.size());
        std::vector<float> values(list.keys.size() * table.rows->row_layout().pushed_bytes() / 4);
        for (float& value : values)
            value = static_cast<float>(random.uniform()) + 0.1F;
        request.values = std::as_bytes(std::span(values));
        const Result<Entries> entries = resolve(table, request, &primary.holdings.segments());
        REQUIRE(entries.has_value());
        REQUIRE(table.rows->push(*entries, request.values).has_value());
        if (are_iterations) {
            ClosedIterations& closed = table.iterations.state().closed();
            closed.close(closed.lowest() + 1, std::nullopt);
            streams.iteration_closes();
            return streams.iteration_closed(table, *entries);
        }
        const SegmentList& held = primary.holdings.segments();
        const uint64_t time = ++time_;
        for (const uint64_t key : list.keys) {
            const uint32_t i = held.find(table.positions.position(key));
            times.raise(held, SegmentRun{i, i + 1}, time);
        }
        streams.pushed(table, *entries, worker, times);
    }

    [[nodiscard]] std::vector<uint64_t> some_keys(const ShardTable& table, uint64_t keys_max = 12) {
        std::vector<uint64_t> keys;
        for (uint64_t n = 1 + random.below(keys_max); n > 0; --n) {
            const uint64_t key = random.below(
                table.positions.is_dense() ? table.positions.key_count() : kSparseKeys);
            if (primary.holdings.primary().contains(table.positions.position(key)))
                keys.push_back(key);
        }
        std::ranges::sort(keys);
        keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
        return keys;
    }

    [[nodiscard]] static std::map<uint64_t, Row> rows(Side& side, size_t number,
                                                      PositionRange range) {
        const TableShard& table = *side.tables[number]->rows;
        std::map<uint64_t, Row> all;
        ListedRows listed;
        for (KeyCursor cursor; !cursor.at_end;) {
            table.list(cursor, PositionSet(std::span(&range, 1)), 1, listed);
            if (listed.row_count() == 0) continue;
            Row row{std::vector<std::byte>(table.row_layout().value_bytes()),
                    std::vector<std::byte>(table.row_layout().state_bytes)};
            table.copy_values(listed, row.first);
            table.copy_state(listed, row.second);
            all[listed.keys.empty() ? listed.range.begin : listed.keys[0]] = row;
        }
        return all;
    }

    size_t poll_primary() {
        std::array<transport::Completion, 8> completions;
        const size_t count = from->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == transport::Event::kConnected) {
                stream_connection_ = c.connection;
                (void)streams.connected(c.connection);
            }
            if (c.event == transport::Event::kClosed) {
                (void)streams.closed(c.connection, is_in_doubt);
            }
            if (c.event != transport::Event::kReceived) continue;
            wire::Frame frame;
            REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
            if (frame.header.kind == wire::Kind::kApplied) applied = frame.header.first;
            CHECK(streams.receive(c.connection, frame.header).empty());
        }
        const size_t sent = streams.send(chunk_bytes, sent_what);
        sent_max = std::max(sent_max, sent);
        sent_bytes += sent;
        from->flush();
        return count + sent;
    }

    /// The incoming stream has said that something is wrong. What was lent over a connection that is broken
    /// is not to be had any more.
    void refused(std::string_view what) {
        if (what.empty()) return;
        if (!what.starts_with("a record whose rows are not where it says")) {
            wrong = what;
            return;
        }
        to->close(connection);
        if (incoming->stream() == 0) incoming.reset();
    }

    /// A connection of a stream that goes on, or of a new one.
    void follow(const FollowMessage& message) {
        const bool goes_on = incoming != nullptr && message.stream != 0 &&
                             incoming->go_on_behind(message.behind, message.number);
        if (goes_on) return;
        incoming = std::make_unique<IncomingStream>(
            IncomingStream::Ends{0, 1, message.number, message.stream}, view, learner.holdings,
            learner.tables);
    }

    size_t poll_learner() {
        std::array<transport::Completion, 8> completions;
        const size_t count = to->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            const bool is_closed =
                c.event == transport::Event::kClosed && c.connection == connection;
            if (is_closed && incoming != nullptr && incoming->stream() == 0) incoming.reset();
            if (c.event != transport::Event::kReceived) continue;
            wire::Frame frame;
            REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
            if (frame.header.kind == wire::Kind::kFollow) {
                connection = c.connection;
                follow(*FollowMessage::decode(frame.values));
            } else if (incoming != nullptr && c.connection == connection) {
                refused(incoming->receive(frame, {*to, connection}));
            }
        }
        size_t done = learner.holdings.drop_some() ? 1 : 0;
        if (incoming == nullptr) return count + done + outbox_.flush();
        const std::string_view what = incoming->go_on();
        if (!what.empty()) wrong = what;
        if (const auto progress = incoming->take_progress()) {
            wire::FrameHeader header = testing::frame_header(wire::Kind::kApplied);
            header.first = progress->applied;
            header.request = progress->accepted;
            header.status = incoming->refusal();
            if (header.status != Errc::kOk) refusal = header.status;
            outbox_.send(connection, header);
        }
        return count + done + outbox_.flush();
    }

    Outbox outbox_{*to};
    transport::ConnectionId stream_connection_ = 0;
    uint64_t time_ = 0;
    std::vector<PushedList> lists_;
};

}  // namespace weir::test
