// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SpareBlocks: the last few pieces of memory that were given back. Requests of the same sizes come
/// again and again, and so need no lock of the pool, no search in it and no zeroing.

#include <array>
#include <utility>

#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"

namespace weir {

/// Thread: one. What is in the blocks is left over from before.
class SpareBlocks final : public Reclaimable {
public:
    explicit SpareBlocks(Memory& memory) noexcept : memory_(memory) {}

    /// At least `bytes`, at most twice as many if it is one of the last few; empty if the memory
    /// has none left. Before memory is asked for a new one, all are given back if they are more
    /// than `spare_bytes_max`.
    [[nodiscard]] Block take(size_t bytes, size_t spare_bytes_max) noexcept {
        for (Block& spare : spares_) {
            if (!spare || spare.bytes() < bytes || spare.bytes() / 2 > bytes) continue;
            bytes_ -= spare.bytes();
            return std::exchange(spare, Block());
        }
        if (bytes_ > spare_bytes_max) clear();
        return {memory_, bytes};
    }

    /// Keeps the block in the place of the one that has been here longest.
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

    /// Gives all: they are cheap to lose.
    size_t give_back(size_t) noexcept override {
        const size_t freed = bytes_;
        clear();
        return freed;
    }

    /// Of all blocks that are kept here.
    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

private:
    static constexpr size_t kBlocksMax = 8;

    Memory& memory_;
    std::array<Block, kBlocksMax> spares_;
    size_t next_ = 0;
    size_t bytes_ = 0;
};

}  // namespace weir
