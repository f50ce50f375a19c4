// SPDX-License-Identifier: Apache-2.0
#include "lib/base/config.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <numeric>
#include <set>

#include <fmt/core.h>

#include "lib/base/log.h"

extern char** environ;  // NOLINT: POSIX's

namespace weir {
namespace {

/// Whether `word` is one of the words of "a|b|c".
bool is_choice(std::string_view choices, std::string_view word) {
    while (!choices.empty()) {
        const size_t bar = choices.find('|');
        if (choices.substr(0, bar) == word) return true;
        if (bar == std::string_view::npos) break;
        choices.remove_prefix(bar + 1);
    }
    return false;
}

std::optional<uint64_t> parse_number(const ConfigVariable& variable, std::string_view text) {
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end) return std::nullopt;
    if (number < variable.least || number > variable.most) return std::nullopt;
    return number;
}

/// How many characters must be changed, inserted or removed to turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

std::string_view nearest_name(std::string_view name) {
    std::string_view nearest;
    size_t distance = 4;  // a name with 4 or more changes is hardly a misspelling
    for (const ConfigVariable& variable : kConfigVariables) {
        const size_t d = edit_distance(name, variable.name);
        if (d < distance) {
            distance = d;
            nearest = variable.name;
        }
    }
    return nearest;
}

}  // namespace

Environment Environment::snapshot(const char* const* variables) {
    Map values;
    for (; variables != nullptr && *variables != nullptr; ++variables) {
        const std::string_view entry(*variables);
        const size_t equals = entry.find('=');
        if (equals == std::string_view::npos) continue;
        values.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
    return Environment(std::move(values));
}

std::string_view Environment::get(std::string_view name) const noexcept {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string_view() : std::string_view(found->second);
}

std::string allowed_values(const ConfigVariable& variable) {
    switch (variable.kind) {
        case VariableKind::kText: return "a text";
        case VariableKind::kNumber:
            return fmt::format("a whole number from {} to {}{}{}", variable.least, variable.most,
                               variable.unit.empty() ? "" : " ", variable.unit);
        case VariableKind::kChoice: break;
    }
    std::string words = "one of ";
    for (const char c : variable.choices) {
        if (c == '|') {
            words += ", ";
        } else {
            words += c;
        }
    }
    return words;
}

std::string UnknownVariable::message() const {
    if (nearest.empty())
        return fmt::format("{} is not a variable of Weir; `weir info` lists them", name);
    return fmt::format("{} is not a variable of Weir; did you mean {}?", name, nearest);
}

Config Config::of_process() {
    return Config(Environment::snapshot(environ));
}

void Config::set_flag(VariableRef variable, std::string_view flag, std::string_view value) {
    flags_[variable->name] = Flag{std::string(flag), std::string(value)};
}

std::pair<std::string_view, std::string_view> Config::in_environment(
    const ConfigVariable& variable) const noexcept {
    const std::string_view value = environment_.get(variable.name);
    if (!value.empty() || variable.old_name.empty()) return {value, variable.name};
    const std::string_view old_value = environment_.get(variable.old_name);
    return {old_value, old_value.empty() ? variable.name : variable.old_name};
}

ConfigSource Config::source(VariableRef variable) const noexcept {
    if (flags_.contains(variable->name)) return ConfigSource::kFlag;
    return in_environment(*variable).first.empty() ? ConfigSource::kDefault
                                                   : ConfigSource::kVariable;
}

std::string_view Config::text(VariableRef variable) const noexcept {
    if (const auto flag = flags_.find(variable->name); flag != flags_.end()) {
        return flag->second.value;
    }
    const std::string_view value = in_environment(*variable).first;
    return value.empty() ? variable->default_value : value;
}

std::string_view Config::place(VariableRef variable) const noexcept {
    const auto flag = flags_.find(variable->name);
    return flag != flags_.end() ? std::string_view(flag->second.flag)
                                : in_environment(*variable).second;
}

Error Config::bad_value(const ConfigVariable& variable) const {
    return {Errc::kInvalidArgument, fmt::format("{}={}: must be {}", place(variable),
                                                text(variable), allowed_values(variable))};
}

Result<std::string> Config::choice(VariableRef variable) const {
    WEIR_CHECK(!variable->default_value.empty());
    return optional_choice(variable);
}

Result<std::string> Config::optional_choice(VariableRef variable) const {
    WEIR_CHECK(variable->kind == VariableKind::kChoice);
    const std::string_view word = text(variable);
    if (word.empty() && source(variable) == ConfigSource::kDefault) return std::string();
    if (!is_choice(variable->choices, word)) return bad_value(*variable);
    return std::string(word);
}

Result<uint64_t> Config::number(VariableRef variable) const {
    WEIR_CHECK(variable->kind == VariableKind::kNumber && !variable->default_value.empty());
    WEIR_ASSIGN(const std::optional<uint64_t> number, optional_number(variable));
    return *number;
}

Result<std::optional<uint64_t>> Config::optional_number(VariableRef variable) const {
    WEIR_CHECK(variable->kind == VariableKind::kNumber);
    const std::string_view digits = text(variable);
    if (digits.empty() && source(variable) == ConfigSource::kDefault) {
        return std::optional<uint64_t>();
    }
    const std::optional<uint64_t> number = parse_number(*variable, digits);
    if (!number) return bad_value(*variable);
    return number;
}

Status Config::check() const {
    for (const ConfigVariable& variable : kConfigVariables) {
        if (variable.kind == VariableKind::kNumber) WEIR_TRY(optional_number(variable));
        if (variable.kind == VariableKind::kChoice) WEIR_TRY(optional_choice(variable));
    }
    return {};
}

std::vector<UnknownVariable> Config::unknown() const {
    std::vector<UnknownVariable> found;
    const Environment::Map& values = environment_.values();
    for (auto it = values.lower_bound("WEIR_"); it != values.end(); ++it) {
        const std::string_view name = it->first;
        if (!name.starts_with("WEIR_")) break;
        const bool known = std::any_of(
            kConfigVariables.begin(), kConfigVariables.end(),
            [&](const ConfigVariable& v) { return v.name == name || v.old_name == name; });
        if (!known) found.push_back({it->first, nearest_name(name)});
    }
    return found;
}

void Config::warn_of_unknown() const {
    static std::mutex mutex;
    static std::set<std::string> told;  // of the process, as the log is
    const std::lock_guard lock(mutex);
    for (const UnknownVariable& variable : unknown()) {
        if (told.insert(variable.name).second) log(LogLevel::kWarning, "{}", variable.message());
    }
    for (const ConfigVariable& variable : kConfigVariables) {
        const std::string_view old_name = variable.old_name;
        if (old_name.empty() || environment_.get(old_name).empty()) continue;
        const bool is_set = !environment_.get(variable.name).empty();
        if (told.insert(std::string(old_name)).second)
            log(LogLevel::kWarning,
                "{} is called {} now{}; the next version does not know the old name", old_name,
                variable.name, is_set ? ", which is set, too, and counts" : "");
    }
}

}  // namespace weir
