// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How much of the heap is allocated.

#include <cstddef>

#include <malloc.h>

#include "tests/sanitizers.h"

namespace weir::testing {

/// Without memory that is mapped by other means, as pools are. 0 where a sanitizer has the heap.
inline size_t heap_bytes() {
    if (kHasSanitizer) return 0;
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

}  // namespace weir::testing
