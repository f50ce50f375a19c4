// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The parts of MovingHistory: pieces of parts of iterations as workers send them, and nodes that
/// are driven as Shard drives its parts.

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/server/shard_table.h"
#include "lib/store/memory.h"
#include "lib/store/rules/builtin_rules.h"
#include "tests/table_schemas.h"

namespace weir::test {

inline constexpr uint64_t kRingKeys = 24;
inline constexpr uint32_t kNodes = 3;
inline constexpr uint32_t kWorkerColumns =
    6;  // a row has a value for each worker that there ever is
inline constexpr uint64_t kIterationsMax = 50;
inline constexpr uint64_t kTwice = uint64_t{1} << 63;

/// Each worker's value gets a higher bit in each iteration. If it does not, kTwice says so.
struct HigherBits : rules::Plain {
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        if (*pushed == 0) return;
        value = *pushed > value ? value + *pushed : value | kTwice;
    }
};

struct Run {
    uint64_t begin = 0;  // keys
    uint64_t end = 0;
    uint32_t owner = 0;
};

struct MovingView {
    uint64_t epoch = 1;
    std::vector<Run> segments;
    std::array<uint64_t, kNodes> since = {1, 1, 1};
    std::map<uint32_t, uint64_t> workers;  // and their first iterations
    uint32_t next_worker = 0;

    [[nodiscard]] const Run& segment_of(uint64_t key) const {
        return *std::ranges::find_if(segments, [&](const Run& s) { return key < s.end; });
    }

    [[nodiscard]] bool has_segments(uint32_t node) const {
        return std::ranges::any_of(segments, [&](const Run& s) { return s.owner == node; });
    }
};

enum class HowEnded { kNo, kDone, kFailed, kUnsure };

struct PushCall {
    uint32_t worker = 0;
    uint64_t iteration = 0;
    std::map<uint64_t, HowEnded> keys;
    uint32_t end_time = 0;  // of parts without keys
    bool is_withdrawn = false;
};

/// Of one worker.
struct ByIteration {
    bool operator()(const PushCall* a, const PushCall* b) const {
        return a->iteration < b->iteration;
    }
};

using CallSet = std::set<PushCall*, ByIteration>;

struct PartPiece {
    enum class State { kReady, kAway, kStale };
    PushCall* call = nullptr;
    uint32_t node = 0;
    uint64_t epoch = 0;
    uint32_t time = 0;
    std::vector<uint64_t> keys;
    uint32_t parts = 0;
    bool was_sent = false;
    State state = State::kReady;
    uint64_t request = 0;

    [[nodiscard]] std::pair<uint32_t, uint64_t> order() const {
        return {time, keys.empty() ? ~uint64_t{0} : keys.front()};
    }
};

/// A part as it was sent.
struct Sent {
    transport::ConnectionId connection = 0;
    uint64_t hello = 0;
    uint32_t worker = 0;
    uint64_t request = 0;
    PartPiece piece;
    uint64_t iteration = 0;
    bool is_withdrawn = false;
};

struct Reply {
    transport::ConnectionId connection = 0;
    uint64_t request = 0;
    Errc status = Errc::kOk;
    bool has_failed = false;
};

/// A shard.
struct Node {
    explicit Node(uint32_t of, Random& choices, const RuleRegistry& rules, const PositionSet& held)
        : number(of), random(choices) {
        TableSchema schema =
            testing::dense_table("t", kRingKeys, ValueType::kUInt64, kWorkerColumns);
        schema.rule = "higher_bits";
        schema.max_delay = 1;
        table.emplace(*TableShard::make(schema, held, rules, memory, lists));
    }

    [[nodiscard]] PositionRange positions(const Run& segment) const {
        const PositionMap& map = table->positions;
        const bool is_last = segment.end == kRingKeys;
        return {map.position(segment.begin),
                is_last ? ~uint64_t{0} : map.position(segment.end) - 1};
    }

    void apply_view(const MovingView& next) {
        view = next;
        std::vector<IterationMember> members;
        for (const auto& [worker, first] : view.workers)
            members.push_back({worker, first});
        state().set_members(members);
        if (view.since[number] == view.epoch) {
            std::vector<PositionRange> primary;
            for (const Run& segment : view.segments) {
                if (segment.owner == number) primary.push_back(positions(segment));
            }
            table->iterations.restart(primary, [&](const OpenIterations::Part& part) {
                replies.push_back({part.connection, part.request, Errc::kStaleEpoch});
            });
        }
        state().release();
        finish();
        look_again();
    }

