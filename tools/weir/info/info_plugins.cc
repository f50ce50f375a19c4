// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/info/info_plugins.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/base/json_text.h"

namespace weir::tools {
namespace {

using PluginJson = nlohmann::ordered_json;

std::vector<ValueType> types_of(const RuleEntry& rule) {
    std::vector<ValueType> types;
    for (size_t i = 0; i < rule.kernels.size(); ++i) {
        if (rule.kernels[i].run != nullptr) types.push_back(static_cast<ValueType>(i));
    }
    return types;
}

std::string range_of(const RuleParameter& parameter) {
    return fmt::format("{}{}", parameter.may_be_zero ? ">= 0" : "> 0",
                       parameter.below_one ? ", < 1" : "");
}

/// A list in words.
template <class Each, class Text>
std::string words_of(const Each& each, Text&& text) {
    std::string words;
    for (const auto& one : each)
        words += (words.empty() ? "" : "; ") + std::string(text(one));
    return words.empty() ? "none" : words;
}

std::string text_of_rule(const RuleEntry& rule) {
    const std::vector<ValueType> types = types_of(rule);
    std::string text = fmt::format("\n  {}, version {}\n", rule.name, rule.version);
    const auto line = [&](std::string_view label, std::string_view value) {
        text += fmt::format("    {:<13}  {}\n", label, value);
    };
    line("types", words_of(types, [](ValueType type) { return to_string(type); }));
    line("parameters", words_of(rule.parameters, [](const RuleParameter& one) {
             return fmt::format("{} ({})", one.name, range_of(one));
         }));
    line("arguments", words_of(rule.arguments, [&](const RuleArgument& one) {
             const bool is_of_table =
                 std::ranges::any_of(rule.parameters, [&](const RuleParameter& parameter) {
                     return std::string_view(parameter.name) == one.name;
                 });
             return is_of_table ? fmt::format("{} (else the table's)", one.name)
                                : fmt::format("{} (else {})", one.name, one.otherwise);
         }));
    line("pushed values", fmt::format("{} for each value of the table", rule.pushed_values));
    line("state", words_of(types, [&](ValueType type) {
             const RuleKernels& kernels = rule.kernels_for(type);
             return fmt::format("{}: {} bytes for a row of 1, {} for one of 8", to_string(type),
                                kernels.state_bytes(1), kernels.state_bytes(8));
         }));
    line("iterations", fmt::format("workers' pushes are combined by {}", to_string(rule.combine)));
    if (rule.wants_keys) line("keys", "wanted");
    if (rule.begins_at_zero) line("begins", "at 0 only");
    if (rule.rounding == Rounding::kStochastic) line("rounding", "at random, of 16-bit floats");
    return text;
}

std::vector<std::string_view> types_of(const ValueCodec& codec) {
    std::vector<std::string_view> types;
    for (size_t i = 0; i < kValueTypeCount; ++i) {
        const auto type = static_cast<ValueType>(i);
        if (codec.takes(type)) types.push_back(to_string(type));
    }
    return types;
}

std::string text_of_codec(const CodecEntry& codec) {
    return fmt::format("\n  {}, version {}, a codec\n    {:<13}  {}\n", codec.name, codec.version,
                       "types", words_of(types_of(*codec.codec), std::identity{}));
}

std::vector<std::string_view> types_of(const FunctionEntry& function) {
    std::vector<std::string_view> types;
    for (size_t i = 0; i < kComputedTypeCount; ++i) {
        const auto type = static_cast<ValueType>(i);
        if (function.supports(type)) types.push_back(to_string(type));
    }
    return types;
}

std::string text_of_function(const FunctionEntry& function) {
    const auto line = [](std::string_view name, const auto& text) {
        return fmt::format("    {:<13}  {}\n", name, text);
    };
    std::string text = fmt::format("\n  {}, version {}, a function that {} rows\n", function.name,
                                   function.version, function.changes ? "changes" : "reads");
    text += line("types", words_of(types_of(function), std::identity{}));
    if (!function.numbers.empty()) {
        text += line("numbers", words_of(function.numbers, [](const FunctionNumber& number) {
                         return std::isnan(number.otherwise)
                                    ? std::string(number.name)
                                    : fmt::format("{} (else {})", number.name, number.otherwise);
                     }));
    }
    if (function.tables != 0) text += line("other tables", fmt::format("{}", function.tables));
    if (function.wants_keys) text += line("keys", "wanted");
    return text;
}

PluginJson json_of_function(const FunctionEntry& function) {
    PluginJson numbers = PluginJson::array();
    for (const FunctionNumber& one : function.numbers) {
        const bool is_needed = std::isnan(one.otherwise);
        numbers.push_back({{"name", one.name},
                           {"otherwise", is_needed ? PluginJson() : PluginJson(one.otherwise)}});
    }
    return {{"name", function.name},
            {"version", function.version},
            {"changes", function.changes},
            {"types", types_of(function)},
            {"numbers", std::move(numbers)},
            {"tables", function.tables},
            {"wants_keys", function.wants_keys}};
}

PluginJson json_of_rule(const RuleEntry& rule) {
    PluginJson types = PluginJson::array();
    PluginJson state = PluginJson::object();
    for (const ValueType type : types_of(rule)) {
        const RuleKernels& kernels = rule.kernels_for(type);
        types.push_back(to_string(type));
        state[std::string(to_string(type))] = {{"width_1", kernels.state_bytes(1)},
                                               {"width_8", kernels.state_bytes(8)}};
    }
    PluginJson parameters = PluginJson::array();
    for (const RuleParameter& one : rule.parameters)
        parameters.push_back(
            {{"name", one.name}, {"may_be_zero", one.may_be_zero}, {"below_one", one.below_one}});
    PluginJson arguments = PluginJson::array();
    for (const RuleArgument& one : rule.arguments)
        arguments.push_back({{"name", one.name},
                             {"otherwise", one.otherwise},
                             {"may_be_negative", one.may_be_negative}});
    return {{"name", rule.name},
            {"version", rule.version},
            {"types", std::move(types)},
            {"parameters", std::move(parameters)},
            {"arguments", std::move(arguments)},
            {"pushed_values", rule.pushed_values},
            {"state_bytes", std::move(state)},
            {"combine", to_string(rule.combine)},
            {"wants_keys", rule.wants_keys},
            {"rounds_at_random", rule.rounding == Rounding::kStochastic},
            {"begins_at_zero", rule.begins_at_zero}};
}

}  // namespace

std::string plugins_text(std::span<const Plugin> plugins, const RuleRegistry& rules) {
    std::string text;
    for (const Plugin& plugin : plugins) {
        text += fmt::format("{}{}\n  content hash {:016x}\n", text.empty() ? "" : "\n", plugin.path,
                            plugin.is.content);
        for (const std::string& name : plugin.rules)
            text += text_of_rule(**rules.find(name));
        for (const std::string& name : plugin.codecs)
            text += text_of_codec(**rules.find_codec(name));
        for (const std::string& name : plugin.functions)
            text += text_of_function(**rules.find_function(name));
    }
    return text;
}

std::string plugins_json(std::span<const Plugin> plugins, const RuleRegistry& rules) {
    PluginJson list = PluginJson::array();
    for (const Plugin& plugin : plugins) {
        PluginJson its = PluginJson::array();
        for (const std::string& name : plugin.rules)
            its.push_back(json_of_rule(**rules.find(name)));
        PluginJson codecs = PluginJson::array();
        for (const std::string& name : plugin.codecs) {
            const CodecEntry& codec = **rules.find_codec(name);
            codecs.push_back({{"name", codec.name},
                              {"version", codec.version},
                              {"types", types_of(*codec.codec)}});
        }
        PluginJson functions = PluginJson::array();
        for (const std::string& name : plugin.functions)
            functions.push_back(json_of_function(**rules.find_function(name)));
        list.push_back({{"file", plugin.path},
                        {"content_hash", fmt::format("{:016x}", plugin.is.content)},
                        {"rules", std::move(its)},
                        {"functions", std::move(functions)},
                        {"codecs", std::move(codecs)}});
    }
    return json_text(PluginJson{{"plugins", std::move(list)}});
}

}  // namespace weir::tools
