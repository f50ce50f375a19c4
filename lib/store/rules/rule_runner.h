// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RuleRunner: a table's update rule, ready to run on rows.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/random.h"
#include "lib/store/row_layout.h"
#include "lib/store/rules/narrow_rows.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rule_threw.h"

namespace weir {

/// `arguments`, where they are named: those of the push, or of the iteration; null: the table's.
///
/// Thread: owning shard; does not block or allocate.
/// Errors: throws RuleThrew if the rule's code throws anything; some rows are changed then
class RuleRunner {
public:
    /// `rounding`: of narrow values. `table`: its name, for errors. `seed`: of what the rule draws; none:
    /// of no other runner, in this process or another one.
    RuleRunner(const RuleEntry& rule, const RowLayout& layout, Rounding rounding,
               const RuleParameters& parameters, std::string_view table,
               std::optional<uint64_t> seed = {});

    /// Updates the rows from first_row on; their pushed values lie side by side.
    void run(const RowTarget& target, uint32_t first_row, size_t row_count, const std::byte* pushed,
             const RuleArguments* arguments = nullptr) const;

    /// Updates any rows; `pushed` has the same order. Runs of consecutive rows are updated at
    /// once.
    void rows(const RowTarget& target, std::span<const uint32_t> rows, const std::byte* pushed,
              const RuleArguments* arguments = nullptr) const;

    /// Also for other code that rounds the table's values.
    [[nodiscard]] Random& random() const noexcept { return *random_; }

    [[nodiscard]] const RuleArguments& default_arguments() const noexcept {
        return context_.arguments;
    }

private:
    /// True if the values of neighbouring rows, and their state, lie side by side, as a rule takes them.
    [[nodiscard]] bool is_flat(const RowTarget& target) const noexcept {
        return narrow_ == nullptr && target.values.stride_bytes == layout_.value_bytes() &&
               (layout_.state_bytes == 0 || target.state.stride_bytes == layout_.state_bytes);
    }

    /// Updates any rows, one after the other.
    void update(const RuleContext& context, const RowTarget& target, std::span<const uint32_t> rows,
                const std::byte* pushed) const {
        if (narrow_ != nullptr) return narrow_->update(target, rows, pushed, context);
        kernels_.rows(target, rows, pushed, context);
    }

    void run_in(const RuleContext& context, const RowTarget& target, uint32_t first_row,
                size_t row_count, const std::byte* pushed) const;
    void rows_in(const RuleContext& context, const RowTarget& target,
                 std::span<const uint32_t> rows, const std::byte* pushed) const;
    void rows_with_keys(const RuleContext& context, const RowTarget& target,
                        std::span<const uint32_t> rows, const std::byte* pushed) const;

    /// Calls use(context) with these arguments.
    template <class Use>
    void with(const RuleArguments* arguments, Use&& use) const {
        try {
            if (arguments == nullptr) [[likely]]
                return use(context_);
            RuleContext context = context_;
            context.arguments = *arguments;
            use(context);
        } catch (const RuleThrew&) {
            throw;
        } catch (...) {
            throw_named(nullptr);
        }
    }

    /// Throws a RuleThrew of the exception that is being handled. `key`: where; null: unknown.
    [[noreturn]] void throw_named(const uint64_t* key) const;

    std::string name_;  ///< for people
    RuleKernels kernels_;
    RowLayout layout_;
    bool wants_keys_;
    std::unique_ptr<NarrowRows> narrow_;  ///< if the values are
    std::unique_ptr<Random> random_;
    RuleContext context_;
};

}  // namespace weir
