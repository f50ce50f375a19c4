// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HistoryFilters: the filters that calls of a history go through, and what of them travels.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/random.h"
#include "lib/filter/bitmap.h"
#include "lib/filter/filters.h"
#include "lib/filter/select/held_back.h"
#include "lib/filter/select/selector.h"

namespace weir::test {

/// Which keys travel in a call with such a selector: none of them, or two thirds.
struct KeyChoice {
    uint32_t number = 0;
    bool holds = false;  ///< what does not travel; else it is dropped

    [[nodiscard]] bool travels(uint64_t key) const noexcept {
        return number != 0 && mix64(key * 31 + number) % 3 != 0;
    }
};

/// Decides by the key alone, so that the judge knows what it has decided.
class KeySelector final : public Selector, public SelectorFactory {
public:
    explicit KeySelector(const KeyChoice& choice) : choice_(choice) {}

    [[nodiscard]] Result<std::unique_ptr<Selector>> make(const RowKind& /*rows*/,
                                                         const Clock& /*clock*/,
                                                         uint64_t /*seed*/) const override {
        return std::unique_ptr<Selector>(std::make_unique<KeySelector>(choice_));
    }

    [[nodiscard]] Status check(const RowKind& /*rows*/) const override { return {}; }

    [[nodiscard]] bool holds_back() const noexcept override { return choice_.holds; }

    [[nodiscard]] Status select(const RowKind& rows, const PushedRows& push, HeldBack& held,
                                Selection& selection) override {
        reset_bits(selection.kept, push.keys.size());
        for (size_t i = 0; i < push.keys.size(); ++i) {
            if (choice_.travels(push.keys[i])) set_bit(selection.kept, i);
        }
        if (!choice_.holds) {
            selection.keep_of(push.values, rows.row_bytes());
            return {};
        }
        held.merge(push.keys, push.values, merged_);
        held.settle(push.keys, merged_.slots, merged_.values, selection.kept);
        selection.keep_of(merged_.values, rows.row_bytes());
        return {};
    }

private:
    KeyChoice choice_;
    MergedRows merged_;
};

class HistoryFilters {
public:
    explicit HistoryFilters(uint64_t seed) : random_(seed) {
        for (const char* text :
             {"none", "zeros", "compress", "integers", "zeros,compress", "zeros,integers,compress",
              "table-codec", "zeros,table-codec,compress", "auto"})
            lossless_.push_back(*Filters::parse(text));
        for (uint32_t number = 0; number < kChoices; ++number) {
            for (const bool holds : {false, true})
                choices_.push_back({number, holds});
        }
        for (const KeyChoice& choice : choices_) {
            const auto own = std::make_shared<KeySelector>(choice);
            for (const Filters& some :
                 {Filters{filters::own("by key", own)},
                  Filters{filters::own("by key", own), filters::zeros(), filters::compress()}})
                selecting_.push_back(some);
        }
    }

    struct Drawn {
        const Filters* filters = nullptr;  ///< null: the call names none
        std::optional<KeyChoice> choice;   ///< nothing: all travels
    };

    /// For a push of which some keys may stay behind, and may be held.
    [[nodiscard]] Drawn draw(bool may_drop, bool may_hold) {
        const uint64_t drawn = random_.below(8);
        if (drawn < 3) return {};
        if (drawn < 6 || !may_drop) return {&lossless_[random_.below(lossless_.size())], {}};
        const size_t which = random_.below(selecting_.size());
        const KeyChoice choice = choices_[which / 2];
        if (choice.holds && !may_hold) return {};
        return {&selecting_[which], choice};
    }

    [[nodiscard]] Drawn draw_lossless() { return draw(false, false); }

private:
    static constexpr uint32_t kChoices = 4;

    Random random_;
    std::vector<Filters> lossless_;
    std::vector<KeyChoice> choices_;
    std::vector<Filters> selecting_;  ///< two for each choice
};

/// What a worker has pushed to a table, and is held at it: the bits by key.
using HeldBits = std::map<uint64_t, uint64_t>;

}  // namespace weir::test
