// SPDX-License-Identifier: Apache-2.0
#include "lib/store/plugins/plugin_rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/store/plugins/plugin_struct.h"
#include "lib/store/rules/rule_threw.h"
#include "lib/store/table_schema.h"

namespace weir {
namespace {

static_assert(WEIR_FLOAT32 == static_cast<int>(ValueType::kFloat32) &&
              WEIR_FLOAT64 == static_cast<int>(ValueType::kFloat64) &&
              WEIR_INT32 == static_cast<int>(ValueType::kInt32) &&
              WEIR_INT64 == static_cast<int>(ValueType::kInt64) &&
              WEIR_UINT32 == static_cast<int>(ValueType::kUInt32) &&
              WEIR_UINT64 == static_cast<int>(ValueType::kUInt64));
static_assert(WEIR_SUM == static_cast<int>(Combine::kSum) &&
              WEIR_MAX == static_cast<int>(Combine::kMax) &&
              WEIR_MIN == static_cast<int>(Combine::kMin) &&
              WEIR_LAST == static_cast<int>(Combine::kLast) &&
              WEIR_MEAN == static_cast<int>(Combine::kMean));
static_assert(WEIR_NUMBERS_MAX == RuleParameters{}.value.size() &&
              WEIR_NUMBERS_MAX == RuleArguments{}.value.size());
static_assert(WEIR_STATE_BYTES_MAX == TableSchema::kStateBytesMax);
static_assert(uint64_t{WEIR_PUSHED_VALUES_MAX} * TableSchema::kWidthMax <= ~uint32_t{0});

constexpr uint32_t kFlags = WEIR_WANTS_KEYS | WEIR_BEGINS_AT_ZERO | WEIR_ROUNDS_AT_RANDOM;

/// What an entry refers to.
struct PluginRule {
    std::shared_ptr<void> object;
    weir_rule is{};  ///< without its texts and arrays
    std::string name;
    std::vector<std::string> names;  ///< of parameters and arguments; its size never changes
    std::vector<RuleParameter> parameters;
    std::vector<RuleArgument> arguments;
};

uint64_t random_of_plugin(void* random) {
    return (*static_cast<Random*>(random))();
}

/// The calls of one push to the rule.
class PluginCalls {
public:
    PluginCalls(ValueType type, uint32_t width, const RuleContext& context)
        : rule_(*static_cast<const PluginRule*>(context.code)),
          context_(context),
          pushed_bytes_(width * size_of(type) * rule_.is.pushed_values) {
        rows_.size = sizeof rows_;
        rows_.value_type = static_cast<uint32_t>(type);
        rows_.width = width;
        rows_.value_stride_bytes = width * size_of(type);
        rows_.state_stride_bytes = context.state_bytes;
        rows_.pushed_stride_bytes = pushed_bytes_;
        rows_.parameters = context.parameters.value.data();
        rows_.arguments = context.arguments.value.data();
        rows_.random = &random_of_plugin;
        rows_.random_state = context.random;
        rows_.error = error_;
        rows_.error_bytes_max = sizeof error_;
    }

    void set_strides(size_t of_values, size_t of_state) noexcept {
        rows_.value_stride_bytes = of_values;
        rows_.state_stride_bytes = of_state;
    }

    [[nodiscard]] size_t pushed_bytes() const noexcept { return pushed_bytes_; }

    /// `first`: of the rows, counted from the first one of context.keys.
    void update(size_t first, std::byte* values, std::byte* state, const std::byte* pushed,
                size_t row_count) {
        rows_.row_count = row_count;
        rows_.values = values;
        rows_.state = state;
        rows_.pushed = pushed;
        rows_.failed_row = 0;
        if (!context_.keys.empty()) {
            rows_.keys = context_.keys.data() + first;
            *context_.at = *rows_.keys;
        }
        if (update_or_throw(row_count) != 0) [[unlikely]]
            fail(row_count);
    }

private:
    /// An exception does not say which of the rows it is about.
    int update_or_throw(size_t row_count) {
        try {
            return rule_.is.update(&rows_, rule_.is.user);
        } catch (...) {
            if (row_count == 1) throw;
            throw std::runtime_error(fmt::format("{} (for one of {} rows, from this one on)",
                                                 text_of_exception(), row_count));
        }
    }

    [[noreturn]] void fail(size_t row_count) {
        if (rows_.keys != nullptr)
            *context_.at = rows_.keys[std::min(rows_.failed_row, row_count - 1)];
        error_[sizeof error_ - 1] = 0;
        throw std::runtime_error(error_[0] != 0 ? error_ : "an error, of which it says nothing");
    }

