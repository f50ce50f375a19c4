// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FirstFit: cuts stretches of memory into pieces, first fit by address. Its books are kept
/// outside, so that a peer who writes where it should not cannot damage them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace weir::transport {

/// Thread: one at a time.
class FirstFit {
public:
    static constexpr size_t kUnitBytes = 64;  ///< pieces start and end on multiples of this

    /// From now on pieces of `stretch`, which is all zeros, are handed out too. Its start and size
    /// are multiples of kUnitBytes.
    void add(std::span<std::byte> stretch);
    /// The same for `more`, all zeros, which lies behind a stretch and belongs to it from now on.
    /// Its size is a multiple of kUnitBytes.
    void extend(std::span<std::byte> more);
    /// Where the free piece starts that ends at `end`; `end` itself if what lies there is used.
    [[nodiscard]] std::byte* free_before(std::byte* end) const;
    /// Takes back a stretch that is wholly free; false, and nothing happens, if it is not.
    [[nodiscard]] bool remove(std::span<std::byte> stretch);

    struct Piece {
        std::byte* start = nullptr;  ///< nullptr: there is no such piece
        /// How many bytes at its end were never handed out before, so that they are still zero.
        size_t fresh_bytes = 0;
    };

    /// A piece of `size_bytes` at a multiple of `alignment` (a power of two).
    [[nodiscard]] Piece allocate(size_t size_bytes, size_t alignment);
    /// Gives back a piece, or a part of it that starts and ends on multiples of kUnitBytes.
    void deallocate(std::byte* piece, size_t size_bytes);

    /// Whether both lie in one stretch, so that pieces there may be seen as one.
    [[nodiscard]] bool same_stretch(const std::byte* a, const std::byte* b) const;

    [[nodiscard]] size_t free_bytes() const noexcept { return free_bytes_; }

private:
    using Pieces = std::map<std::byte*, size_t>;
    using Stretches = std::map<const std::byte*, std::byte*>;

    void take(Pieces::iterator free, std::byte* piece, size_t size_bytes);
    [[nodiscard]] size_t mark_used(const std::byte* piece, size_t size_bytes);
    [[nodiscard]] Stretches::const_iterator stretch_of(const std::byte* address) const;

    Stretches stretches_;  // by start; where the part begins that was never handed out
    Pieces free_;          // by start; neighbours are merged
    size_t free_bytes_ = 0;
};

}  // namespace weir::transport
