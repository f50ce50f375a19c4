// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RuleRegistry: the update rules, functions and codecs that a process knows, by name.

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/store/functions/function_entry.h"
#include "lib/store/row_layout.h"
#include "lib/store/rules/codec_entry.h"
#include "lib/store/rules/named_number.h"
#include "lib/store/rules/rule.h"
#include "lib/store/rules/rule_kernels.h"

namespace weir {

/// A rule as tables use it, independent of the struct that it was made from.
struct RuleEntry {
    std::string name;
    uint32_t pushed_values = 1;  ///< for each value
    Combine combine = Combine::kSum;
    /// Chooses it for each iteration, in place of `combine`; null: that counts.
    CombineAs (*combine_as)(const RuleArguments&) = nullptr;
    bool by_row = false;
    bool wants_keys = false;
    bool begins_at_zero = false;  ///< its state alone makes the values: others would be lost
    Rounding rounding = Rounding::kNearest;  ///< of narrow values, unless a table says how
    std::span<const RuleParameter> parameters{};
    bool names_parameters = false;
    std::span<const RuleArgument> arguments{};
    std::function<const char*(const RuleParameters&, uint32_t width)> check{};
    std::function<double(const RuleParameters&)> initial_state{};  ///< empty: as fill_state says
    /// Of a row, whose bytes are zero before. Empty, too: they stay so.
    std::function<void(std::byte* state, ValueType, uint32_t width, const RuleParameters&)>
        fill_state{};
    std::array<RuleKernels, kComputedTypeCount> kernels{};
    /// What some values add to the objective, for the function "penalty"; null: nothing is known of that.
    using Penalty = double (*)(const std::byte* values, size_t count, const RuleParameters&);
    std::array<Penalty, kComputedTypeCount> penalty{};
    uint32_t version = 0;  ///< that its author gives
    /// Only what a worker must know of a rule that runs on servers: no code. Nothing can be compared.
    bool is_described = false;
    const void* code = nullptr;           ///< for its kernels; null: they need none
    std::shared_ptr<const void> owner{};  ///< of what the entry refers to; null: the program

    /// All of it that says what the rule is, and asks no code of the program.
    [[nodiscard]] std::string facts() const;

    /// Of all that can be compared, in a table of such rows, with the rule of this name in another
    /// process; not 0, but for one that is described, of which nothing can. Bodies cannot. It asks code of
    /// the program, which may throw.
    [[nodiscard]] uint64_t hash(const RuleParameters& given, ValueType type, uint32_t width) const;

    /// Errors: Errc::kInvalidArgument, naming rule, parameter and value
    [[nodiscard]] Status check_parameters(const RuleParameters& given, ValueType type,
                                          uint32_t width) const;

    /// What a push that brings none means, in a table with these parameters.
    [[nodiscard]] RuleArguments default_arguments(const RuleParameters& given) const;
    /// Arguments by name; those that are not named are as `otherwise` says.
    /// Errors: Errc::kInvalidArgument, naming rule, argument and value
    [[nodiscard]] Result<RuleArguments> named_arguments(std::span<const NamedNumber> given,
                                                        const RuleArguments& otherwise,
                                                        ValueType type) const;
    /// All arguments, in the order in which the rule names them. Errors: as named_arguments()
    [[nodiscard]] Result<RuleArguments> all_arguments(std::span<const double> given,
                                                      ValueType type) const;

    /// That an argument stands in for; null if it has none.
    [[nodiscard]] const RuleParameter* parameter_of(const RuleArgument& argument) const noexcept;

    /// Of a table of values of a type that the rule supports. `has_stamps`: its rows end with one.
    [[nodiscard]] RowLayout layout(ValueType type, uint32_t width,
                                   bool has_stamps = false) const noexcept {
        const auto of_rule = static_cast<uint32_t>(kernels_for(type).state_bytes(width));
        const uint32_t of_stamp =
            has_stamps ? static_cast<uint32_t>(size_of(computed_type(type))) : 0;
        return {.value_type = type,
                .width = width,
                .state_bytes = of_rule + of_stamp,
                .pushed_type = computed_type(type),
                .pushed_values = width * pushed_values,
                .stamp_bytes = of_stamp};
    }

    [[nodiscard]] bool supports(ValueType type) const noexcept {
        return is_valid(type) && kernels_for(type).run != nullptr;
    }

