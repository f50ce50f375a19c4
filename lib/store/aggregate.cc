// SPDX-License-Identifier: Apache-2.0
#include "lib/store/aggregate.h"

#include <algorithm>
#include <bit>

#include "lib/base/check.h"
#include "lib/store/rules/rule_registry.h"

namespace weir {

Aggregate::Aggregate(Memory& memory, Combine combine, const RowLayout& layout)
    : combine_(combine_kernels(combine, layout.pushed_type)),
      layout_(layout),
      accumulators_(memory, std::vector<std::byte>(layout.pushed_bytes())) {
    constexpr uint32_t kNone = 0;
    if (combine == Combine::kMean) counts_.emplace(memory, std::as_bytes(std::span(&kNone, 1)));
}

void Aggregate::combine_as(const CombineAs& as) {
    WEIR_CHECK(size_of(as.type) == size_of(layout_.pushed_type) && !counts_ &&
               as.combine != Combine::kMean);
    combine_ = combine_kernels(as.combine, as.type);
}

Status Aggregate::reserve(size_t row_count) {
    if (row_count <= capacity()) return {};
    WEIR_TRY(accumulators_.reserve(row_count));
    if (counts_) WEIR_TRY(counts_->reserve(row_count));
    make_bits();
    return {};
}

Status Aggregate::reserve_only(size_t row_count) {
    WEIR_TRY(accumulators_.reserve_only(row_count));
    if (counts_) WEIR_TRY(counts_->reserve_only(row_count));
    make_bits();
    return {};
}

Status Aggregate::add_run(uint32_t first_row, size_t row_count, const std::byte* pushed) {
    WEIR_TRY(reserve(first_row + row_count));
    for (size_t i = 0; counts_ && i < row_count; ++i)
        count(static_cast<uint32_t>(first_row + i));
    combine_.run({accumulators_.view(), touched_.data(), layout_.pushed_values}, first_row,
                 row_count, pushed);
    added_rows_ += row_count;
    return {};
}

Status Aggregate::add_rows(std::span<const uint32_t> rows, const std::byte* pushed) {
    if (rows.empty()) return {};
    WEIR_TRY(reserve(size_t{*std::ranges::max_element(rows)} + 1));
    if (counts_) std::ranges::for_each(rows, [&](uint32_t row) { count(row); });
    combine_.rows({accumulators_.view(), touched_.data(), layout_.pushed_values}, rows, pushed);
    added_rows_ += rows.size();
    return {};
}

/// Counts a push to the row, before it is combined.
void Aggregate::count(uint32_t row) noexcept {
    auto* const at = reinterpret_cast<uint32_t*>(counts_->view().at(row));
    *at = has(row) ? *at + 1 : 1;
}

/// Makes means of the sums of rows that lie side by side.
void Aggregate::divide(uint32_t first_row, size_t row_count) noexcept {
    with_value_type(layout_.pushed_type, [&]<class T>() {
        T* at = reinterpret_cast<T*>(accumulators_.view().at(first_row));
        for (size_t i = 0; i < row_count; ++i, at += layout_.pushed_values) {
            const auto row = static_cast<uint32_t>(first_row + i);
            const uint32_t pushes = *reinterpret_cast<uint32_t*>(counts_->view().at(row));
            if (pushes == 1) continue;
            for (size_t v = 0; v < layout_.pushed_values; ++v)
                at[v] /= static_cast<T>(pushes);
        }
    });
}

void Aggregate::apply(const RowTarget& target, const RuleRunner& rule,
                      const RuleArguments* arguments) {
    const RowView accumulators = accumulators_.view();
    const uint32_t row_count = row_limit();
    for (uint32_t row = next_row(0, true); row < row_count;) {
        uint32_t end = next_row(row, false);
        end = std::min(end - row, accumulators.run(row)) + row;
        if (counts_) divide(row, end - row);
        rule.run(target, row, end - row, accumulators.at(row), arguments);
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
