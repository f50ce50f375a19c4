// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SelectorChain: several selectors of a table, each of which gets what the one before it has kept.

#include <memory>
#include <vector>

#include "lib/filter/select/selector.h"

namespace weir {

/// Rounding comes last: what selectors behind it would do with its values is not what was rounded.
class SelectorChain final : public Selector {
public:
    /// At least one.
    explicit SelectorChain(std::vector<std::unique_ptr<Selector>> selectors);

    /// Errors: the first of a selector; Errc::kInvalidArgument: one that rounds is not the last
    [[nodiscard]] Status check(const RowKind& rows) const override;

    [[nodiscard]] bool holds_back() const noexcept override;

    [[nodiscard]] bool rounds() const noexcept override { return selectors_.back()->rounds(); }

    /// Errors: those of a selector; what those before it have kept is lost, as with any call that
    ///         fails
    [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                Selection& selection) override;

private:
    std::vector<std::unique_ptr<Selector>> selectors_;
    Selection kept_;              ///< by the selectors so far, of the keys of the call
    std::vector<uint64_t> keys_;  ///< those kept
};

}  // namespace weir
