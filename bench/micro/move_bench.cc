// SPDX-License-Identifier: Apache-2.0
// How fast segments move over shared memory, both ends on one core by turns. In a job each end has a
// core of its own, so the slower one counts (share), or both have the same (share_of_both). The limits:
// copying the values once, and inserting the keys and values into a table.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/micro/arena.h"
#include "bench/micro/beside.h"
#include "lib/base/bytes.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/node/outbox.h"
#include "lib/replication/incoming_stream.h"
#include "lib/replication/streams.h"
#include "lib/ring/plan.h"
#include "lib/server/shard_table.h"
#include "lib/store/rules/rule_registry.h"
#include "transport/shm/shm.h"

namespace weir::bench {
namespace {

struct Side {
    explicit Side(size_t memory_bytes) : memory(memory_bytes), lists(memory, 0) {}

    Arena memory;
    KnownLists lists;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    ShardTables tables;
    Holdings holdings{tables};
};

size_t arena_bytes(Layout layout, uint64_t keys) {
    return keys * (layout == Layout::kDense ? 8 : 128) + 32 * kMiB;
}

/// What the learner becomes.
enum class As { kPrimary, kBackup };

/// How much a primary sends in a poll, as a shard does it: without pushes, or while there are some.
struct Pace {
    size_t bytes_of_poll;
    Stream::What what;
};

constexpr Pace kAtRest{size_t{32} << 10, Stream::What::kChunks};
constexpr Pace kBesidePushes{size_t{8} << 10, Stream::What::kFewChunks};

/// Processor time, without the room that is made at first.
struct MoveTimes {
    double send_s = 0;
    double take_s = 0;
};

/// A primary with one table, of which a learner gets half.
class Move {
public:
    Move(Layout layout, uint64_t keys, As as = As::kPrimary)
        : primary_(arena_bytes(layout, keys)),
          learner_(arena_bytes(layout, keys)),
          from_(std::move(device_->make_endpoint({})).value()),
          to_(std::move(device_->make_endpoint({})).value()),
          outbox_(*to_),
          streams_(*from_, clock_, primary_.holdings, primary_.tables, primary_.lists,
                   LendingOptions(), failures_) {
        const std::vector<NewServer> servers{{.addresses = {from_->address()}},
                                             {.addresses = {to_->address()}}};
        ViewData data = first_view(servers, 1)->data();
        data.segments[0].learner = {1, as == As::kPrimary ? 0 : kNoShard, 1};
        view_ = std::move(View::make(data)).value();
        const std::array range{view_.range(0)};
        primary_.holdings.begin(range);
        learner_.holdings.begin({});
        TableSchema schema{.name = "t", .layout = layout, .key_count = 2 * keys};
        for (Side* const side : {&primary_, &learner_}) {
            const PositionSet held = side->holdings.primary();
            auto rows = TableShard::make(schema, held, side->rules, side->memory, side->lists);
            side->tables.push_back(std::make_unique<ShardTable>(std::move(rows).value()));
        }
        ShardTable& table = *primary_.tables[0];
        table.was_pushed = true;
        (void)table.clocks.of(0);
        if (layout == Layout::kDense) {
            bytes_ = table.rows->row_count() * sizeof(float);
            return;
        }
        for (uint64_t key = 1; keys_.size() < keys; ++key) {
            if (range[0].contains(table.positions.position(key))) keys_.push_back(key);
        }
        const std::vector<float> values(keys_.size(), 1);
        WEIR_CHECK(table.rows->take(keys_, std::as_bytes(std::span(values)), {}));
        bytes_ = keys_.size() * sizeof(float);
    }

    /// Moves all.
    MoveTimes run(Pace pace) {
        streams_.apply_view(view_, 0);
        MoveTimes times;
        while (streams_.take_complete().empty()) {
            times.send_s += cpu_seconds([&] { poll_primary(pace); });
            times.take_s += cpu_seconds([&] { poll_learner(); });
        }
        times.take_s -= room_s_;
        WEIR_CHECK(learner_.tables[0]->rows->row_count() == primary_.tables[0]->rows->row_count());
        return times;
    }

    [[nodiscard]] size_t bytes() const { return bytes_; }

    [[nodiscard]] std::span<const uint64_t> keys() const { return keys_; }

private:
    void poll_primary(Pace pace) {
        const size_t count = from_->poll(completions_);
        for (const transport::Completion& c : std::span(completions_).first(count)) {
            if (c.event == transport::Event::kConnected) (void)streams_.connected(c.connection);
            wire::Frame frame;
            if (c.event != transport::Event::kReceived) continue;
            WEIR_CHECK(wire::decode(c.message, frame) == Errc::kOk);
            WEIR_CHECK(streams_.receive(c.connection, frame.header).empty());
        }
        (void)streams_.send(pace.bytes_of_poll, pace.what);
        from_->flush();
    }

    void poll_learner() {
        const size_t count = to_->poll(completions_);
        for (const transport::Completion& c : std::span(completions_).first(count)) {
            wire::Frame frame;
            if (c.event != transport::Event::kReceived) continue;
            WEIR_CHECK(wire::decode(c.message, frame) == Errc::kOk);
            if (frame.header.kind == wire::Kind::kFollow) {
                connection_ = c.connection;
                const uint64_t stream = FollowMessage::decode(frame.values)->stream;
                incoming_ =
                    std::make_unique<IncomingStream>(IncomingStream::Ends{0, 1, 1, stream}, view_,
                                                     learner_.holdings, learner_.tables);
                continue;
            }
            const auto take = [&] {
                WEIR_CHECK(incoming_->receive(frame, {*to_, c.connection}).empty());
            };
            if (frame.header.first == 1) {
                room_s_ += cpu_seconds(take);
            } else {
                take();
            }
        }
        if (incoming_ == nullptr) return;
        if (const auto progress = incoming_->take_progress()) {
            wire::FrameHeader header = wire::header_of(wire::Kind::kApplied);
            header.first = progress->applied;
            outbox_.send(connection_, header);
        }
        (void)outbox_.flush();
        to_->flush();
    }

