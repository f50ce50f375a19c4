// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// GivenKeys: the keys that a scan has given from one shard.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/store/memory.h"

namespace weir {

/// Keys come as fast as memory takes them. So they lie in blocks that never move, of registered
/// memory as far as there is some to spare: that is used again, whereas the first touch of a page of
/// the heap takes longer than the keys in it.
///
/// Thread: the client's
class GivenKeys {
public:
    /// `memory` must outlive this.
    explicit GivenKeys(Memory& memory) noexcept : memory_(&memory) {}

    void add(std::span<const uint64_t> keys);

    /// Appends them to `keys`, and forgets them.
    void move_to(std::vector<uint64_t>& keys);

private:
    struct Keys {
        Block block{};  ///< or, if there was no memory for it:
        std::vector<uint64_t> heap{};
        size_t room = 0;
        size_t count = 0;

        [[nodiscard]] uint64_t* data() noexcept {
            return block ? reinterpret_cast<uint64_t*>(block.data()) : heap.data();
        }
    };

    void add_block();

    Memory* memory_;
    std::vector<Keys> blocks_;  ///< all but the last one are full
    size_t count_ = 0;
};

}  // namespace weir
