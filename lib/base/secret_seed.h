// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// secret_seed: numbers that peers cannot predict.

#include <cstdint>

namespace weir {

/// Drawn by the operating system. Thread: any
[[nodiscard]] uint64_t secret_seed();

}  // namespace weir
