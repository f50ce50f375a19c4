// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/narrow_rows.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/key/narrow_values.h"
#include "lib/store/row_copy.h"

namespace weir {

/// So few that they stay in the first cache, with their state and what is pushed to them.
static constexpr size_t kBlockValues = 2048;

NarrowRows::NarrowRows(const RuleKernels& kernels, const RowLayout& layout, Rounding rounding)
    : kernels_(kernels),
      layout_(layout),
      rounding_(rounding),
      block_rows_(std::max<size_t>(1, kBlockValues / layout.width)),
      kept_(block_rows_ * layout.value_bytes()),
      values_(block_rows_ * layout.width),
      state_(block_rows_ * layout.state_bytes / sizeof(float)) {
    WEIR_CHECK(layout.state_bytes % sizeof(float) == 0);
}

void NarrowRows::update(const RowTarget& target, std::span<const uint32_t> rows,
                        const std::byte* pushed, const RuleContext& context) {
    RuleContext of_block = context;
    for (size_t begin = 0; begin < rows.size(); begin += block_rows_) {
        const size_t count = std::min(block_rows_, rows.size() - begin);
        if (!context.keys.empty()) of_block.keys = context.keys.subspan(begin, count);
        update_block(target, rows.subspan(begin, count), pushed, of_block);
        pushed += count * layout_.pushed_bytes();
    }
}

void NarrowRows::update_block(const RowTarget& target, std::span<const uint32_t> rows,
                              const std::byte* pushed, const RuleContext& context) {
    const size_t value_bytes = layout_.value_bytes();
    const size_t state_bytes = layout_.state_bytes;
    const std::span values = std::span(values_).first(rows.size() * layout_.width);
    const std::span kept = std::span(kept_).first(rows.size() * value_bytes);
    const auto state = std::as_writable_bytes(std::span(state_));
    copy_rows(target.values, rows, value_bytes, nullptr, kept.data());
    if (state_bytes != 0) copy_rows(target.state, rows, state_bytes, nullptr, state.data());
    widen(layout_.value_type, kept, values.data());
    kernels_.run(std::as_writable_bytes(values).data(), state_bytes != 0 ? state.data() : nullptr,
                 pushed, rows.size(), layout_.width, context);
    if (rounding_ == Rounding::kNearest) {
        narrow_to_nearest(layout_.value_type, values, kept.data());
    } else {
        narrow_at_random(layout_.value_type, values, kept.data(), (*context.random)());
    }
    put_rows(target.values, rows, value_bytes, kept.data());
    if (state_bytes != 0) put_rows(target.state, rows, state_bytes, state.data());
}

}  // namespace weir
