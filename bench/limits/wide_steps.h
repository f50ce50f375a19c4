// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WideSteps: what update rules do to wide rows, in the simplest code that a compiler turns into
/// vectors. Nothing of Weir's rules is in it.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::limits {

/// How a push changes a row. The numbers are used by the kinds that have them.
struct WideStep {
    enum class Kind {
        kAssign,
        kSgd,
        kMomentum,
        kNesterov,
        kAdagrad,
        kRowAdagrad,
        kRmsProp,
        kAdam,
        kAdamW,
        kLion,
        kFtrl,
        kProxL1,
        kCountMin
    };

    Kind kind = Kind::kAdagrad;
    float rate = 0.1F;
    float epsilon = 1e-8F;
    float momentum = 0.9F;       ///< also beta1
    float squares = 0.999F;      ///< beta2; the decay of rmsprop
    float weight_decay = 0.01F;  ///< of all kinds that have one
    float l1 = 0.01F;            ///< ftrl, whose beta is 1 and l2 0; prox_l1
    float first_trust = 1;       ///< prox_l1
    uint32_t depth = 4;          ///< count_min

    /// Floats of a row: values, then the state, plane after plane; last the step count of adam.
    [[nodiscard]] size_t row_floats(size_t width) const noexcept;

    /// Floats that a push brings for a row.
    [[nodiscard]] size_t pushed_floats(size_t width) const noexcept {
        return kind == Kind::kProxL1 ? 2 * width : width;
    }
};

/// Thread: any; take() changes nothing but rows.
class WideSteps {
public:
    WideSteps(const WideStep& step, size_t width);

    /// Makes a row of zeros one that was never pushed.
    void begin(float* row) const noexcept;
    /// Takes the step of each row, with what was pushed to it, one after the other.
    void take(float* const* rows, const float* pushed, size_t row_count) const noexcept;

private:
    WideStep step_;
    size_t width_;
    std::vector<float> scales_;  // of adam by the number of the step: rate / (1 - beta1^t)
    std::vector<float> roots_;   // 1 / sqrt(1 - beta2^t)
};

}  // namespace weir::limits
