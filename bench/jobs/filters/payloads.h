// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Payloads: what `weir bench filters` pushes.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/jobs/filters/lr_gradients.h"

namespace weir::bench {

/// Pushes to the same keys.
struct Payloads {
    std::string changed;  ///< which of the values are not zero, for people
    uint32_t width = 1;   ///< values of a row
    std::vector<uint64_t> keys;
    std::vector<std::vector<float>> values;  ///< by push, a row for each key

    [[nodiscard]] uint64_t value_count() const noexcept { return keys.size() * width; }
};

/// A share of the rows, the same ones in each push, has any float32; all others are 0. One of about 16 keys
/// is among them.
[[nodiscard]] Payloads changed_payloads(double share, uint64_t row_count, uint64_t seed);

/// Each pass is a push.
[[nodiscard]] Payloads gradient_payloads(LrGradients gradients);

}  // namespace weir::bench