    void receive(const Sent& part) {
        if (part.piece.epoch > view.epoch) return waiting.push_back(part);
        if (!view.workers.contains(part.worker)) return;
        const Reply reply{part.connection, part.request};
        if (part.piece.epoch < view.since[number]) return answer(reply, Errc::kStaleEpoch);
        Request request;
        wire::FrameHeader& header = request.header;
        header.flags = wire::kKeysInline;
        header.iteration = part.iteration;
        header.parts = part.piece.parts;
        header.count = static_cast<uint32_t>(part.piece.keys.size());
        request.keys = std::as_bytes(std::span(part.piece.keys));
        OpenIterations::Part name{part.connection, part.request, part.worker, part.piece.time,
                                  first_position(*table, request)};
        switch (state().judge(part.iteration, part.worker, part.piece.parts)) {
            case IterationProgress::Verdict::kLater: return waiting.push_back(part);
            case IterationProgress::Verdict::kPast:
                return reply_closed(reply, name.first, part.iteration);
            case IterationProgress::Verdict::kNow: break;
            default:
                INFO("iteration " << part.iteration << " of worker " << part.worker
                                  << ", seen: " << state().last_seen(part.worker)
                                  << ", closed: " << state().last_closed());
                return fail(reply, state().failure_for(part.iteration, part.worker));
        }
        const bool fails = random.below(40) == 0;
        if (part.is_withdrawn) {
            const auto failure = table->iterations.excuse(part.iteration, name, Errc::kCancelled);
            if (failure) fail(reply, failure);
            return finish();
        }
        if (part.hello > 1 && table->iterations.replace(part.iteration, name)) return;
        if (!state().lacks(part.iteration, part.worker, header.parts))
            return fail(reply, state().failure_for(part.iteration, part.worker));
        if (header.count > 0 && part.iteration <= state().closed().highest()) {
            const OfPositions of = judge_positions(*table, request);
            REQUIRE(of != OfPositions::kBoth);
            was_mixed = true;
            if (of == OfPositions::kClosed) {
                REQUIRE(table->iterations.arrived_again(part.iteration, name, header.parts));
                return finish();
            }
        }
        Errc status = fails ? Errc::kNoMemory : Errc::kOk;
        if (!fails && header.count > 0 && !state().failure_of(part.iteration)) add(part, header);
        end(name, header, status);
    }

    [[nodiscard]] uint64_t value(uint64_t key, uint32_t worker) const {
        const auto values = table->rows->values(KeyRange{key, key + 1});
        REQUIRE(values.has_value());
        uint64_t row[kWorkerColumns];
        std::memcpy(row, values->data(), sizeof row);
        return row[worker];
    }

    IterationProgress& state() { return table->iterations.state(); }

    uint32_t number;
    Random& random;
    HeapMemory memory;
    KnownLists lists{memory, 4096};
    std::optional<ShardTable> table;
    MovingView view;
    std::deque<MovingView> inbox;
    std::deque<Sent> waiting;
    std::vector<Reply> replies;
    bool was_mixed = false;

private:
    void add(const Sent& part, const wire::FrameHeader& header) {
        std::vector<uint64_t> pushed(part.piece.keys.size() * kWorkerColumns);
        for (size_t i = 0; i < part.piece.keys.size(); ++i)
            pushed[i * kWorkerColumns + part.worker] = uint64_t{1} << part.iteration;
        auto rows = table->rows->rows_for_push(part.piece.keys);
        REQUIRE(rows.has_value());
        const auto bytes = std::as_bytes(std::span(pushed));
        if (table->iterations.is_all(part.iteration, part.worker, header.parts)) {
            REQUIRE(table->rows->push(*rows, bytes).has_value());
        } else {
            table->iterations.added(part.iteration);
            REQUIRE(table->rows->push_aggregate(part.iteration, *rows, bytes).has_value());
        }
    }

    void answer(Reply reply, Errc status) {
        reply.status = status;
        replies.push_back(reply);
    }

    /// Only a failed iteration refuses a part of workers that follow the rules.
    void fail(Reply reply, const std::optional<IterationFailure>& failure) {
        REQUIRE(failure.has_value());
        reply.has_failed = true;
        answer(reply, failure->status);
    }

    void reply_closed(const Reply& reply, std::optional<uint64_t> first, uint64_t iteration) {
        const auto failure = failure_at(*table, iteration, first);
        return failure ? fail(reply, failure) : answer(reply, Errc::kOk);
    }

    void end(const OpenIterations::Part& part, const wire::FrameHeader& header, Errc status) {
        const auto failure =
            table->iterations.arrived(header.iteration, part, header.parts, {status, part.worker});
        REQUIRE_FALSE(failure.has_value());  // nobody is lost
        finish();
    }

    void finish() {
        bool has_closed = false;
        while (state().complete()) {
            has_closed = true;
            if (state().close_empty()) continue;
            const uint64_t closing = state().first_open();
            table->iterations.close([&](const OpenIterations::Part& part) {
                reply_closed({part.connection, part.request}, part.first, closing);
            });
        }
        if (has_closed) look_again();
    }

    void look_again() {
        for (const Sent& part : std::exchange(waiting, {}))
            receive(part);
    }
};

}  // namespace weir::test
