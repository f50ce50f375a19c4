// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Round: sends floats that take few bits, rounded stochastically, and may add what rounding took to
/// the next push.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/filter/select/held_back.h"
#include "lib/filter/select/round_form.h"
#include "lib/filter/select/selector.h"

namespace weir {

/// Keeps all entries. With `adds_rests`, the rest of an entry (exact value less what was sent) is
/// held, and part of the next push of its key or of a flush. Without, and where there is no room
/// for rests, the mean over the draws is right all the same.
class Round final : public Selector {
public:
    struct Options {
        RoundForm form = RoundForm::kFixed8;
        bool adds_rests = false;
        uint64_t seed = 1;  ///< of this worker's own, or the errors of workers do not cancel
    };

    explicit Round(const Options& options) : options_(options) {}

    /// Errors: Errc::kTypeMismatch: not pushed as float32; Errc::kInvalidArgument: rests are
    ///         wanted, and pushes are not summed
    [[nodiscard]] Status check(const RowKind& rows) const override;

    [[nodiscard]] bool holds_back() const noexcept override { return options_.adds_rests; }

    [[nodiscard]] bool rounds() const noexcept override { return true; }

    /// Errors: Errc::kOutOfRange: a value, with its rest, is too great for the form
    [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                Selection& selection) override;

private:
    void hold_rests(const PushedRows& push, HeldBack& held, const Selection& selection);

    Options options_;
    uint64_t calls_ = 0;
    MergedRows merged_;
    std::vector<std::byte> unheld_;  ///< bits of rests for which there was no room
};

}  // namespace weir
