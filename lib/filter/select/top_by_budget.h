// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TopByBudget: sends the greatest changes first, as many as a bandwidth allows, and holds the
/// rest.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/filter/select/byte_budget.h"
#include "lib/filter/select/held_back.h"
#include "lib/filter/select/selector.h"

namespace weir {

/// Of the rows of a call, combined with what is held of their keys, those with the greatest value
/// in size are sent. What cannot be held for lack of room is sent, too, and taken from what the
/// next calls may send. Source: the magnitude priority of Wei et al., SoCC 2015
class TopByBudget final : public Selector {
public:
    struct Options {
        uint64_t bytes_per_second = 0;
        uint64_t burst_bytes = 0;             ///< most that are saved up while nothing is sent
        size_t key_bytes = sizeof(uint64_t);  ///< that an entry takes beside its row
    };

    /// `clock` lives longer.
    TopByBudget(const Clock& clock, const Options& options)
        : options_(options), budget_(clock, options.bytes_per_second, options.burst_bytes) {}

    /// Errors: Errc::kInvalidArgument: the burst has no room for one row, so nothing would ever be
    ///         sent; the table takes means
    [[nodiscard]] Status check(const RowKind& rows) const override;

    [[nodiscard]] bool holds_back() const noexcept override { return true; }

    [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                Selection& selection) override;

private:
    /// Sets the bits of the `count` greatest. Of equal ones, the first in the call.
    void keep_greatest(size_t count, std::span<std::byte> kept);

    Options options_;
    ByteBudget budget_;
    MergedRows merged_;
    std::vector<double> greatest_;
    std::vector<double> partitioned_;
};

}  // namespace weir
