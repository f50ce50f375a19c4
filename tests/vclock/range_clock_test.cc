// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/range_clock.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/seed.h"
#include "tests/vclock/cells.h"

TEST_SUITE("range_clock") {
    using namespace weir;
    using namespace weir::testing;
    using Steps = std::vector<ClockStep>;
    constexpr uint64_t kLast = ~uint64_t{0};

    static Steps entries(const RangeClock& clock) {
        return {clock.entries().begin(), clock.entries().end()};
    }

    static const SegmentList kFour(1, {{0, 9}, {10, 19}, {40, 49}, {50, 59}});

    TEST_CASE("a clock begins at time 0, in one entry") {
        const RangeClock clock;
        CHECK(clock.at(0) == 0);
        CHECK(clock.at(kLast) == 0);
        CHECK(entries(clock) == Steps{{0, 0}});
    }

    TEST_CASE("a push of one segment raises that segment alone, and only upwards") {
        RangeClock clock;
        clock.raise(kFour, {1, 2}, 5);
        CHECK(clock.at(9) == 0);
        CHECK(clock.at(10) == 5);
        CHECK(clock.at(19) == 5);
        CHECK(clock.at(40) == 0);
        clock.raise(kFour, {1, 2}, 4);
        CHECK(clock.at(10) == 5);
        clock.raise(kFour, {1, 2}, kLast);
        CHECK(clock.at(10) == kLast);
    }

    TEST_CASE("equal neighbours are one entry, across a gap too") {
        RangeClock clock;
        clock.raise(kFour, {1, 2}, 5);
        clock.raise(kFour, {2, 3}, 5);
        CHECK(entries(clock) == Steps{{0, 0}, {10, 5}, {50, 0}});
        clock.raise(kFour, {3, 4}, 5);
        clock.raise(kFour, {0, 1}, 5);
        CHECK(entries(clock) == Steps{{0, 5}});
    }

    TEST_CASE("a push of all segments leaves one entry, but lowers none") {
        RangeClock clock;
        clock.raise(kFour, {1, 2}, 5);
        clock.raise(kFour, kFour.all(), 4);
        CHECK(entries(clock) == Steps{{0, 4}, {10, 5}, {40, 4}});
        clock.raise(kFour, kFour.all(), 6);
        CHECK(entries(clock) == Steps{{0, 6}});
    }

    TEST_CASE("the time of a segment is that of its positions, wherever entries begin") {
        RangeClock clock;
        const auto all_agree = [&] {
            for (uint32_t i = 0; i < kFour.count(); ++i) {
                const PositionRange segment = kFour.segments()[i];
                if (clock.of_segment(kFour, i) != clock.at(segment.first)) return false;
                if (clock.of_segment(kFour, i) != clock.at(segment.last)) return false;
            }
            return true;
        };
        uint64_t time = 0;
        for (const uint32_t i : {2, 0, 3, 1, 3, 0, 0, 2}) {
            clock.raise(kFour, {i, i + 1}, ++time);
            CHECK(clock.of_segment(kFour, i) == time);
            CHECK(all_agree());
        }
        clock.raise(kFour, {1, 3}, ++time);
        CHECK(all_agree());
    }

    TEST_CASE("an empty run changes nothing") {
        RangeClock clock;
        clock.raise(kFour, {2, 2}, 5);
        clock.raise(SegmentList(), SegmentRun{}, 5);
        CHECK(entries(clock) == Steps{{0, 0}});
    }

    TEST_CASE("a segment that is cut passes its time to both parts") {
        RangeClock clock;
        clock.raise(kFour, {1, 2}, 5);
        const SegmentList cut(2, {{0, 9}, {10, 14}, {15, 19}, {40, 49}, {50, 59}});
        clock.adopt(kFour, cut);
        CHECK(clock.at(12) == 5);
        CHECK(clock.at(17) == 5);
        clock.raise(cut, {2, 3}, 6);
        CHECK(clock.at(12) == 5);
        CHECK(clock.at(17) == 6);
    }

    TEST_CASE("what is dropped is forgotten, and comes back with time 0") {
        RangeClock clock;
        clock.raise(kFour, {1, 2}, 5);
        const SegmentList without(2, {{0, 9}, {40, 49}, {50, 59}});
        clock.adopt(kFour, without);
        CHECK(entries(clock) == Steps{{0, 0}});
        clock.raise(without, without.all(), 7);
        clock.adopt(without, kFour);
        CHECK(entries(clock) == Steps{{0, 7}, {10, 0}, {40, 7}});
    }

    TEST_CASE("a part of a segment can be set alone, until the others follow") {
        const SegmentList learner(1, {{10, 29}});
        RangeClock clock;
        const Steps five{{10, 5}};
        clock.set(learner, {10, 19}, five);
        CHECK(entries(clock) == Steps{{0, 5}, {20, 0}});
        clock.raise(learner, learner.all(), 6);  // a record covers the whole segment
        CHECK(entries(clock) == Steps{{0, 6}});
        clock.set(learner, {10, 19}, five);  // as given, also downwards
        const Steps again{{20, 5}};
        clock.set(learner, {20, 29}, again);
        CHECK(entries(clock) == Steps{{0, 5}});
        CHECK(clock.part(learner, {15, 25}) == Steps{{15, 5}});
        clock.set(learner, {10, 29}, {});
        CHECK(entries(clock) == Steps{{0, 0}});
    }

    /// A clock beside a plain map of times.
    struct Beside {
        Random random;
        uint64_t generation = 1;
        SegmentList held = random_list(random, 1, 0.7);
        RangeClock clock;
        CellTimes times{};
        SegmentMarks marks;
        uint64_t now = 0;

        explicit Beside(uint64_t seed) : random(seed) {}

        void raise_cells(PositionRange segment, uint64_t time) {
            for (uint32_t c = cell_of(segment.first); c <= cell_of(segment.last); ++c)
                times[c] = std::max(times[c], time);
        }

        uint64_t some_time() { return random.below(4) == 0 ? random.below(now + 2) : ++now; }

        void raise_run() {
            const auto begin = static_cast<uint32_t>(random.below(held.count() + 1));
            const auto end = static_cast<uint32_t>(begin + random.below(held.count() + 1 - begin));
            const uint64_t time = some_time();
            clock.raise(held, {begin, end}, time);
            for (uint32_t i = begin; i < end; ++i)
                raise_cells(held.segments()[i], time);
        }

        void raise_touched() {
            const uint64_t time = some_time();
            const double share = random.uniform() * 1.2;
            marks.reset(held);
            for (uint32_t i = 0; i < held.count(); ++i) {
                if (random.uniform() >= share) continue;
                marks.mark(i);
                raise_cells(held.segments()[i], time);
            }
            clock.raise(held, marks.touched(), time);
        }

        void adopt() {
            const SegmentList after = random_list(random, ++generation, random.uniform());
            clock.adopt(held, after);
            for (uint32_t c = 0; c < kCells; ++c) {
                const bool kept = held.covers(cells(c, c + 1)) && after.covers(cells(c, c + 1));
                if (!kept) times[c] = 0;
            }
            held = after;
        }

        void set() {
            const PositionRange range = random_covered(random, held);
            Steps steps;
            for (uint32_t c = cell_of(range.first); c <= cell_of(range.last); ++c) {
                times[c] =
                    steps.empty() || random.below(3) == 0 ? random.below(now + 1) : times[c - 1];
                if (steps.empty() || steps.back().time != times[c])
                    steps.push_back({cells(c, c + 1).first, times[c]});
            }
            const bool is_zero = steps.size() == 1 && steps[0].time == 0;
            clock.set(held, range, is_zero ? Steps{} : steps);
            CHECK(clock.part(held, range) == steps);
        }

        /// The clock says what the map says, in as few entries as that takes.
        void check() const {
            size_t changes = 0;
            uint64_t before = 0;
            bool is_first = true;
            for (uint32_t c = 0; c < kCells; ++c) {
                const PositionRange cell = cells(c, c + 1);
                if (!held.covers(cell)) continue;
                CHECK(clock.at(cell.first) == times[c]);
                CHECK(clock.at(cell.last) == times[c]);
                changes += !is_first && times[c] != before;
                before = times[c];
                is_first = false;
            }
            CHECK(clock.entries().size() == changes + 1);
            CHECK(clock.entries()[0].from == 0);
            for (const ClockStep entry : clock.entries().subspan(1))
                CHECK(held.find(entry.from) != SegmentList::kNone);
        }
    };

    TEST_CASE("random changes: the clock agrees with a plain map and is as short as it can be") {
        WEIR_TEST_SEED(seed, 83);
        for (uint64_t history = 0; history < testing::histories_or(300); ++history) {
            Beside beside(seed * 1'000'003 + history);
            CAPTURE(history);
            for (int step = 0; step < 60; ++step) {
                switch (beside.random.below(8)) {
                    case 0: beside.adopt(); break;
                    case 1:
                        if (beside.held.count() > 0) beside.set();
                        break;
                    case 2:
                    case 3:
                    case 4: beside.raise_touched(); break;
                    default: beside.raise_run(); break;
                }
                beside.check();
            }
        }
    }

    TEST_CASE("random changes of copies: equal times make equal clocks, whatever led to them") {
        WEIR_TEST_SEED(seed, 84);
        Random random(seed);
        for (int round = 0; round < 300; ++round) {
            Beside beside(random());
            for (int step = 0; step < 20; ++step)
                beside.raise_touched();
            const SegmentList& held = beside.held;
            RangeClock copy;
            std::vector<PositionRange> segments(held.segments().begin(), held.segments().end());
            std::shuffle(segments.begin(), segments.end(), random);
            for (const PositionRange segment : segments)
                copy.set(held, segment, beside.clock.part(held, segment));
            CHECK(copy == beside.clock);
        }
    }
}
