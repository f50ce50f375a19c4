// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Cells: a ring of 64 equal cells, and random lists of segments that are whole cells.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "lib/base/random.h"
#include "lib/vclock/segment_list.h"

namespace weir::testing {

inline constexpr uint32_t kCells = 64;

/// The cells `begin` .. `end - 1`, begin < end; the last cell ends with the ring.
inline PositionRange cells(uint32_t begin, uint32_t end) {
    return {uint64_t{begin} << 58, (uint64_t{end} << 58) - 1};
}

inline uint32_t cell_of(uint64_t position) {
    return static_cast<uint32_t>(position >> 58);
}

/// Segments of one or more cells. About the share `held` of the cells is in some segment.
inline SegmentList random_list(Random& random, uint64_t generation, double held) {
    const double cut = random.uniform();
    std::vector<PositionRange> segments;
    for (uint32_t begin = 0; begin < kCells;) {
        uint32_t end = begin + 1;
        while (end < kCells && random.uniform() > cut)
            ++end;
        if (random.uniform() < held) segments.push_back(cells(begin, end));
        begin = end;
    }
    std::reverse(segments.begin(), segments.end());
    return {generation, segments};
}

/// A run of cells that lies in segments of the list without a gap. The list must not be empty.
inline PositionRange random_covered(Random& random, const SegmentList& held) {
    const auto any = held.segments()[random.below(held.count())];
    uint32_t begin =
        cell_of(any.first) +
        static_cast<uint32_t>(random.below(cell_of(any.last) - cell_of(any.first) + 1));
    uint32_t end = begin + 1;
    while (begin > 0 && held.covers(cells(begin - 1, end)) && random.below(3) > 0)
        --begin;
    while (end < kCells && held.covers(cells(begin, end + 1)) && random.below(3) > 0)
        ++end;
    return cells(begin, end);
}

/// The plain map that clocks are compared with: a time for each cell.
using CellTimes = std::array<uint64_t, kCells>;

}  // namespace weir::testing
