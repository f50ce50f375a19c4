// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule_registry.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/fnv.h"
#include "lib/base/printable.h"
#include "lib/base/printable_line.h"
#include "lib/store/rules/builtin_rules.h"
#include "lib/store/rules/collective.h"
#include "lib/store/rules/row_rules.h"

namespace weir {

RuleRegistry RuleRegistry::with_builtin_rules() {
    RuleRegistry registry;
    WEIR_CHECK(registry.register_rule<rules::Assign>("assign"));
    WEIR_CHECK(registry.register_rule<rules::Sum>("sum"));
    WEIR_CHECK(registry.register_rule<rules::Mean>("mean"));
    WEIR_CHECK(registry.register_rule<rules::Add>("add"));
    WEIR_CHECK(registry.register_rule<rules::Max>("max"));
    WEIR_CHECK(registry.register_rule<rules::Min>("min"));
    WEIR_CHECK(registry.register_rule<rules::CountMin>("count_min"));
    WEIR_CHECK(registry.register_rule<rules::Sgd>("sgd"));
    WEIR_CHECK(registry.register_rule<rules::MomentumSgd<false>>("momentum"));
    WEIR_CHECK(registry.register_rule<rules::MomentumSgd<true>>("nesterov"));
    WEIR_CHECK(registry.register_rule<rules::Adagrad>("adagrad"));
    WEIR_CHECK(registry.register_rule<rules::RowAdagrad>("row_adagrad"));
    WEIR_CHECK(registry.register_rule<rules::RmsProp>("rmsprop"));
    WEIR_CHECK(registry.register_rule<rules::Adam<false>>("adam"));
    WEIR_CHECK(registry.register_rule<rules::Adam<true>>("adamw"));
    WEIR_CHECK(registry.register_rule<rules::Lion>("lion"));
    WEIR_CHECK(registry.register_rule<rules::Ftrl>("ftrl"));
    WEIR_CHECK(registry.register_rule<rules::ProxL1>("prox_l1"));
    WEIR_CHECK(registry.register_rule<rules::Collective>("weir.collective"));
    for (FunctionEntry& function : builtin_functions())
        WEIR_CHECK(registry.add(std::move(function)));
    return registry;
}

/// As a rule computes with it on values of a type.
static double as_used(ValueType type, double value) noexcept {
    return computed_type(type) == ValueType::kFloat32
               ? static_cast<double>(static_cast<float>(value))
               : value;
}

Status RuleEntry::check_parameters(const RuleParameters& given, ValueType type,
                                   uint32_t width) const {
    const auto refused = [&](std::string_view why) {
        return Error(Errc::kInvalidArgument, fmt::format("rule '{}': {}", name, why));
    };
    for (size_t i = 0; names_parameters && i < given.value.size(); ++i) {
        const double value = as_used(type, given.value[i]);
        if (i >= parameters.size()) {
            if (value == 0) continue;
            return refused(fmt::format("it has {} parameters, but parameter {} is {}",
                                       parameters.size(), i + 1, given.value[i]));
        }
        const RuleParameter& parameter = parameters[i];
        const bool enough = parameter.may_be_zero ? value >= 0 : value > 0;
        const bool little = !parameter.below_one || value < 1;
        if (enough && little && std::isfinite(value)) continue;
        const std::string_view wanted = !std::isfinite(value)   ? "be finite"
                                        : !little               ? "be less than 1"
                                        : parameter.may_be_zero ? "be 0 or greater"
                                                                : "be greater than 0";
        return refused(
            fmt::format("{} must {}, is {}{}", parameter.name, wanted, given.value[i],
                        value == given.value[i] || !std::isfinite(given.value[i])
                            ? ""
                            : fmt::format(", which is {} for {}", value, to_string(type))));
    }
    if (const char* const why = check(given, width)) return refused(printable_line(why));
    return {};
}

RuleArguments RuleEntry::default_arguments(const RuleParameters& given) const {
    RuleArguments all;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const RuleParameter* const parameter = parameter_of(arguments[i]);
        all.value[i] = parameter == nullptr
                           ? arguments[i].otherwise
                           : given.value[static_cast<size_t>(parameter - parameters.data())];
    }
    return all;
}

