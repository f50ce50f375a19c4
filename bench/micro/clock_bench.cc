// SPDX-License-Identifier: Apache-2.0
// What a push pays for its range clock: the test of its first key and the new times. Times are of
// one push.
#include <vector>

#include <benchmark/benchmark.h>

#include "lib/base/random.h"
#include "lib/vclock/range_clock.h"

namespace weir::bench {
namespace {

constexpr uint32_t kSegments = 300;

/// The ring in 600 segments, of which the shard holds every other one.
SegmentList make_list() {
    std::vector<PositionRange> segments;
    const uint64_t size = ~uint64_t{0} / (2 * kSegments);
    for (uint64_t i = 0; i < kSegments; ++i)
        segments.push_back({2 * i * size, (2 * i + 1) * size - 1});
    return {1, segments};
}

/// Executes a push of these segments unless it was executed before.
template <class Touched>
void push(RangeClock& clock, const SegmentList& held, uint64_t position, const Touched& touched,
          uint64_t time) {
    if (clock.at(position) < time) clock.raise(held, touched, time);
    benchmark::DoNotOptimize(clock.entries().data());
    benchmark::ClobberMemory();
}

/// (a) Pushes of one key each, all in one segment.
void one_key_same_segment(benchmark::State& state) {
    const SegmentList held = make_list();
    RangeClock clock;
    const uint64_t position = held.segments()[kSegments / 2].first + 7;
    uint64_t time = 0;
    for ([[maybe_unused]] auto _ : state) {
        const uint32_t segment = held.find(position);
        push(clock, held, position, SegmentRun{segment, segment + 1}, ++time);
    }
}

/// Pushes of one key each, in random segments.
void one_key_random_segment(benchmark::State& state) {
    const SegmentList held = make_list();
    RangeClock clock;
    Random random(1);
    std::vector<uint64_t> positions(4096);
    for (uint64_t& position : positions)
        position = held.segments()[random.below(kSegments)].first + random.below(1 << 20);
    uint64_t time = 0;
    for ([[maybe_unused]] auto _ : state) {
        const uint64_t position = positions[time % positions.size()];
        const uint32_t segment = held.find(position);
        push(clock, held, position, SegmentRun{segment, segment + 1}, ++time);
    }
    state.counters["entries"] = static_cast<double>(clock.entries().size());
}

/// (b) Pushes that touch all segments.
void all_segments(benchmark::State& state) {
    const SegmentList held = make_list();
    RangeClock clock;
    SegmentMarks marks;
    marks.reset(held);
    for (uint32_t i = 0; i < kSegments; ++i)
        marks.mark(i);
    const TouchedSegments touched = marks.touched();
    uint64_t time = 0;
    for ([[maybe_unused]] auto _ : state)
        push(clock, held, held.segments()[3].first, touched, ++time);
    state.counters["entries"] = static_cast<double>(clock.entries().size());
}

/// By turns all segments, and one.
void all_segments_then_one(benchmark::State& state) {
    const SegmentList held = make_list();
    RangeClock clock;
    uint64_t time = 0;
    for ([[maybe_unused]] auto _ : state) {
        push(clock, held, held.segments()[3].first, held.all(), ++time);
        push(clock, held, held.segments()[9].first, SegmentRun{9, 10}, ++time);
    }
}

/// (c) Two lists by turns that touch each segment with this chance, in percent.
void some_segments(benchmark::State& state) {
    const SegmentList held = make_list();
    RangeClock clock;
    Random random(2);
    SegmentMarks marks;
    TouchedSegments touched[2];
    for (TouchedSegments& list : touched) {
        marks.reset(held);
        for (uint32_t i = 0; i < kSegments; ++i) {
            if (random.below(100) < static_cast<uint64_t>(state.range(0))) marks.mark(i);
        }
        list = marks.touched();
    }
    uint64_t time = 0;
    for ([[maybe_unused]] auto _ : state) {
        const TouchedSegments& list = touched[time % 2];
        push(clock, held, held.segments()[list.runs()[0].begin].first, list, ++time);
    }
    state.counters["entries"] = static_cast<double>(clock.entries().size());
    state.counters["runs"] = static_cast<double>(touched[0].runs().size());
}

/// Finding the segments of a list that is not known: the time of one key.
void mark_a_key(benchmark::State& state) {
    const SegmentList held = make_list();
    SegmentMarks marks;
    marks.reset(held);
    Random random(3);
    std::vector<uint64_t> positions(4096);
    for (uint64_t& position : positions)
        position = held.segments()[random.below(kSegments)].first + random.below(1 << 20);
    size_t i = 0;
    for ([[maybe_unused]] auto _ : state) {
        const uint32_t segment = held.find(positions[i++ % positions.size()]);
        if (segment != SegmentList::kNone) marks.mark(segment);
    }
    benchmark::DoNotOptimize(marks.touched().runs().size());
}

BENCHMARK(one_key_same_segment);
BENCHMARK(one_key_random_segment);
BENCHMARK(all_segments);
BENCHMARK(all_segments_then_one);
BENCHMARK(some_segments)->Arg(5)->Arg(50)->Arg(95);
BENCHMARK(mark_a_key);

}  // namespace
}  // namespace weir::bench
