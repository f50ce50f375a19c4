// SPDX-License-Identifier: Apache-2.0
#include "lib/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weir {

void check_failed(const char* condition, const char* file, int line) noexcept {
    std::fprintf(stderr, "weir: internal error: %s is false at %s:%d; please report this\n",
                 condition, file, line);
    std::abort();
}

}  // namespace weir
