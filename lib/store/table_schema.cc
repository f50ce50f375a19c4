// SPDX-License-Identifier: Apache-2.0
#include "lib/store/table_schema.h"

#include <new>

#include <fmt/core.h>

#include "lib/base/printable.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rule_threw.h"

namespace weir {
namespace {

std::string_view name_of(Layout layout) {
    return layout == Layout::kDense ? "dense" : "sparse";
}

std::string_view name_of(Rounding rounding) {
    return rounding == Rounding::kNearest ? "to the nearest" : "stochastic";
}

Error refused(const TableSchema& schema, std::string_view why) {
    return Error(Errc::kInvalidArgument, fmt::format("table '{}': {}", schema.name, why));
}

/// Whether the rule is that of the process that made the table, as far as one can see. `hash`: of the
/// rule here.
Status check_same_rule(const TableSchema& schema, const RuleEntry& rule, uint64_t hash) {
    if (schema.rule_hash == 0 || rule.is_described || schema.rule_hash == hash) return {};
    const std::string how =
        schema.rule_version != rule.version
            ? fmt::format("has version {} here, and version {} where the table was made",
                          rule.version, schema.rule_version)
            : std::string(
                  "has the same version here as where the table was made, and differs: in "
                  "its values of state or of a push, how pushes combine, its types, its "
                  "parameters or arguments, or what its state begins with");
    return Error(Errc::kTypeMismatch,
                 fmt::format("table '{}': rule '{}' {}; register the same rule, from the same "
                             "source, in all processes (`add_rules`, `plugins`)",
                             schema.name, rule.name, how));
}

/// A mean of what is not summed would be another rule, and one of integers would be rounded.
Status check_combine(const TableSchema& schema, const RuleEntry& rule) {
    if (!schema.combine || *schema.combine == rule.combine) return {};
    if (*schema.combine != Combine::kMean || rule.combine != Combine::kSum) {
        return refused(
            schema, fmt::format("combine is {}, and rule '{}' takes the {} of the workers' parts "
                                "of an iteration; only a rule that takes their sum can take "
                                "their mean in its place; leave combine out",
                                to_string(*schema.combine), schema.rule, to_string(rule.combine)));
    }
    if (is_floating(schema.value_type)) return {};
    return Error(
        Errc::kTypeMismatch,
        fmt::format("table '{}': a mean of {} values would be rounded; use a floating type, "
                    "or leave combine out",
                    schema.name, to_string(schema.value_type)));
}

/// Asks code of the program, also for the rule's `hash`.
Status check_rule(const TableSchema& schema, const RuleEntry& rule, uint64_t& hash) {
    if (const Status sound =
            rule.check_parameters(schema.parameters, schema.value_type, schema.width);
        !sound)
        return refused(schema, sound.error().text());
    const bool is_zero = !schema.initial_value.is_random() && schema.initial_value.first == 0;
    if (rule.begins_at_zero && !is_zero) {
        return refused(schema,
                       fmt::format("rule '{}' makes values of its state alone, so the first push "
                                   "would lose the initial value {}; leave that at 0",
                                   schema.rule, to_string(schema.initial_value)));
    }
    const size_t state_bytes = rule.kernels_for(schema.value_type).state_bytes(schema.width);
    if (state_bytes > TableSchema::kStateBytesMax) {
        return refused(schema,
                       fmt::format("rule '{}' keeps {} bytes of state for each key; the most "
                                   "is {}; use a smaller width",
                                   schema.rule, state_bytes, TableSchema::kStateBytesMax));
    }
    hash = rule.hash(schema.parameters, schema.value_type, schema.width);
    return check_same_rule(schema, rule, hash);
}

/// check_schema(), which also finds the rule's hash.
Result<const RuleEntry*> find_rule(const TableSchema& schema, const RuleRegistry& rules,
                                   uint64_t& hash) {
    if (!schema.name.empty() && !is_printable_name(schema.name)) {
        return Error(Errc::kInvalidArgument,
                     "the name of a table has a control character; choose one of letters, digits "
                     "and signs");
    }
    if (schema.layout != Layout::kDense && schema.layout != Layout::kSparse)
        return refused(schema, "the layout must be dense or sparse");
    if (!is_valid(schema.value_type))
        return refused(schema,
                       "the value type must be one of float32, float64, int32, int64, "
                       "uint32, uint64, bfloat16, float16");
    if (schema.rounding != Rounding::kNearest && !is_narrow(schema.value_type))
        return refused(schema, fmt::format("values of type {} are not rounded; leave rounding out",
                                           to_string(schema.value_type)));
    if (schema.width == 0 || schema.width > TableSchema::kWidthMax)
        return refused(schema, fmt::format("the width is {}; it must be 1 to {}", schema.width,
                                           TableSchema::kWidthMax));
    if (schema.layout == Layout::kDense && schema.erasable)
        return refused(schema,
                       "it is dense, so its rows are there as long as the table: only a sparse "
                       "table can be erasable");
    if (schema.layout == Layout::kDense && schema.key_count == 0)
        return refused(schema, "a dense table needs a key_count, the number of its keys");
    if (const Status sound = check_initial(schema.initial_value, schema.value_type); !sound)
        return refused(schema, sound.error().text());
    if (schema.max_delay > TableSchema::kMaxDelayMax)
        return refused(schema, fmt::format("max_delay is {}; it must be 0 to {}", schema.max_delay,
                                           TableSchema::kMaxDelayMax));
    const auto found = rules.find(schema.rule);
    if (!found) return of_table(schema.name, found.error());
    const RuleEntry* const rule = *found;
    if (!rule->supports(schema.value_type)) {
        return Error(Errc::kTypeMismatch,
                     fmt::format("table '{}': rule {} does not work on {}; use a floating type",
                                 schema.name, schema.rule, to_string(schema.value_type)));
    }
    WEIR_TRY(check_combine(schema, *rule));
    try {
        WEIR_TRY(check_rule(schema, *rule, hash));
    } catch (const std::bad_alloc&) {
        throw;
    } catch (...) {
        return Error(Errc::kException, fmt::format("table '{}': rule '{}' threw: {}", schema.name,
                                                   schema.rule, text_of_exception()));
    }
    return rule;
}

}  // namespace

Result<const RuleEntry*> check_schema(const TableSchema& schema, const RuleRegistry& rules) {
    uint64_t hash = 0;
    return find_rule(schema, rules, hash);
}

Status name_code(TableSchema& schema, const RuleRegistry& rules) {
    uint64_t hash = 0;
    WEIR_ASSIGN(const RuleEntry* const rule, find_rule(schema, rules, hash));
    schema.rule_version = rule->version;
    schema.rule_hash = hash;
    schema.codec_version = 0;
    if (schema.codec.empty()) return {};
    if (const auto codec = rules.find_codec(schema.codec)) schema.codec_version = (*codec)->version;
    WEIR_TRY(find_codec(schema, rules));
    return {};
}

Result<const ValueCodec*> find_codec(const TableSchema& schema, const RuleRegistry& rules) {
    if (schema.codec.empty()) return nullptr;
    const Result<const CodecEntry*> found = rules.find_codec(schema.codec);
    if (!found) return of_table(schema.name, found.error());
    const CodecEntry& entry = **found;
    const auto mismatch = [&](std::string_view why) {
        return Error(Errc::kTypeMismatch,
                     fmt::format("table '{}': codec '{}' {}", schema.name, schema.codec, why));
    };
    if (entry.version != schema.codec_version) {
        return mismatch(
            fmt::format("has version {} here, and version {} where the table was made; "
                        "register the same codec in all processes (`add_rules`, "
                        "`plugins`)",
                        entry.version, schema.codec_version));
    }
    if (!entry.codec->takes(schema.value_type) &&
        !entry.codec->takes(computed_type(schema.value_type)))
        return mismatch(fmt::format("takes no values of type {}", to_string(schema.value_type)));
    return entry.codec.get();
}

Error of_table(std::string_view name, const Error& error) {
    const std::string begin = fmt::format("table '{}'", name);
    if (error.text().starts_with(begin)) return error;
    return {error.code(), fmt::format("{}: {}", begin, error.text()), error.os_error()};
}

Status check_same(const TableSchema& is, const TableSchema& wanted, const RuleRegistry& rules) {
    if (is.value_type != wanted.value_type || is.width != wanted.width) {
        return Error(Errc::kTypeMismatch,
                     fmt::format("table '{}' exists with {} value{} of type {} per key; {} of type "
                                 "{} {} asked for",
                                 is.name, is.width, is.width == 1 ? "" : "s",
                                 to_string(is.value_type), wanted.width,
                                 to_string(wanted.value_type), wanted.width == 1 ? "was" : "were"));
    }
    const auto differs = [&](std::string_view field, const auto& has, const auto& asked) {
        return Error(Errc::kAlreadyExists,
                     fmt::format("table '{}' exists with {} {}; {} was asked for; ask for the "
                                 "same, or choose another name",
                                 is.name, field, has, asked));
    };
    if (is.layout != wanted.layout)
        return differs("layout", name_of(is.layout), name_of(wanted.layout));
    if (is.key_count != wanted.key_count)
        return differs("key_count", is.key_count, wanted.key_count);
    if (is.rule != wanted.rule) return differs("rule", is.rule, wanted.rule);
    for (size_t i = 0; i < is.parameters.value.size(); ++i) {
        if (is.parameters.value[i] == wanted.parameters.value[i]) continue;
        const Result<const RuleEntry*> rule = rules.find(is.rule);
        const std::string name = rule && i < (*rule)->parameters.size()
                                     ? std::string((*rule)->parameters[i].name)
                                     : fmt::format("parameter {}", i + 1);
        return differs(fmt::format("the rule {} with {}", is.rule, name), is.parameters.value[i],
                       wanted.parameters.value[i]);
    }
    if (is.initial_value != wanted.initial_value)
        return differs("initial_value", to_string(is.initial_value),
                       to_string(wanted.initial_value));
    if (is.rounding != wanted.rounding)
        return differs("rounding", name_of(is.rounding), name_of(wanted.rounding));
    if (is.allow_not_finite != wanted.allow_not_finite)
        return differs("allow_not_finite", is.allow_not_finite, wanted.allow_not_finite);
    if (is.max_delay != wanted.max_delay)
        return differs("max_delay", is.max_delay, wanted.max_delay);
    if (is.in_checkpoints != wanted.in_checkpoints)
        return differs("in_checkpoints", is.in_checkpoints, wanted.in_checkpoints);
    if (is.erasable != wanted.erasable) return differs("erasable", is.erasable, wanted.erasable);
    if (is.codec != wanted.codec) {
        const auto name = [](const std::string& codec) { return codec.empty() ? "none" : codec; };
        return differs("codec", name(is.codec), name(wanted.codec));
    }
    if (is.combine != wanted.combine) {
        const auto name = [](const std::optional<Combine>& combine) {
            return combine ? to_string(*combine) : "that of the rule";
        };
        return differs("combine", name(is.combine), name(wanted.combine));
    }
    return {};
}

}  // namespace weir
