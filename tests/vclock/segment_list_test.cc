// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/segment_list.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/seed.h"
#include "tests/vclock/cells.h"

TEST_SUITE("segment_list") {
    using namespace weir;
    using namespace weir::testing;
    constexpr uint64_t kLast = ~uint64_t{0};

    TEST_CASE("an empty list holds nothing") {
        const SegmentList none;
        CHECK(none.count() == 0);
        CHECK(none.find(0) == SegmentList::kNone);
        CHECK(none.find(kLast) == SegmentList::kNone);
        CHECK(none.run_of({0, kLast}).empty());
        CHECK_FALSE(none.covers({0, 0}));
        SegmentMarks marks;
        marks.reset(none);
        CHECK(marks.touched().runs().empty());
    }

    TEST_CASE("segments are found at both of their ends, at the ends of the ring too") {
        const SegmentList held(7, {{kLast - 4, kLast}, {10, 19}, {0, 4}, {20, 20}});
        CHECK(held.generation() == 7);
        CHECK(held.find(0) == 0);
        CHECK(held.find(4) == 0);
        CHECK(held.find(5) == SegmentList::kNone);
        CHECK(held.find(19) == 1);
        CHECK(held.find(20) == 2);
        CHECK(held.find(21) == SegmentList::kNone);
        CHECK(held.find(kLast) == 3);
        CHECK(held.covers({10, 20}));
        CHECK_FALSE(held.covers({9, 20}));
        CHECK_FALSE(held.covers({0, kLast}));
        CHECK_FALSE(held.covers({12, 11}));
        CHECK(held.reach(SegmentRun{0, 1}) == PositionRange{0, 9});
        CHECK(held.reach(SegmentRun{2, 3}) == PositionRange{20, kLast - 5});
        CHECK(held.reach(held.all()) == PositionRange{});
        CHECK(held.reach(PositionRange{12, 20}) == PositionRange{12, kLast - 5});
        const SegmentList later(8, {{5, 6}});
        CHECK(later.reach(PositionRange{5, 5}) == PositionRange{0, 5});
        CHECK(later.reach(PositionRange{6, 6}) == PositionRange{6, kLast});
    }

    TEST_CASE("random lists: find, run_of, covers and reach agree with a look at every cell") {
        WEIR_TEST_SEED(seed, 81);
        Random random(seed);
        for (int round = 0; round < 500; ++round) {
            const SegmentList held = random_list(random, 1, random.uniform());
            const auto index_of = [&](uint32_t cell) {
                for (uint32_t i = 0; i < held.count(); ++i) {
                    if (held.segments()[i].contains(cells(cell, cell + 1).first)) return i;
                }
                return SegmentList::kNone;
            };
            uint64_t next = 0;
            for (uint32_t i = 0; i < held.count(); ++i) {
                const PositionRange reach = held.reach(SegmentRun{i, i + 1});
                CHECK(reach.first == next);
                next = reach.last + 1;
            }
            CHECK(next == 0);
            for (uint32_t begin = 0; begin < kCells; ++begin) {
                CHECK(held.find(cells(begin, begin + 1).first) == index_of(begin));
                CHECK(held.find(cells(begin, begin + 1).last) == index_of(begin));
                SegmentRun run{held.count(), 0};
                bool covered = true;
                for (uint32_t end = begin + 1; end <= kCells; ++end) {
                    if (const uint32_t i = index_of(end - 1); i != SegmentList::kNone) {
                        run = {std::min(run.begin, i), i + 1};
                    } else {
                        covered = false;
                    }
                    const SegmentRun found = held.run_of(cells(begin, end));
                    CHECK(found.empty() == run.empty());
                    if (!run.empty()) CHECK(found == run);
                    CHECK(held.covers(cells(begin, end)) == covered);
                }
            }
        }
    }

    TEST_CASE("marks become the longest runs, in any order and at every size") {
        WEIR_TEST_SEED(seed, 82);
        Random random(seed);
        SegmentMarks marks;
        for (uint32_t count = 1; count < 200; ++count) {
            std::vector<PositionRange> segments;
            for (uint64_t i = 0; i < count; ++i)
                segments.push_back({i * 10, i * 10 + 4});
            const SegmentList held(count, segments);
            std::vector<bool> wanted(count);
            marks.reset(held);
            const double share = random.uniform() * 1.2;
            for (uint32_t i = count; i-- > 0;) {
                wanted[i] = random.uniform() < share;
                if (wanted[i]) marks.mark(i);
                if (wanted[i]) marks.mark(i);
            }
            CHECK(marks.has_all() == (std::ranges::count(wanted, false) == 0));
            const TouchedSegments& touched = marks.touched();
            CHECK(touched.generation() == count);
            std::vector<bool> got(count);
            uint32_t before = 0;
            for (const SegmentRun run : touched.runs()) {
                CHECK_FALSE(run.empty());
                CHECK((run.begin > before || run.begin == 0));
                before = run.end;
                REQUIRE(run.end <= count);
                for (uint32_t i = run.begin; i < run.end; ++i)
                    got[i] = true;
            }
            CHECK(got == wanted);
        }
    }
}
