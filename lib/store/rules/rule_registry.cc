// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule_registry.h"

#include <cmath>

#include <fmt/core.h>

#include "lib/base/fnv.h"
#include "lib/base/printable.h"
#include "lib/store/rules/builtin_rules.h"

namespace weir {

RuleRegistry RuleRegistry::with_builtin_rules() {
    RuleRegistry registry;
    WEIR_CHECK(registry.register_rule<rules::Assign>("assign"));
    WEIR_CHECK(registry.register_rule<rules::Add>("add"));
    WEIR_CHECK(registry.register_rule<rules::Max>("max"));
    WEIR_CHECK(registry.register_rule<rules::Min>("min"));
    WEIR_CHECK(registry.register_rule<rules::Sgd>("sgd"));
    WEIR_CHECK(registry.register_rule<rules::Adagrad>("adagrad"));
    WEIR_CHECK(registry.register_rule<rules::ProxL1>("prox_l1"));
    return registry;
}

Status RuleEntry::check_parameters(const RuleParameters& given) const {
    const auto refused = [&](std::string_view why) {
        return Error(Errc::kInvalidArgument, fmt::format("rule '{}': {}", name, why));
    };
    for (size_t i = 0; names_parameters && i < given.value.size(); ++i) {
        const double value = given.value[i];
        if (i >= parameters.size()) {
            if (value == 0) continue;
            return refused(fmt::format("it has {} parameters, but parameter {} is {}",
                                       parameters.size(), i + 1, value));
        }
        const RuleParameter& parameter = parameters[i];
        const bool enough = parameter.may_be_zero ? value >= 0 : value > 0;
        if (enough && std::isfinite(value)) continue;
        const std::string_view wanted = !std::isfinite(value)   ? "be finite"
                                        : parameter.may_be_zero ? "be 0 or greater"
                                                                : "be greater than 0";
        return refused(fmt::format("{} must {}, is {}", parameter.name, wanted, value));
    }
    if (const char* const why = check(given)) return refused(why);
    return {};
}

uint64_t RuleEntry::hash(const RuleParameters& given) const {
    std::string facts = fmt::format("{} {} {} {} {} {:a}", name, version, state_values,
                                    pushed_values, static_cast<int>(combine), initial_state(given));
    for (const RuleParameter& parameter : parameters)
        facts += fmt::format(" {} {}", parameter.name, parameter.may_be_zero);
    for (const RuleKernels& of_type : kernels)
        facts += of_type.run == nullptr ? '-' : '+';
    return fnv1a(facts) | 1;
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
    std::string known;
    for (const auto& [other, entry] : entries_)
        known += (known.empty() ? "" : ", ") + other;
    return Error(Errc::kNotFound,
                 fmt::format("no update rule '{}' in this process; register it in all of them "
                             "(`add_rules` of JobOptions and JoinOptions); the registered rules "
                             "are: {}",
                             name, known));
}

}  // namespace weir