const RuleParameter* RuleEntry::parameter_of(const RuleArgument& argument) const noexcept {
    for (const RuleParameter& parameter : parameters) {
        if (std::string_view(parameter.name) == argument.name) return &parameter;
    }
    return nullptr;
}

Result<RuleArguments> RuleEntry::all_arguments(std::span<const double> given,
                                               ValueType type) const {
    if (given.size() != arguments.size()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("rule '{}' takes {} arguments, and {} were given", name,
                                 arguments.size(), given.size()));
    }
    RuleArguments all;
    for (size_t i = 0; i < given.size(); ++i) {
        const double value = as_used(type, given[i]);
        const RuleParameter* const parameter = parameter_of(arguments[i]);
        const bool enough = value >= 0 || arguments[i].may_be_negative;
        const bool little = parameter == nullptr || !parameter->below_one || value < 1;
        if (!std::isfinite(value) || !enough || !little) {
            return Error(
                Errc::kInvalidArgument,
                fmt::format("rule '{}': the argument {} must be {}, is {}", name, arguments[i].name,
                            !std::isfinite(value) ? fmt::format("finite as {}", to_string(type))
                            : !enough             ? "0 or greater"
                                      : fmt::format("less than 1 as {}", to_string(type)),
                            given[i]));
        }
        all.value[i] = given[i];
    }
    return all;
}

Result<RuleArguments> RuleEntry::named_arguments(std::span<const NamedNumber> given,
                                                 const RuleArguments& otherwise,
                                                 ValueType type) const {
    RuleArguments all = otherwise;
    std::array<bool, RuleArguments{}.value.size()> is_given{};
    for (const NamedNumber& one : given) {
        const auto named = std::ranges::find(
            arguments, one.name, [](const RuleArgument& a) { return std::string_view(a.name); });
        if (named == arguments.end()) {
            std::string known;
            for (const RuleArgument& argument : arguments)
                known += (known.empty() ? "" : ", ") + std::string(argument.name);
            return Error(Errc::kInvalidArgument,
                         fmt::format("rule '{}' has no argument '{}'; {}{}", name, one.name,
                                     known.empty() ? "it has none" : "choose one of: ", known));
        }
        const auto at = static_cast<size_t>(named - arguments.begin());
        if (std::exchange(is_given[at], true)) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("rule '{}': the argument {} is given twice; leave one out",
                                     name, one.name));
        }
        all.value[at] = one.value;
    }
    return all_arguments(std::span<const double>(all.value).first(arguments.size()), type);
}

std::string RuleEntry::facts() const {
    std::string facts = fmt::format("{} {} {} {} {} {}", name, version, pushed_values,
                                    static_cast<int>(combine), by_row, wants_keys);
    for (const RuleParameter& parameter : parameters)
        facts +=
            fmt::format(" {} {} {}", parameter.name, parameter.may_be_zero, parameter.below_one);
    for (const RuleArgument& argument : arguments)
        facts +=
            fmt::format(" {} {:a} {}", argument.name, argument.otherwise, argument.may_be_negative);
    for (const RuleKernels& of_type : kernels)
        facts += of_type.run == nullptr ? '-' : '+';
    return facts;
}

uint64_t RuleEntry::hash(const RuleParameters& given, ValueType type, uint32_t width) const {
    constexpr size_t kFilledBytesMax = size_t{64} << 10;
    if (is_described) return 0;
    const size_t state_bytes = kernels_for(type).state_bytes(width);
    std::string all =
        fmt::format("{} {} {:a}", facts(), state_bytes, initial_state ? initial_state(given) : 0);
    if (fill_state && state_bytes <= kFilledBytesMax) {
        std::vector<std::byte> state(state_bytes);
        fill_state(state.data(), computed_type(type), width, given);
        all.append(reinterpret_cast<const char*>(state.data()), state.size());
    }
    return fnv1a(all) | 1;
}

