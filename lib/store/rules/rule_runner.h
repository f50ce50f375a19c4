// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RuleRunner: a table's update rule, ready to run on rows.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/key/value_type.h"
#include "lib/store/rules/rule_registry.h"

namespace weir {

/// Thread: owning shard; does not block or allocate.
class RuleRunner {
public:
    RuleRunner(const RuleEntry& rule, ValueType type, const RuleParameters& parameters)
        : kernels_(rule.kernels_for(type)),
          parameters_(parameters),
          value_bytes_(size_of(type)),
          state_values_(rule.state_values),
          pushed_values_(rule.pushed_values) {}

    /// Updates the rows from first_row on; their pushed values lie side by side.
    void run(const RowTarget& target, uint32_t first_row, size_t row_count,
             const std::byte* pushed) const;

    /// Updates any rows; `pushed` has the same order. Runs of consecutive rows are updated at
    /// once.
    void rows(const RowTarget& target, std::span<const uint32_t> rows,
              const std::byte* pushed) const;

private:
    /// True if the values of neighbouring rows, and their state, lie side by side.
    [[nodiscard]] bool is_flat(const RowTarget& target) const noexcept {
        return target.values.stride_bytes == target.width * value_bytes_ &&
               (state_values_ == 0 ||
                target.state.stride_bytes == target.width * value_bytes_ * state_values_);
    }

    [[nodiscard]] size_t pushed_row_bytes(const RowTarget& target) const noexcept {
        return target.width * value_bytes_ * pushed_values_;
    }

    RuleKernels kernels_;
    RuleParameters parameters_;
    size_t value_bytes_;
    uint32_t state_values_;
    uint32_t pushed_values_;
};

}  // namespace weir
