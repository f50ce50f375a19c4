// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule_runner.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <fmt/core.h>

#include "lib/store/row_copy.h"
#include "lib/store/rules/rule_registry.h"

namespace weir {
namespace {

uint64_t fresh_seed() {
    std::random_device device;
    return uint64_t{device()} << 32 ^ device();
}

}  // namespace

RuleRunner::RuleRunner(const RuleEntry& rule, const RowLayout& layout, Rounding rounding,
                       const RuleParameters& parameters, std::string_view table,
                       std::optional<uint64_t> seed)
    : name_(fmt::format("rule '{}' of table '{}'", rule.name, table)),
      kernels_(rule.kernels_for(layout.value_type)),
      layout_(layout),
      wants_keys_(rule.wants_keys),
      narrow_(is_narrow(layout.value_type)
                  ? std::make_unique<NarrowRows>(kernels_, layout, rounding)
                  : nullptr),
      random_(std::make_unique<Random>(seed ? *seed : fresh_seed())),
      context_{.parameters = parameters,
               .arguments = rule.default_arguments(parameters),
               .random = random_.get(),
               .code = rule.code,
               .state_bytes = layout.state_bytes} {}

void RuleRunner::run(const RowTarget& target, uint32_t first_row, size_t row_count,
                     const std::byte* pushed, const RuleArguments* arguments) const {
    with(arguments, [&](const RuleContext& context) {
        run_in(context, target, first_row, row_count, pushed);
    });
}

void RuleRunner::rows(const RowTarget& target, std::span<const uint32_t> rows,
                      const std::byte* pushed, const RuleArguments* arguments) const {
    with(arguments, [&](const RuleContext& context) { rows_in(context, target, rows, pushed); });
}

void RuleRunner::run_in(const RuleContext& context, const RowTarget& target, uint32_t first_row,
                        size_t row_count, const std::byte* pushed) const {
    const bool flat = is_flat(target) && !wants_keys_;
    while (row_count > 0) {
        size_t some = 0;
        if (flat) {
            some = std::min<size_t>(row_count, target.values.run(first_row));
            if (layout_.state_bytes != 0)
                some = std::min<size_t>(some, target.state.run(first_row));
            kernels_.run(target.values.at(first_row),
                         layout_.state_bytes != 0 ? target.state.at(first_row) : nullptr, pushed,
                         some, layout_.width, context);
        } else {
            constexpr size_t kChunk = 256;
            uint32_t rows[kChunk];
            some = std::min(row_count, kChunk);
            std::iota(rows, rows + some, first_row);
            const std::span all(rows, some);
            wants_keys_ ? rows_with_keys(context, target, all, pushed)
                        : update(context, target, all, pushed);
        }
        first_row += static_cast<uint32_t>(some);
        row_count -= some;
        pushed += some * layout_.pushed_bytes();
    }
}

void RuleRunner::rows_in(const RuleContext& context, const RowTarget& target,
                         std::span<const uint32_t> rows, const std::byte* pushed) const {
    constexpr size_t kChunk = 4096;     // rows until the next search for a run
    constexpr size_t kRunRowsMin = 32;  // a shorter run is not worth the call
    if (wants_keys_) return rows_with_keys(context, target, rows, pushed);
    const bool flat = is_flat(target);
    while (!rows.empty()) {
        size_t some = 0;
        const bool maybe_run = flat && rows.size() >= kRunRowsMin &&
                               rows[kRunRowsMin - 1] == rows[0] + kRunRowsMin - 1;
        if (maybe_run) some = consecutive_rows(rows);
        if (some >= kRunRowsMin) {
            run_in(context, target, rows[0], some, pushed);
        } else {
            some = std::min(rows.size(), kChunk);
            update(context, target, rows.first(some), pushed);
        }
        rows = rows.subspan(some);
        pushed += some * layout_.pushed_bytes();
    }
}

void RuleRunner::rows_with_keys(const RuleContext& context, const RowTarget& target,
                                std::span<const uint32_t> rows, const std::byte* pushed) const {
    constexpr size_t kChunk = 256;
    uint64_t keys[kChunk];
    uint64_t at = 0;
    RuleContext with_keys = context;
    with_keys.at = &at;
    try {
        while (!rows.empty()) {
            const size_t some = std::min(rows.size(), kChunk);
            target.keys.find(target.keys.store, rows.first(some), keys);
            with_keys.keys = std::span<const uint64_t>(keys, some);
            update(with_keys, target, rows.first(some), pushed);
            rows = rows.subspan(some);
            pushed += some * layout_.pushed_bytes();
        }
    } catch (...) {
        throw_named(&at);
    }
}

void RuleRunner::throw_named(const uint64_t* key) const {
    throw RuleThrew(fmt::format("{} threw{}: {}", name_,
                                key == nullptr ? "" : fmt::format(" at key {}", *key),
                                text_of_exception()));
}

}  // namespace weir