Status RuleRegistry::add(const RuleEntry& entry) {
    if (!is_printable_name(entry.name)) {
        return Error(Errc::kInvalidArgument,
                     "the name of an update rule is empty, or has a control character");
    }
    if (!entries_.try_emplace(entry.name, entry).second) {
        return Error(
            Errc::kAlreadyExists,
            fmt::format("update rule '{}' is registered already; choose another name", entry.name));
    }
    return {};
}

Result<const RuleEntry*> RuleRegistry::find(std::string_view name) const {
    const auto found = entries_.find(name);
    if (found != entries_.end()) return &found->second;
    if (behind_ != nullptr) return behind_->find(name);
    std::string known;
    for (const auto& [other, entry] : entries_) {
        if (!other.starts_with(rules::kWeirsOwn)) known += (known.empty() ? "" : ", ") + other;
    }
    return Error(
        Errc::kNotFound,
        fmt::format("no update rule '{}' in this process; register it in all that have servers "
                    "(`add_rules` of JobOptions and JoinOptions), or load it there (`plugins`, "
                    "WEIR_PLUGINS); the registered rules are: {}",
                    name, known));
}

Status RuleRegistry::register_codec(std::string_view name, std::shared_ptr<const ValueCodec> codec,
                                    uint32_t version) {
    WEIR_ASSIGN(const CodecEntry entry, make_codec(std::string(name), version, std::move(codec)));
    return add(entry);
}

Status RuleRegistry::add(const CodecEntry& codec) {
    if (!codecs_.try_emplace(codec.name, codec).second) {
        return Error(
            Errc::kAlreadyExists,
            fmt::format("codec '{}' is registered already; choose another name", codec.name));
    }
    return {};
}

Result<const CodecEntry*> RuleRegistry::find_codec(std::string_view name) const {
    const auto found = codecs_.find(name);
    if (found != codecs_.end()) return &found->second;
    if (behind_ != nullptr) return behind_->find_codec(name);
    std::string known;
    for (const auto& [other, codec] : codecs_)
        known += (known.empty() ? "" : ", ") + other;
    return Error(
        Errc::kNotFound,
        fmt::format("no codec '{}' in this process; register it (`add_rules` of JobOptions and "
                    "JoinOptions), or load it (`plugins`, WEIR_PLUGINS), in all processes that "
                    "have servers, make the table or use the codec; there {}",
                    name, known.empty() ? "is none" : "are: " + known));
}

Status RuleRegistry::add(FunctionEntry function) {
    WEIR_TRY(check_function(function));
    function.id = fnv1a(function.facts());
    std::string name = function.name;
    if (!functions_.try_emplace(name, std::move(function)).second) {
        return Error(Errc::kAlreadyExists,
                     fmt::format("function '{}' is registered already; choose another name", name));
    }
    return {};
}

Result<const FunctionEntry*> RuleRegistry::find_function(std::string_view name) const {
    const auto found = functions_.find(name);
    if (found != functions_.end()) return &found->second;
    if (behind_ != nullptr) return behind_->find_function(name);
    std::string known;
    for (const auto& [other, function] : functions_)
        known += (known.empty() ? "" : ", ") + other;
    return Error(
        Errc::kNotFound,
        fmt::format("no function '{}' in this process; register it (`add_rules` of JobOptions and "
                    "JoinOptions), or load it (`plugins`, WEIR_PLUGINS), in all processes that "
                    "have servers or call it; there are: {}",
                    name, known));
}

const FunctionEntry* RuleRegistry::find_function(uint64_t id) const noexcept {
    for (const auto& [name, function] : functions_) {
        if (function.id == id) return &function;
    }
    return behind_ != nullptr ? behind_->find_function(id) : nullptr;
}

}  // namespace weir
