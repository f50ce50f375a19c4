// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SpareBlocks: keeps the last few blocks that were given back. Requests repeat their sizes;
/// reusing a block saves the pool's lock, a search in the pool, and zeroing.

#include <array>
#include <utility>

#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"

namespace weir {

/// A block that is reused has its old contents.
///
/// Thread: one
class SpareBlocks final : public Reclaimable {
public:
    explicit SpareBlocks(Memory& memory) noexcept : memory_(memory) {}

    /// A block of at least `bytes`: a kept one of at most about twice that size, or else a new
    /// one. Before it allocates a new one, it gives back all kept blocks if they are more than
    /// `spare_bytes_max`. Empty if the memory has none left.
    [[nodiscard]] Block take(size_t bytes, size_t spare_bytes_max) noexcept {
        for (Block& spare : spares_) {
            if (!spare || spare.bytes() < bytes || spare.bytes() / 2 > bytes) continue;
            bytes_ -= spare.bytes();
            return std::exchange(spare, Block());
        }
        if (bytes_ > spare_bytes_max) clear();
        return {memory_, bytes};
    }

    /// Keeps `block` in the place of the oldest one, which is given back.
    void put(Block block) noexcept {
        Block& place = spares_[next_];
        next_ = (next_ + 1) % spares_.size();
        bytes_ -= place.bytes();
        bytes_ += block.bytes();
        place = std::move(block);
    }

    void clear() noexcept {
        spares_ = {};
        bytes_ = 0;
    }

    /// Gives back all blocks, however few bytes are asked for: they are cheap to lose.
    size_t give_back(size_t) noexcept override {
        const size_t freed = bytes_;
        clear();
        return freed;
    }

    /// Size of all blocks that are kept.
    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

private:
    static constexpr size_t kBlocksMax = 8;

    Memory& memory_;
    std::array<Block, kBlocksMax> spares_;
    size_t next_ = 0;
    size_t bytes_ = 0;
};

}  // namespace weir
