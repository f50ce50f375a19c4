// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FirstFit: cuts stretches of memory into pieces, first fit by address. Its bookkeeping lies
/// outside of that memory, so that peers that write there cannot damage it.

#include <cstddef>
#include <map>
#include <span>

namespace weir::transport {

/// Thread: one at a time.
class FirstFit {
public:
    static constexpr size_t kUnitBytes = 64;  ///< pieces start and end on multiples of this

    /// Adds `stretch`, which is all zeros, to the memory that pieces are cut from. Its start and
    /// size are multiples of kUnitBytes.
    void add(std::span<std::byte> stretch);
    /// Adds `more`, which is all zeros, to the stretch that ends where it starts. Its size is a
    /// multiple of kUnitBytes.
    void extend(std::span<std::byte> more);
    /// The start of the free piece that ends at `end`; `end` itself if the memory before it is
    /// used.
    [[nodiscard]] std::byte* free_before(std::byte* end) const;
    /// Removes a stretch that is wholly free. Otherwise returns false and changes nothing.
    [[nodiscard]] bool remove(std::span<std::byte> stretch);

    struct Piece {
        std::byte* start = nullptr;  ///< nullptr: no free piece is large enough
        /// Bytes at its end that were never handed out before and so are still zero.
        size_t fresh_bytes = 0;
    };

    /// A piece of `size_bytes` at a multiple of `alignment` (a power of two).
    [[nodiscard]] Piece allocate(size_t size_bytes, size_t alignment);
    /// Whether allocate() would find a piece.
    [[nodiscard]] bool has_free(size_t size_bytes, size_t alignment) const;
    /// Gives back a piece, or a part of it that starts and ends on multiples of kUnitBytes.
    void deallocate(std::byte* piece, size_t size_bytes);

    /// Whether both addresses lie in one stretch, so that neighbouring pieces may be merged.
    [[nodiscard]] bool same_stretch(const std::byte* a, const std::byte* b) const;

    [[nodiscard]] size_t free_bytes() const noexcept { return free_bytes_; }

private:
    using Pieces = std::map<std::byte*, size_t>;
    using Stretches = std::map<const std::byte*, std::byte*>;

    [[nodiscard]] Pieces::const_iterator find(size_t size_bytes, size_t alignment) const;
    void take(Pieces::const_iterator from, std::byte* piece, size_t size_bytes);
    [[nodiscard]] size_t mark_used(const std::byte* piece, size_t size_bytes);
    [[nodiscard]] Stretches::const_iterator stretch_of(const std::byte* address) const;

    Stretches stretches_;  // start -> first byte that was never handed out
    Pieces free_;          // start -> size; neighbours are merged
    size_t free_bytes_ = 0;
};

}  // namespace weir::transport
