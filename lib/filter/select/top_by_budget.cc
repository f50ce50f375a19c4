// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/top_by_budget.h"

#include <algorithm>
#include <functional>

#include "lib/filter/select/magnitudes.h"

namespace weir {

Status TopByBudget::check(const RowKind& rows) const {
    if (options_.bytes_per_second == 0 ||
        options_.burst_bytes < rows.row_bytes() + options_.key_bytes)
        return Error(
            Errc::kInvalidArgument,
            "top by budget: the bandwidth must be above 0, and the burst have room for one row");
    return HeldBack::check(rows);
}

void TopByBudget::keep_greatest(size_t count, std::span<std::byte> kept) {
    if (count == 0) return;
    partitioned_ = greatest_;
    const auto nth = partitioned_.begin() + static_cast<ptrdiff_t>(count) - 1;
    std::ranges::nth_element(partitioned_, nth, std::greater<>());
    const double least = *nth;
    const auto greater =
        std::count_if(partitioned_.begin(), nth, [=](double g) { return g > least; });
    size_t equal = count - static_cast<size_t>(greater);
    for (size_t i = 0; i < greatest_.size(); ++i) {
        const bool is_one_of_equal = greatest_[i] == least && equal > 0;
        equal -= static_cast<size_t>(is_one_of_equal);
        if (greatest_[i] > least || is_one_of_equal) set_bit(kept, i);
    }
}

Status TopByBudget::select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                           Selection& selection) {
    const size_t count = push.keys.size();
    const size_t entry_bytes = rows.row_bytes() + options_.key_bytes;
    held.merge(push.keys, push.values, merged_);
    greatest_.resize(count);
    magnitudes(rows, merged_.values.data(), greatest_);
    // Zeros in a sum say nothing: they are neither sent nor held.
    const auto candidates =
        rows.combine == Combine::kSum
            ? static_cast<size_t>(std::ranges::count_if(greatest_, [](double g) { return g > 0; }))
            : count;
    const size_t room = held.row_count_max() - (held.row_count() - merged_.held_count);
    const size_t forced = candidates > room ? candidates - room : 0;
    const auto affordable = static_cast<size_t>(
        std::min<uint64_t>(candidates, budget_.available_bytes() / entry_bytes));
    reset_bits(selection.kept, count);
    keep_greatest(std::max(forced, affordable), selection.kept);
    held.settle(push.keys, merged_.slots, merged_.values, selection.kept);
    selection.keep_of(merged_.values, rows.row_bytes());
    budget_.spend(selection.kept_count * entry_bytes);
    return {};
}

}  // namespace weir
