// SPDX-License-Identifier: Apache-2.0
#include "lib/store/aggregate.h"

#include <algorithm>
#include <bit>

namespace weir {

Aggregate::Aggregate(Memory& memory, ValueType type, const RuleEntry& rule, uint32_t width)
    : combine_(combine_kernels(rule.combine, type)),
      values_per_row_(width * rule.pushed_values),
      accumulators_(memory, std::vector<std::byte>(values_per_row_ * size_of(type))) {}

Status Aggregate::reserve(size_t row_count) {
    if (row_count <= accumulators_.capacity()) return {};
    WEIR_TRY(accumulators_.reserve(row_count));
    make_bits();
    return {};
}

Status Aggregate::reserve_only(size_t row_count) {
    WEIR_TRY(accumulators_.reserve_only(row_count));
    make_bits();
    return {};
}

Status Aggregate::add_run(uint32_t first_row, size_t row_count, const std::byte* pushed) {
    WEIR_TRY(reserve(first_row + row_count));
    combine_.run({accumulators_.view(), touched_.data(), values_per_row_}, first_row, row_count,
                 pushed);
    added_rows_ += row_count;
    return {};
}

Status Aggregate::add_rows(std::span<const uint32_t> rows, const std::byte* pushed) {
    if (rows.empty()) return {};
    WEIR_TRY(reserve(size_t{*std::ranges::max_element(rows)} + 1));
    combine_.rows({accumulators_.view(), touched_.data(), values_per_row_}, rows, pushed);
    added_rows_ += rows.size();
    return {};
}

void Aggregate::apply(const RowTarget& target, const RuleRunner& rule) {
    const RowView accumulators = accumulators_.view();
    const uint32_t row_count = row_limit();
    for (uint32_t row = next_row(0, true); row < row_count;) {
        uint32_t end = next_row(row, false);
        end = std::min(end - row, accumulators.run(row)) + row;
        rule.run(target, row, end - row, accumulators.at(row));
        row = next_row(end, true);
    }
    clear();
}

size_t Aggregate::count_touched() noexcept {
    added_rows_ = 0;
    for (const uint64_t bits : touched_)
        added_rows_ += static_cast<size_t>(std::popcount(bits));
    return added_rows_;
}

uint32_t Aggregate::next_row(uint32_t from, bool touched) const noexcept {
    const uint64_t flip = touched ? 0 : ~uint64_t{0};
    size_t word = from / 64;
    uint64_t below = from % 64 == 0 ? 0 : (uint64_t{1} << (from % 64)) - 1;
    for (; word < touched_.size(); ++word, below = 0) {
        const uint64_t bits = (touched_[word] ^ flip) & ~below;
        if (bits != 0) return static_cast<uint32_t>(word * 64 + std::countr_zero(bits));
    }
    return row_limit();
}

}  // namespace weir
