// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Significant: sends what has changed by more than delta since it was last sent, and holds the
/// rest.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/filter/select/held_back.h"
#include "lib/filter/select/key_slots.h"
#include "lib/filter/select/selector.h"

namespace weir {

/// An entry is sent if a value of its row, combined with what is held, is greater than delta in
/// size, or than delta times the greatest value in size that was last sent for the key. A key that
/// never was sent, or is not remembered, is sent if it has any value but zero. `delta` >= 0; with 0
/// all is sent but zeros.
class Significant final : public Selector {
public:
    struct Options {
        double delta = 0;
        bool is_relative = false;
        size_t remembered_keys_max = size_t{1} << 20;  ///< of relative ones, 56 bytes each
    };

    explicit Significant(const Options& options) : options_(options) {}

    /// Errors: Errc::kInvalidArgument: delta is negative or NaN; the table takes means
    [[nodiscard]] Status check(const RowKind& rows) const override;

    [[nodiscard]] bool holds_back() const noexcept override { return true; }

    [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                Selection& selection) override;

private:
    /// Sets the bits of those that travel. `merged_` has all rows then.
    void select_block(const RowKind& rows, const PushedRows& block, HeldBack& held,
                      std::span<std::byte> kept);
    [[nodiscard]] double last_sent(uint64_t key) const noexcept;
    void remember_sent(const CallKeys& keys, std::span<const std::byte> kept);

    Options options_;
    MergedRows merged_;
    std::vector<double> greatest_;
    KeySlots sent_slots_;       ///< of keys that were sent, if relative
    std::vector<double> sent_;  ///< by slot: the greatest value in size
};

}  // namespace weir
