// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PositionSlices: a set of ring positions in 32 bytes, rounded up to slices of the ring.

#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/key/position.h"
#include "lib/key/position_set.h"

namespace weir {

/// The ring is cut into 256 equal slices; a slice is in the set if any of its positions is. So
/// the set may seem larger than it is, but never smaller.
class PositionSlices {
public:
    PositionSlices() = default;

    explicit PositionSlices(const PositionSet& positions) noexcept {
        for (const PositionRange range : positions.ranges())
            add(range);
    }

    [[nodiscard]] static PositionSlices whole_ring() noexcept {
        PositionSlices all;
        all.words_.fill(~uint64_t{0});
        return all;
    }

    void add(uint64_t position) noexcept { add_slice(position >> 56); }

    void add(PositionRange range) noexcept {
        for (uint64_t slice = range.first >> 56; slice <= range.last >> 56; ++slice)
            add_slice(slice);
    }

    [[nodiscard]] bool intersects(const PositionSlices& other) const noexcept {
        uint64_t both = 0;
        for (size_t i = 0; i < words_.size(); ++i)
            both |= words_[i] & other.words_[i];
        return both != 0;
    }

    [[nodiscard]] bool is_whole_ring() const noexcept {
        return (words_[0] & words_[1] & words_[2] & words_[3]) == ~uint64_t{0};
    }

    /// The positions of the slice that has `position`.
    [[nodiscard]] static PositionRange slice_of(uint64_t position) noexcept {
        return {position >> 56 << 56, position | (~uint64_t{0} >> 8)};
    }

private:
    void add_slice(uint64_t slice) noexcept { words_[slice / 64] |= uint64_t{1} << (slice % 64); }

    std::array<uint64_t, 4> words_{};
};

}  // namespace weir
