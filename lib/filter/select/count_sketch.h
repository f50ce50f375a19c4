// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CountSketch: counts how often keys came, in bounded memory, never too few. A CountMin sketch.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/result.h"

namespace weir {

/// `depth` lines of `width` counters. The estimate of a key is the least of its counters, one in
/// each line. The update is conservative: only counters below the new estimate grow. Counters stop
/// at `count_max`.
/// Source: Cormode, Muthukrishnan, 2005; Estan, Varghese, SIGCOMM 2002
///
/// Thread: one; does not allocate, but when it is made
class CountSketch {
public:
    static constexpr uint32_t kDepthMax = 16;
    static constexpr size_t kBytesMax = size_t{1} << 32;

    /// Errors: Errc::kInvalidArgument: no width, no depth or no count, or more than the limits
    [[nodiscard]] static Result<CountSketch> make(uint32_t width, uint32_t depth,
                                                  uint32_t count_max, uint64_t seed);

    /// Fetches what the next add() of the key looks at.
    void prefetch(uint64_t key) const noexcept {
        for (uint32_t line = 0; line < depth_; ++line)
            __builtin_prefetch(&counters_[place(key, line)], 1);
    }

    /// Counts the key once, and returns its estimate.
    uint32_t add(uint64_t key) noexcept;

    /// At least how often add() was called with the key, or `count_max`.
    [[nodiscard]] uint32_t estimate(uint64_t key) const noexcept;

    [[nodiscard]] size_t bytes() const noexcept { return counters_.size() * sizeof(uint32_t); }

private:
    CountSketch(uint32_t width, uint32_t depth, uint32_t count_max, uint64_t seed);

    [[nodiscard]] size_t place(uint64_t key, uint32_t line) const noexcept {
        const uint64_t hash = mix64(key ^ seeds_[line]) >> 32;
        return static_cast<size_t>(line) * width_ + static_cast<size_t>(hash * width_ >> 32);
    }

    uint32_t width_;
    uint32_t depth_;
    uint32_t count_max_;
    uint64_t seeds_[kDepthMax];  ///< of each line
    std::vector<uint32_t> counters_;
};

}  // namespace weir
