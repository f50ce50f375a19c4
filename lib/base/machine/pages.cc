// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine/pages.h"

#include <algorithm>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

namespace weir {

void populate(std::span<std::byte> memory) noexcept {
#if defined(MADV_POPULATE_WRITE)
    static const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(memory.data());
    const uintptr_t first = (begin + page_bytes - 1) / page_bytes * page_bytes;
    const uintptr_t last = (begin + memory.size()) / page_bytes * page_bytes;
    if (first >= last) return;
    // A kernel before 5.14 does not know it, and one that has no memory says so when it is touched.
    (void)::madvise(memory.data() + (first - begin), last - first, MADV_POPULATE_WRITE);
#else
    (void)memory;
#endif
}

size_t populate_up_to(std::span<std::byte> memory, size_t end, size_t populated) noexcept {
    constexpr size_t kStep = 4 * kPageBytes;
    if (end <= populated || end > memory.size()) return populated;
    const size_t next = std::min(memory.size(), (end + kStep - 1) / kStep * kStep);
    populate(memory.subspan(populated, next - populated));
    return next;
}

}  // namespace weir
