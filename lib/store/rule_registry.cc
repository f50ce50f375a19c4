// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rule_registry.h"

#include <fmt/core.h>

#include "lib/store/builtin_rules.h"

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

Status RuleRegistry::add(const RuleEntry& entry) {
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
    return Error(Errc::kNotFound, fmt::format("no update rule '{}'; there are: {}", name, known));
}

}  // namespace weir