    SteadyClock clock_;
    std::unique_ptr<transport::Device> device_ = std::move(transport::shm::make_device({})).value();
    Side primary_;
    Side learner_;
    std::unique_ptr<transport::Endpoint> from_;
    std::unique_ptr<transport::Endpoint> to_;
    Outbox outbox_;
    View view_;
    RepeatedLog failures_{clock_};
    Streams streams_;
    std::unique_ptr<IncomingStream> incoming_;
    transport::ConnectionId connection_ = 0;
    std::array<transport::Completion, 64> completions_;
    double room_s_ = 0;
    size_t bytes_ = 0;
    std::vector<uint64_t> keys_;
};

/// Sums over all iterations.
struct Sums {
    double slower_s = 0;
    double both_s = 0;
    double limit_s = 0;

    void add(const MoveTimes& times) {
        slower_s += std::max(times.send_s, times.take_s);
        both_s += times.send_s + times.take_s;
    }
};

void report(benchmark::State& state, const Sums& sums, size_t units) {
    const double all = static_cast<double>(units) * static_cast<double>(state.iterations());
    state.counters["ours_per_s"] = all / sums.slower_s;
    state.counters["limit_per_s"] = all / sums.limit_s;
    state.counters["share"] = sums.limit_s / sums.slower_s;
    state.counters["share_of_both"] = sums.limit_s / sums.both_s;
}

void move_dense_as(benchmark::State& state, As as, Pace pace) {
    Sums sums;
    size_t bytes = 0;
    for ([[maybe_unused]] auto _ : state) {
        Move move(Layout::kDense, static_cast<uint64_t>(state.range(0)), as);
        const MoveTimes times = move.run(pace);
        state.SetIterationTime(std::max(times.send_s, times.take_s));
        sums.add(times);
        bytes = move.bytes();
        const std::vector<std::byte> source(bytes, std::byte{1});
        std::vector<std::byte> copy(bytes, std::byte{2});
        sums.limit_s += cpu_seconds([&] {
            std::memcpy(copy.data(), source.data(), bytes);
            benchmark::DoNotOptimize(copy.data());
        });
    }
    report(state, sums, bytes);
}

void move_sparse_as(benchmark::State& state, As as, Pace pace) {
    Sums sums;
    size_t keys = 0;
    for ([[maybe_unused]] auto _ : state) {
        Move move(Layout::kSparse, static_cast<uint64_t>(state.range(0)), as);
        const MoveTimes times = move.run(pace);
        state.SetIterationTime(std::max(times.send_s, times.take_s));
        sums.add(times);
        keys = move.keys().size();
        Arena arena(arena_bytes(Layout::kSparse, keys));
        KnownLists lists(arena, 0);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto table =
            std::move(TableShard::make({.name = "t", .layout = Layout::kSparse},
                                       PositionSet::whole_ring(), rules, arena, lists))
                .value();
        const std::vector<float> values(keys, 1);
        sums.limit_s += cpu_seconds([&] {
            constexpr size_t kSome = 4096;
            for (size_t begin = 0; begin < keys; begin += kSome) {
                const auto some = move.keys().subspan(begin, std::min(kSome, keys - begin));
                const auto rows = table->rows_for_push(some);
                WEIR_CHECK(table->push(
                    *rows, std::as_bytes(std::span(values).subspan(begin, some.size()))));
            }
        });
    }
    report(state, sums, keys);
}

void move_dense(benchmark::State& state) {
    move_dense_as(state, As::kPrimary, kAtRest);
}

void move_sparse(benchmark::State& state) {
    move_sparse_as(state, As::kPrimary, kAtRest);
}

/// A copy is made again.
void copy_dense(benchmark::State& state) {
    move_dense_as(state, As::kBackup, kAtRest);
}

void copy_sparse(benchmark::State& state) {
    move_sparse_as(state, As::kBackup, kAtRest);
}

void copy_dense_beside_pushes(benchmark::State& state) {
    move_dense_as(state, As::kBackup, kBesidePushes);
}

void copy_sparse_beside_pushes(benchmark::State& state) {
    move_sparse_as(state, As::kBackup, kBesidePushes);
}

BENCHMARK(move_dense)->Arg(1 << 12)->Arg(16'000'000)->Iterations(3)->UseManualTime();
BENCHMARK(move_sparse)->Arg(1 << 12)->Arg(1'000'000)->Iterations(3)->UseManualTime();
BENCHMARK(copy_dense)->Arg(1 << 12)->Arg(16'000'000)->Iterations(3)->UseManualTime();
BENCHMARK(copy_sparse)->Arg(1 << 12)->Arg(1'000'000)->Iterations(3)->UseManualTime();
BENCHMARK(copy_dense_beside_pushes)->Arg(16'000'000)->Iterations(3)->UseManualTime();
BENCHMARK(copy_sparse_beside_pushes)->Arg(1'000'000)->Iterations(3)->UseManualTime();

}  // namespace
}  // namespace weir::bench