    [[nodiscard]] const RuleKernels& kernels_for(ValueType type) const noexcept {
        return kernels[static_cast<size_t>(computed_type(type))];
    }
};

/// Entries never move.
///
/// Thread: one while it is filled; then any number of readers
class RuleRegistry {
public:
    /// A registry with the built-in rules and functions.
    [[nodiscard]] static RuleRegistry with_builtin_rules();

    RuleRegistry() = default;

    /// One that has all rules of `behind`, which must outlive it, too, and takes more.
    explicit RuleRegistry(const RuleRegistry* behind) noexcept : behind_(behind) {}

    /// Errors: Errc::kAlreadyExists; kInvalidArgument for a name with control characters, or without any
    template <UpdateRule R>
    [[nodiscard]] Status register_rule(std::string_view name) {
        RuleEntry entry{.name = std::string(name),
                        .pushed_values = R::kPushedValues,
                        .combine = R::kCombine,
                        .by_row = RowRule<R>,
                        .wants_keys = WantsKeys<R>};
        if constexpr (RowRule<R>) {
            entry.check = &R::check;
        } else {
            static_assert(!WantsKeys<R>, "only a rule by row sees keys");
            entry.check = [](const RuleParameters& p, uint32_t) { return R::check(p); };
            entry.initial_state = &R::initial_state;
        }
        if constexpr (NamesArguments<R>) {
            static_assert(R::kArguments.size() <= RuleArguments{}.value.size());
            entry.arguments = R::kArguments;
        }
        if constexpr (CombinesByArguments<R>) entry.combine_as = &R::combine_as;
        if constexpr (HasVersion<R>) entry.version = R::kVersion;
        if constexpr (requires { R::kBeginsAtZero; }) entry.begins_at_zero = R::kBeginsAtZero;
        if constexpr (NamesParameters<R>) {
            entry.parameters = R::kParameters;
            entry.names_parameters = true;
        }
        if constexpr (requires { R::kRounding; }) entry.rounding = R::kRounding;
        for (size_t i = 0; i < kComputedTypeCount; ++i) {
            entry.kernels[i] = with_value_type(static_cast<ValueType>(i),
                                               []<class T>() { return kernels::make<R, T>(); });
            if constexpr (HasPenalty<R>) {
                entry.penalty[i] = with_value_type(
                    static_cast<ValueType>(i), []<class T>() { return &kernels::penalty<R, T>; });
            }
        }
        return add(entry);
    }

    /// A rule that is no struct. Errors: as register_rule()
    [[nodiscard]] Status add(const RuleEntry& entry);

    /// Errors: Errc::kNotFound, listing the names that are registered
    [[nodiscard]] Result<const RuleEntry*> find(std::string_view name) const;

    /// A codec for the values of tables that name it (TableOptions::codec). `version`: raise it with each
    /// change of what bodies are.
    /// Errors: Errc::kAlreadyExists; kInvalidArgument as make_codec()
    [[nodiscard]] Status register_codec(std::string_view name,
                                        std::shared_ptr<const ValueCodec> codec,
                                        uint32_t version = 0);

    /// Errors: as register_codec()
    [[nodiscard]] Status add(const CodecEntry& codec);

    /// Errors: Errc::kNotFound, listing the names that are registered
    [[nodiscard]] Result<const CodecEntry*> find_codec(std::string_view name) const;

    /// A function of servers, as lib/store/functions/function.h says.
    /// Errors: Errc::kAlreadyExists; kInvalidArgument as check_function()
    template <ServerFunction F>
    [[nodiscard]] Status register_function(std::string_view name) {
        return add(make_function<F>(name));
    }

    /// Errors: as register_function()
    [[nodiscard]] Status add(FunctionEntry function);

    /// Errors: Errc::kNotFound, listing the names that are registered
    [[nodiscard]] Result<const FunctionEntry*> find_function(std::string_view name) const;
    /// By FunctionEntry::id; null: it is not registered.
    [[nodiscard]] const FunctionEntry* find_function(uint64_t id) const noexcept;

private:
    const RuleRegistry* behind_ = nullptr;
    std::map<std::string, RuleEntry, std::less<>> entries_;
    std::map<std::string, CodecEntry, std::less<>> codecs_;
    std::map<std::string, FunctionEntry, std::less<>> functions_;
};

}  // namespace weir
