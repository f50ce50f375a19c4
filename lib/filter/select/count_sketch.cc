// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/count_sketch.h"

#include <algorithm>

namespace weir {

CountSketch::CountSketch(uint32_t width, uint32_t depth, uint32_t count_max, uint64_t seed)
    : width_(width),
      depth_(depth),
      count_max_(count_max),
      counters_(static_cast<size_t>(width) * depth) {
    Random seeds(seed);
    for (uint64_t& line : seeds_)
        line = seeds();
}

Result<CountSketch> CountSketch::make(uint32_t width, uint32_t depth, uint32_t count_max,
                                      uint64_t seed) {
    if (width == 0 || depth == 0 || count_max == 0)
        return Error(Errc::kInvalidArgument,
                     "a sketch needs a width, a depth and a greatest count of at least 1");
    if (depth > kDepthMax || static_cast<size_t>(width) * depth > kBytesMax / sizeof(uint32_t))
        return Error(Errc::kInvalidArgument,
                     "a sketch has at most 16 lines and 4 GiB: take a smaller width or depth");
    return CountSketch(width, depth, count_max, seed);
}

uint32_t CountSketch::add(uint64_t key) noexcept {
    size_t places[kDepthMax];
    uint32_t least = ~uint32_t{0};
    for (uint32_t line = 0; line < depth_; ++line) {
        places[line] = place(key, line);
        least = std::min(least, counters_[places[line]]);
    }
    const uint32_t next = std::min(count_max_, least + 1);
    for (uint32_t line = 0; line < depth_; ++line)
        counters_[places[line]] = std::max(counters_[places[line]], next);
    return next;
}

uint32_t CountSketch::estimate(uint64_t key) const noexcept {
    uint32_t least = ~uint32_t{0};
    for (uint32_t line = 0; line < depth_; ++line)
        least = std::min(least, counters_[place(key, line)]);
    return least;
}

}  // namespace weir
