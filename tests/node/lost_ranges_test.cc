// SPDX-License-Identifier: Apache-2.0
/// \file
/// How what is lost is named.

#include "lib/node/lost_ranges.h"

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/table_schemas.h"

namespace weir::testing {
namespace {

constexpr uint64_t kEighth = uint64_t{1} << 61;

/// Eighths of the ring.
PositionSet eighths(const std::vector<uint64_t>& numbers) {
    std::vector<PositionRange> ranges;
    ranges.reserve(numbers.size());
    for (const uint64_t number : numbers)
        ranges.push_back({number * kEighth, number * kEighth + (kEighth - 1)});
    return PositionSet(ranges);
}

}  // namespace

TEST_SUITE("lost_ranges") {
    TEST_CASE("of a dense table it is ranges of keys, and neighbours are one") {
        const std::vector tables{dense_table("w", 80)};
        CHECK(lost_ranges(eighths({3, 0, 1}), tables) == "keys 0 to 19, 30 to 39 of table 'w'");
        CHECK(lost_ranges(PositionSet::whole_ring(), tables) == "keys 0 to 79 of table 'w'");
    }

    TEST_CASE(
        "a single key is no range, and keys that are neighbours in a small table are one range") {
        const std::vector tables{dense_table("w", 4)};
        CHECK(lost_ranges(eighths({2}), tables) == "key 1 of table 'w'");
        CHECK(lost_ranges(eighths({0, 2}), tables) == "keys 0 to 1 of table 'w'");
    }

    TEST_CASE("of many ranges the first are named, and the others counted") {
        std::vector<PositionRange> ranges;
        for (uint64_t i = 0; i < 16; ++i)
            ranges.push_back({i << 60, (i << 60) + (kEighth / 4 - 1)});
        const std::vector tables{dense_table("w", 160)};
        CHECK(lost_ranges(PositionSet(ranges), tables) ==
              "keys 0 to 4, 10 to 14, 20 to 24, 30 to 34, and 12 more ranges, of table 'w'");
        ranges.resize(kLostRangesNamedMax + 1);
        CHECK(lost_ranges(PositionSet(ranges), tables).ends_with("and 1 more range, of table 'w'"));
    }

    TEST_CASE("all tables together name so many ranges, and a log names all") {
        std::vector tables{dense_table("a", 80), dense_table("b", 80), dense_table("c", 80),
                           sparse_table("s")};
        const PositionSet lost = eighths({0, 2, 4});
        CHECK(lost_ranges(lost, tables) ==
              "keys 0 to 9, 20 to 29, 40 to 49 of table 'a'; keys 0 to 9, and 2 more ranges, of "
              "table 'b'; keys of table 'c'; keys of sparse tables");
        const std::string all = lost_ranges(lost, tables, kAllLostNames);
        CHECK(all.find("keys 0 to 9, 20 to 29, 40 to 49 of table 'c'; the keys of sparse tables at "
                       "positions 0x0000000000000000 to ") != std::string::npos);
        CHECK(all.find("more") == std::string::npos);
    }

    TEST_CASE("of many tables the first are named, and the others counted") {
        std::vector<TableSchema> tables;
        for (size_t i = 0; i < kLostTablesNamedMax + 2; ++i)
            tables.push_back(dense_table(std::to_string(i), 8));
        CHECK(lost_ranges(eighths({0, 1}), tables) ==
              "keys 0 to 1 of table '0'; keys 0 to 1 of table '1'; keys 0 to 1 of table '2'; "
              "and keys of 2 more tables");
    }

    TEST_CASE("those that lose most keys come first") {
        const std::vector tables{dense_table("clocks", 8), dense_table("one", 1),
                                 dense_table("weights", 800), dense_table("sums", 80)};
        CHECK(lost_ranges(eighths({0, 2, 4}), tables) ==
              "keys 0 to 99, 200 to 299, 400 to 499 of table 'weights'; keys 0 to 9, and 2 more "
              "ranges, of table 'sums'; keys of table 'clocks'; and keys of 1 more table");
    }

    TEST_CASE("tables that have no key there are left out") {
        const std::vector tables{dense_table("small", 1), dense_table("w", 80)};
        CHECK(lost_ranges(eighths({7}), tables) == "keys 70 to 79 of table 'w'");
    }

    TEST_CASE("of sparse tables it is positions, also beside dense ones") {
        const std::string positions =
            "positions 0x0000000000000000 to 0x1fffffffffffffff of the ring";
        std::vector tables{sparse_table("s"), sparse_table("t")};
        CHECK(lost_ranges(eighths({0}), tables) == "the keys of sparse tables at " + positions);
        tables.push_back(dense_table("w", 8));
        CHECK(lost_ranges(eighths({0}), tables) ==
              "key 0 of table 'w'; the keys of sparse tables at " + positions);
        CHECK(lost_ranges(eighths({0}), {}) == positions);
    }
}

}  // namespace weir::testing