    const PluginRule& rule_;
    const RuleContext& context_;
    const size_t pushed_bytes_;  ///< of a row; the rule may write to rows_
    weir_rows rows_{};
    char error_[kErrorBytesMax] = {};
};

template <class T>
void run_plugin(std::byte* values, std::byte* state, const std::byte* pushed, size_t row_count,
                uint32_t width, const RuleContext& context) {
    if (row_count == 0) return;
    PluginCalls calls(value_type_of<T>(), width, context);
    calls.update(0, values, state, pushed, row_count);
}

/// Rows that happen to lie side by side come in one call.
template <class T>
void run_plugin_on_rows(const RowTarget& target, std::span<const uint32_t> rows,
                        const std::byte* pushed, const RuleContext& context) {
    const size_t value_bytes = target.width * sizeof(T);
    const size_t state_bytes = context.state_bytes;
    const kernels::WideRows at(target, value_bytes, state_bytes);
    const size_t ahead = kernels::wide_rows_ahead(value_bytes + state_bytes);
    PluginCalls calls(value_type_of<T>(), target.width, context);
    calls.set_strides(target.values.stride_bytes, target.state.stride_bytes);
    size_t asked = 0;  // rows that were prefetched
    for (size_t r = 0; r < rows.size();) {
        for (; asked < std::min(rows.size(), r + ahead); ++asked)
            at.prefetch(rows[asked]);
        size_t side_by_side = target.values.run(rows[r]);
        if (state_bytes != 0)
            side_by_side = std::min<size_t>(side_by_side, target.state.run(rows[r]));
        side_by_side = std::min({side_by_side, asked - r});
        size_t count = 1;
        while (count < side_by_side && rows[r + count] == rows[r] + count)
            ++count;
        const kernels::WideRows::Row first = at.at(rows[r]);
        calls.update(r, first.values, first.state, pushed, count);
        pushed += count * calls.pushed_bytes();
        r += count;
    }
}

/// Rounded up, so that what follows it is aligned.
size_t state_bytes_of(const weir_rule& rule, ValueType type, size_t width) {
    if (rule.state_bytes == nullptr) return 0;
    const size_t asked =
        rule.state_bytes(static_cast<uint32_t>(type), static_cast<uint32_t>(width), rule.user);
    const size_t size = size_of(type);
    constexpr size_t kTooMany = TableSchema::kStateBytesMax + sizeof(uint64_t);
    return (std::min(asked, kTooMany) + size - 1) / size * size;
}

Error refused_rule(std::string_view rule, std::string_view why) {
    return {Errc::kInvalidArgument,
            fmt::format("its rule{} {}", rule.empty() ? "" : fmt::format(" '{}'", rule), why)};
}

Status check_number_names(std::string_view rule, std::string_view what, const auto* numbers,
                          size_t count) {
    if (count > WEIR_NUMBERS_MAX || (count > 0 && numbers == nullptr))
        return refused_rule(rule, fmt::format("has {} {}s{}; {} are the most", count, what,
                                              numbers == nullptr ? ", and no array of them" : "",
                                              WEIR_NUMBERS_MAX));
    for (size_t i = 0; i < count; ++i) {
        const char* const name = name_or_null(numbers[i].name);
        if (name == nullptr) {
            return refused_rule(rule, fmt::format("has no name for {} {}: one of 1 to {} bytes, "
                                                  "without control characters",
                                                  what, i + 1, WEIR_NAME_BYTES_MAX));
        }
        for (size_t other = 0; other < i; ++other) {
            if (std::strcmp(numbers[other].name, name) == 0)
                return refused_rule(rule, fmt::format("has two {}s '{}'", what, name));
        }
    }
    return {};
}

/// But for its name.
Status check_facts(const weir_rule& rule) {
    const std::string_view name = rule.name;
    if (rule.update == nullptr) return refused_rule(name, "has no function `update`");
    if (rule.types == 0 || (rule.types & ~WEIR_TYPES_ALL) != 0)
        return refused_rule(name, fmt::format("has `types` {:#x}: set a WEIR_TYPE() of each type "
                                              "that it can update, and nothing else",
                                              rule.types));
    if (rule.combine > WEIR_MEAN)
        return refused_rule(
            name, fmt::format("has `combine` {}, which is no enum weir_combine", rule.combine));
    if (rule.combine == WEIR_MEAN && (rule.types & ~WEIR_TYPES_FLOATING) != 0)
        return refused_rule(name, "combines by WEIR_MEAN, which is for floating types alone");
    if ((rule.flags & ~kFlags) != 0 || rule.zero != 0)
        return refused_rule(name, fmt::format("has `flags` {:#x} or a field `zero` {}, which this "
                                              "version of Weir does not know",
                                              rule.flags, rule.zero));
    if (rule.pushed_values > WEIR_PUSHED_VALUES_MAX)
        return refused_rule(name, fmt::format("has `pushed_values` {}; {} are the most",
                                              rule.pushed_values, WEIR_PUSHED_VALUES_MAX));
    WEIR_TRY(check_number_names(name, "parameter", rule.parameters, rule.parameter_count));
    WEIR_TRY(check_number_names(name, "argument", rule.arguments, rule.argument_count));
    for (const weir_argument& one : std::span(rule.arguments, rule.argument_count)) {
        if (std::isfinite(one.otherwise) && (one.otherwise >= 0 || one.may_be_negative != 0))
            continue;
        return refused_rule(name, fmt::format("has an argument '{}' which is {} unless a push says "
                                              "otherwise, and may not be that",
                                              one.name, one.otherwise));
    }
    if (rule.initial_state != nullptr && rule.state_bytes == nullptr)
        return refused_rule(name, "has a function `initial_state`, and none for `state_bytes`");
    return {};
}

/// The narrowest rows, and those by which RuleEntry::hash() compares rules.
Status check_state(const weir_rule& rule) {
    constexpr uint32_t kWidths[] = {1, 5};
    for (size_t i = 0; i < kComputedTypeCount; ++i) {
        if ((rule.types & WEIR_TYPE(i)) == 0) continue;
        for (const uint32_t width : kWidths) {
            const auto type = static_cast<ValueType>(i);
            if (state_bytes_of(rule, type, width) <= TableSchema::kStateBytesMax) continue;
            return refused_rule(rule.name,
                                fmt::format("keeps more state for a row of {} {} than "
                                            "{} bytes, which are the most",
                                            width, to_string(type), TableSchema::kStateBytesMax));
        }
    }
    return {};
}

std::shared_ptr<PluginRule> copy_of(const weir_rule& rule, std::shared_ptr<void> object) {
    auto copy = std::make_shared<PluginRule>();
    copy->object = std::move(object);
    copy->is = rule;
    copy->is.pushed_values = std::max<uint32_t>(1, rule.pushed_values);
    copy->name = rule.name;
    copy->names.reserve(rule.parameter_count + rule.argument_count);
    const auto keep = [&](const char* name) { return copy->names.emplace_back(name).c_str(); };
    for (const weir_parameter& one : std::span(rule.parameters, rule.parameter_count))
        copy->parameters.push_back({keep(one.name), one.may_be_zero != 0, one.below_one != 0});
    for (const weir_argument& one : std::span(rule.arguments, rule.argument_count))
        copy->arguments.push_back({keep(one.name), one.otherwise, one.may_be_negative != 0});
    copy->is.name = nullptr;
    copy->is.parameters = nullptr;
    copy->is.arguments = nullptr;
    return copy;
}

}  // namespace

Result<RuleEntry> make_plugin_rule(const weir_rule& rule, std::shared_ptr<void> object) {
    if (const Status known = check_struct(rule, "weir_rule"); !known)
        return refused_rule("", known.error().text());
    if (name_or_null(rule.name) == nullptr)
        return refused_rule("", fmt::format("has no name: one of 1 to {} bytes, without control "
                                            "characters",
                                            WEIR_NAME_BYTES_MAX));
    WEIR_TRY(check_facts(rule));
    WEIR_TRY(check_state(rule));
    const std::shared_ptr<PluginRule> copy = copy_of(rule, std::move(object));
    const weir_rule& is = copy->is;
    RuleEntry entry;
    entry.name = copy->name;
    entry.pushed_values = is.pushed_values;
    entry.combine = static_cast<Combine>(is.combine);
    entry.by_row = true;
    entry.wants_keys = (is.flags & WEIR_WANTS_KEYS) != 0;
    entry.begins_at_zero = (is.flags & WEIR_BEGINS_AT_ZERO) != 0;
    if ((is.flags & WEIR_ROUNDS_AT_RANDOM) != 0) entry.rounding = Rounding::kStochastic;
    entry.parameters = copy->parameters;
    entry.names_parameters = true;
    entry.arguments = copy->arguments;
    entry.version = is.version;
    entry.code = copy.get();
    entry.check = [&is](const RuleParameters& given, uint32_t width) {
        return is.check == nullptr ? nullptr : is.check(given.value.data(), width, is.user);
    };
    if (is.initial_state != nullptr) {
        entry.fill_state = [&is](std::byte* state, ValueType type, uint32_t width,
                                 const RuleParameters& given) {
            is.initial_state(state, static_cast<uint32_t>(type), width, given.value.data(),
                             is.user);
        };
    }
    for (size_t i = 0; i < entry.kernels.size(); ++i) {
        const auto type = static_cast<ValueType>(i);
        if ((is.types & WEIR_TYPE(i)) == 0) continue;
        entry.kernels[i] = with_value_type(type, [&]<class T>() {
            return RuleKernels{&run_plugin<T>, &run_plugin_on_rows<T>, [&is, type](size_t width) {
                                   return state_bytes_of(is, type, width);
                               }};
        });
    }
    entry.owner = copy;
    return entry;
}

}  // namespace weir
