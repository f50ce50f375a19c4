// SPDX-License-Identifier: Apache-2.0
#include "lib/store/memory_with_caches.h"

#include <algorithm>

namespace weir {

std::byte* MemoryWithCaches::allocate(size_t bytes, size_t alignment) noexcept {
    std::byte* memory = memory_.allocate(bytes, alignment);
    // Freed memory may lie in pieces that are too small. Then free twice as much, to need few
    // tries: in each of them a pool attempts to grow.
    size_t wanted = std::max<size_t>(bytes, 1);
    while (memory == nullptr && give_back(wanted) > 0) {
        memory = memory_.allocate(bytes, alignment);
        if (wanted <= ~size_t{0} / 2) wanted *= 2;
    }
    return memory;
}

size_t MemoryWithCaches::give_back(size_t bytes) noexcept {
    size_t freed = 0;
    for (Reclaimable* const cache : caches_) {
        if (freed >= bytes) break;
        freed += cache->give_back(bytes - freed);
    }
    return freed;
}

}  // namespace weir
