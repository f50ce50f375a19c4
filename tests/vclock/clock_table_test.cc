// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/clock_table.h"

#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "tests/seed.h"
#include "tests/vclock/cells.h"

TEST_SUITE("clock_table") {
    using namespace weir;
    using namespace weir::testing;

    static const SegmentList kTwo(1, {{0, 9}, {20, 29}});
    constexpr SegmentRun kFirst{0, 1};

    TEST_CASE("a worker's clock is made once and stays where it is") {
        ClockTable table;
        CHECK(table.find(3) == nullptr);
        RangeClock* const clock = table.of(3);
        REQUIRE(clock != nullptr);
        for (uint32_t worker = 0; worker < 100; ++worker)
            CHECK(table.of(worker) != nullptr);
        CHECK(table.of(3) == clock);
        CHECK(table.find(3) == clock);
        CHECK(table.count() == 100);
    }

    TEST_CASE("clocks of workers that are gone are dropped, those of later workers are kept") {
        ClockTable table;
        for (const uint32_t worker : {0U, 1U, 2U, 5U, 6U})
            table.of(worker)->raise(kTwo, kFirst, 9);
        const std::vector<uint32_t> members{1, 3};
        table.drop_gone(members, 5);  // 5 and 6 are not given out yet, as far as this view knows
        CHECK(table.find(0) == nullptr);
        CHECK(table.find(1)->at(0) == 9);
        CHECK(table.find(2) == nullptr);
        CHECK(table.find(5)->at(0) == 9);
        CHECK(table.find(6)->at(0) == 9);
        CHECK(table.of(0) == nullptr);
        CHECK(table.of(4) == nullptr);
        CHECK(table.of(3) != nullptr);
        CHECK(table.of(~uint32_t{0}) != nullptr);
        table.drop_gone({}, 4);  // an older view
        CHECK(table.find(1) != nullptr);
        CHECK(table.is_gone(4));
        table.drop_gone({}, 6);
        CHECK(table.find(5) == nullptr);
        CHECK(table.find(6) != nullptr);
    }

    TEST_CASE("times of a worker that is gone are not taken") {
        ClockTable from;
        for (uint32_t worker = 0; worker < 3; ++worker)
            from.of(worker)->raise(kTwo, kFirst, worker + 1);
        ClockTable to;
        const std::vector<uint32_t> members{0};
        to.drop_gone(members, 2);
        REQUIRE(to.take(kTwo, from.part(kTwo, {0, 9})));
        CHECK(to.find(0)->at(0) == 1);
        CHECK(to.find(1) == nullptr);
        CHECK(to.find(2)->at(0) == 3);
    }

    TEST_CASE("times for a range that is not held are refused") {
        ClockTable from;
        from.of(0)->raise(kTwo, kTwo.all(), 4);
        const ClockTimes times = from.part(kTwo, {20, 29});
        const SegmentList other(1, {{0, 9}, {20, 25}});
        ClockTable to;
        CHECK_FALSE(to.take(other, times));
        CHECK(to.count() == 0);
    }

    TEST_CASE("a worker that a chunk does not list has time 0 there") {
        ClockTable to;
        to.of(1)->raise(kTwo, kTwo.all(), 4);
        REQUIRE(to.take(kTwo, {{0, 9}, {{2, {{0, 8}}}}}));
        CHECK(to.find(1)->at(0) == 0);
        CHECK(to.find(1)->at(20) == 4);
        CHECK(to.find(2)->at(0) == 8);
    }

    TEST_CASE("the bytes in use grow with clocks and entries, and go with them") {
        ClockTable table;
        CHECK(table.bytes() == 0);
        RangeClock* const clock = table.of(0);
        const size_t one = table.bytes();
        CHECK(one > sizeof(RangeClock));
        clock->raise(kTwo, kFirst, 1);
        CHECK(table.bytes() > one);
        table.drop_gone({}, 1);
        CHECK(table.bytes() == 0);
    }

    /// Sends a range from one table to another as bytes.
    static void move(const ClockTable& from, const SegmentList& held, PositionRange range,
                     ClockTable& to, const SegmentList& held_there) {
        ByteWriter writer;
        from.part(held, range).encode(writer);
        ByteReader reader(writer.bytes());
        const auto times = ClockTimes::decode(reader);
        REQUIRE(times.has_value());
        REQUIRE(reader.done());
        REQUIRE(to.take(held_there, *times));
    }

    TEST_CASE("random moves between two shards: every time arrives, in chunks of any size") {
        WEIR_TEST_SEED(seed, 86);
        Random random(seed);
        for (int round = 0; round < 300; ++round) {
            const SegmentList held = random_list(random, 1, 0.8);
            const SegmentList there = random_list(random, 1, 0.9);
            ClockTable from;
            ClockTable to;
            std::map<uint32_t, CellTimes> expected;
            for (uint64_t i = random.below(20); i-- > 0;) {
                const auto worker = static_cast<uint32_t>(random.below(6));
                const auto segment = static_cast<uint32_t>(random.below(held.count() + 1));
                if (segment < held.count())
                    from.of(worker)->raise(held, {segment, segment + 1}, i + 1);
                if (there.count() > 0) to.of(5 - worker)->raise(there, there.all(), i + 1);
            }
            for (uint32_t worker = 0; worker < 6; ++worker) {
                for (uint32_t c = 0; c < kCells; ++c) {
                    const RangeClock* const clock = to.find(worker);
                    const uint64_t position = cells(c, c + 1).first;
                    expected[worker][c] = clock == nullptr ? 0 : clock->at(position);
                }
            }
            for (int chunk = 0; chunk < 10 && held.count() > 0; ++chunk) {
                const PositionRange range = random_covered(random, held);
                if (!there.covers(range)) continue;
                move(from, held, range, to, there);
                for (uint32_t c = cell_of(range.first); c <= cell_of(range.last); ++c) {
                    for (uint32_t worker = 0; worker < 6; ++worker) {
                        const RangeClock* const clock = from.find(worker);
                        const uint64_t position = cells(c, c + 1).first;
                        expected[worker][c] = clock == nullptr ? 0 : clock->at(position);
                    }
                }
            }
            for (const auto& [worker, times] : expected) {
                const RangeClock* const clock = to.find(worker);
                for (uint32_t c = 0; c < kCells; ++c) {
                    if (!there.covers(cells(c, c + 1))) continue;
                    CHECK((clock == nullptr ? 0 : clock->at(cells(c, c + 1).last)) == times[c]);
                }
            }
        }
    }
}
