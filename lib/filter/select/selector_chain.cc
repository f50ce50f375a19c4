// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/selector_chain.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"

namespace weir {

SelectorChain::SelectorChain(std::vector<std::unique_ptr<Selector>> selectors)
    : selectors_(std::move(selectors)) {
    WEIR_CHECK(!selectors_.empty());
}

Status SelectorChain::check(const RowKind& rows) const {
    for (const auto& selector : selectors_) {
        WEIR_TRY(selector->check(rows));
        if (selector->rounds() && selector != selectors_.back())
            return Error(Errc::kInvalidArgument,
                         "a selector that rounds must be the last: those behind it would change "
                         "what it rounded");
    }
    return {};
}

bool SelectorChain::holds_back() const noexcept {
    return std::ranges::any_of(selectors_,
                               [](const auto& selector) { return selector->holds_back(); });
}

Status SelectorChain::select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                             Selection& selection) {
    WEIR_TRY(selectors_.front()->select(rows, push, held, selection));
    for (size_t s = 1; s < selectors_.size(); ++s) {
        std::swap(kept_, selection);
        keys_.clear();
        for_each_bit(kept_.kept, [&](size_t i) { keys_.push_back(push.keys[i]); });
        const PushedRows rest{CallKeys(std::span<const uint64_t>(keys_)), kept_.values};
        WEIR_TRY(selectors_[s]->select(rows, rest, held, selection));
        // Bits of what was kept so far become bits of all keys.
        size_t next = 0;
        std::span<std::byte> all(kept_.kept);
        for_each_bit(kept_.kept, [&](size_t i) {
            if (!has_bit(selection.kept, next++))
                all[i / 8] &= static_cast<std::byte>(~(1U << i % 8));
        });
        std::swap(kept_.kept, selection.kept);
    }
    return {};
}

}  // namespace weir
