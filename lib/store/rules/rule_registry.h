// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RuleRegistry: the update rules that a server knows, by name.

#include <array>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/store/rules/rule.h"
#include "lib/store/rules/rule_kernels.h"

namespace weir {

/// A rule as tables use it, independent of the struct that it was made from.
struct RuleEntry {
    std::string name;
    uint32_t state_values = 0;
    uint32_t pushed_values = 1;
    Combine combine = Combine::kSum;
    std::span<const RuleParameter> parameters{};
    bool names_parameters = false;
    const char* (*check)(const RuleParameters&) = nullptr;
    double (*initial_state)(const RuleParameters&) = nullptr;
    std::array<RuleKernels, kValueTypeCount> kernels{};
    uint32_t version = 0;  ///< that its author gives

    /// Of all that can be compared with the rule of this name in another process; not 0. Bodies cannot.
    [[nodiscard]] uint64_t hash(const RuleParameters& given) const;

    /// Errors: Errc::kInvalidArgument, naming rule, parameter and value
    [[nodiscard]] Status check_parameters(const RuleParameters& given) const;

    [[nodiscard]] bool supports(ValueType type) const noexcept {
        return is_valid(type) && kernels[static_cast<size_t>(type)].run != nullptr;
    }

    [[nodiscard]] const RuleKernels& kernels_for(ValueType type) const noexcept {
        return kernels[static_cast<size_t>(type)];
    }
};

/// Entries never move.
///
/// Thread: one while rules are registered; then any number of readers
class RuleRegistry {
public:
    /// A registry with the built-in rules.
    [[nodiscard]] static RuleRegistry with_builtin_rules();

    /// Errors: Errc::kAlreadyExists; kInvalidArgument for a name with control characters, or without any
    template <UpdateRule R>
    [[nodiscard]] Status register_rule(std::string_view name) {
        RuleEntry entry{.name = std::string(name),
                        .state_values = R::kStateValues,
                        .pushed_values = R::kPushedValues,
                        .combine = R::kCombine,
                        .check = &R::check,
                        .initial_state = &R::initial_state};
        if constexpr (HasVersion<R>) entry.version = R::kVersion;
        if constexpr (NamesParameters<R>) {
            entry.parameters = R::kParameters;
            entry.names_parameters = true;
        }
        for (size_t i = 0; i < kValueTypeCount; ++i) {
            entry.kernels[i] = with_value_type(static_cast<ValueType>(i),
                                               []<class T>() { return kernels::make<R, T>(); });
        }
        return add(entry);
    }

    /// Errors: Errc::kNotFound, listing the names that are registered
    [[nodiscard]] Result<const RuleEntry*> find(std::string_view name) const;

private:
    [[nodiscard]] Status add(const RuleEntry& entry);
    std::map<std::string, RuleEntry, std::less<>> entries_;
};

}  // namespace weir
