// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/filters/payloads.h"

#include <utility>

#include <fmt/core.h>

#include "lib/base/random.h"

namespace weir::bench {
namespace {

constexpr size_t kPushCount = 4;  ///< that differ
constexpr uint64_t kGapMax = 31;  ///< from a key to the next, 16 in the mean

}  // namespace

Payloads changed_payloads(double share, uint64_t row_count, uint64_t seed) {
    Random random(seed);
    Payloads payloads;
    payloads.changed = fmt::format("{:g} %", 100 * share);
    std::vector<bool> is_changed(row_count);
    uint64_t key = 0;
    for (uint64_t i = 0; i < row_count; ++i) {
        key += 1 + random.below(kGapMax);
        payloads.keys.push_back(key);
        is_changed[i] = random.uniform() < share;
    }
    payloads.values.resize(kPushCount, std::vector<float>(row_count));
    for (std::vector<float>& values : payloads.values) {
        for (uint64_t i = 0; i < row_count; ++i) {
            // Near 0 more than far from it, as gradients are.
            if (is_changed[i])
                values[i] = static_cast<float>((random.uniform() - 0.5) * random.uniform());
        }
    }
    return payloads;
}

Payloads gradient_payloads(LrGradients gradients) {
    return {"gradients", 2, std::move(gradients.keys), std::move(gradients.passes)};
}

}  // namespace weir::bench
