// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Numbers by which processes and links of a job are told apart, without asking anybody.

#include <cstdint>
#include <cstring>

#include "lib/bootstrap/secret.h"

namespace weir {

/// A random number that is not 0: nobody else has it.
[[nodiscard]] inline uint64_t make_unique_number() {
    const transport::Secret bytes = make_secret();
    uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number | 1;
}

}  // namespace weir
