// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// NarrowRows: runs a rule, which computes in float, on rows of narrow values.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/key/narrow_float.h"
#include "lib/store/row_layout.h"
#include "lib/store/rules/rule.h"

namespace weir {

/// Takes some rows at a time out of the table, side by side: their values as floats, and their state. The
/// rule runs on these, and they go back, the values rounded.
///
/// Thread: owning shard; does not block or allocate, but when it is made
class NarrowRows {
public:
    NarrowRows(const RuleKernels& kernels, const RowLayout& layout, Rounding rounding);

    /// As RowsKernel. `context` has the keys of all rows, if the rule wants them.
    void update(const RowTarget& target, std::span<const uint32_t> rows, const std::byte* pushed,
                const RuleContext& context);

private:
    void update_block(const RowTarget& target, std::span<const uint32_t> rows,
                      const std::byte* pushed, const RuleContext& context);

    RuleKernels kernels_;
    RowLayout layout_;
    Rounding rounding_;
    size_t block_rows_;
    std::vector<std::byte> kept_;  ///< the values as they are in the table
    std::vector<float> values_;
    std::vector<float> state_;  ///< of floats only for their alignment
};

}  // namespace weir
