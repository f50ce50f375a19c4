// SPDX-License-Identifier: Apache-2.0
#include "lib/base/secret_seed.h"

#include <sys/random.h>

#include "lib/base/check.h"

namespace weir {

uint64_t secret_seed() {
    uint64_t seed = 0;
    WEIR_CHECK(getrandom(&seed, sizeof(seed), 0) == static_cast<ssize_t>(sizeof(seed)));
    return seed;
}

}  // namespace weir
