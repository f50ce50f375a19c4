// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RandomSkip: sends each entry with a probability, and so much greater that sums stay the same in
/// the mean.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/filter/select/selector.h"

namespace weir {

/// Keeps an entry with probability q, a multiple of 2^-32, and multiplies it by 1 / q. For tables
/// of floats that sum. What is held back of a key does not matter to it.
class RandomSkip final : public Selector {
public:
    /// `seed`: of this worker's own, or workers skip the same keys in the same calls. q is rounded
    /// to a multiple of 2^-32, but not to 0.
    RandomSkip(double q, uint64_t seed);

    /// Errors: Errc::kInvalidArgument: not 0 < q <= 1, or pushes are not summed;
    ///         Errc::kTypeMismatch: integers
    [[nodiscard]] Status check(const RowKind& rows) const override;

    [[nodiscard]] bool holds_back() const noexcept override { return false; }

    /// Errors: Errc::kNotFinite: a value is too great to be multiplied by 1 / q
    [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                Selection& selection) override;

    /// q as it is used.
    [[nodiscard]] double q() const noexcept { return static_cast<double>(below_) * 0x1p-32; }

private:
    bool is_valid_;
    uint64_t below_;  ///< of 2^32 equally likely draws, those that keep
    uint64_t seed_;
    uint64_t calls_ = 0;
};

}  // namespace weir
