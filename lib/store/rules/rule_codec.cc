// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/rule_codec.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "lib/base/byte_codec.h"
#include "lib/base/printable.h"
#include "lib/store/table_schema.h"

namespace weir {
namespace {

constexpr size_t kNameBytesMax = 256;  // as a schema's
constexpr uint32_t kPushedMax = ~uint32_t{0} / TableSchema::kWidthMax;

/// What a described entry refers to.
struct RuleDescription {
    std::deque<std::string> names;  // which do not move
    std::vector<RuleParameter> parameters;
    std::vector<RuleArgument> arguments;

    const char* read_name(ByteReader& reader) {
        return names.emplace_back(reader.text(kNameBytesMax)).c_str();
    }

    /// False: what they say cannot be.
    bool read(ByteReader& reader) {
        const auto parameter_count = reader.number<uint8_t>();
        if (parameter_count > RuleParameters{}.value.size()) return false;
        for (size_t i = 0; i < parameter_count; ++i) {
            RuleParameter& one = parameters.emplace_back();
            one.name = read_name(reader);
            if (!reader.flag(one.may_be_zero) || !reader.flag(one.below_one)) return false;
        }
        const auto argument_count = reader.number<uint8_t>();
        if (argument_count > RuleArguments{}.value.size()) return false;
        for (size_t i = 0; i < argument_count; ++i) {
            RuleArgument& one = arguments.emplace_back();
            one.name = read_name(reader);
            one.otherwise = reader.number<double>();
            if (!reader.flag(one.may_be_negative) || !std::isfinite(one.otherwise)) return false;
        }
        return std::ranges::all_of(names,
                                   [](const std::string& name) { return is_printable_name(name); });
    }
};

[[noreturn]] void run_described(std::byte*, std::byte*, const std::byte*, size_t, uint32_t,
                                const RuleContext&) {
    throw std::logic_error("a rule that is described alone has no code");
}

[[noreturn]] void run_described_rows(const RowTarget&, std::span<const uint32_t>, const std::byte*,
                                     const RuleContext&) {
    throw std::logic_error("a rule that is described alone has no code");
}

}  // namespace

std::string encode_rule(const RuleEntry& rule) {
    ByteWriter writer;
    uint32_t types = 0;
    for (size_t i = 0; i < rule.kernels.size(); ++i)
        types |= rule.kernels[i].run != nullptr ? uint32_t{1} << i : 0;
    writer.text(rule.name).number(rule.version).number(types).number(rule.pushed_values);
    writer.number(rule.combine).number(rule.rounding);
    for (const bool flag :
         {rule.by_row, rule.wants_keys, rule.begins_at_zero, rule.names_parameters})
        writer.number(static_cast<uint8_t>(flag));
    writer.number(static_cast<uint8_t>(rule.parameters.size()));
    for (const RuleParameter& one : rule.parameters) {
        writer.text(one.name).number(static_cast<uint8_t>(one.may_be_zero));
        writer.number(static_cast<uint8_t>(one.below_one));
    }
    writer.number(static_cast<uint8_t>(rule.arguments.size()));
    for (const RuleArgument& one : rule.arguments) {
        writer.text(one.name).number(one.otherwise);
        writer.number(static_cast<uint8_t>(one.may_be_negative));
    }
    const std::span<const std::byte> bytes = writer.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<RuleEntry> decode_rule(std::string_view bytes) {
    ByteReader reader(std::as_bytes(std::span(bytes)));
    RuleEntry rule;
    rule.is_described = true;
    rule.name = reader.text(kNameBytesMax);
    rule.version = reader.number<uint32_t>();
    const auto types = reader.number<uint32_t>();
    rule.pushed_values = reader.number<uint32_t>();
    rule.combine = reader.number<Combine>();
    rule.rounding = reader.number<Rounding>();
    for (bool* const flag :
         {&rule.by_row, &rule.wants_keys, &rule.begins_at_zero, &rule.names_parameters})
        if (!reader.flag(*flag)) return std::nullopt;
    const bool is_sound = is_printable_name(rule.name) && types >> rule.kernels.size() == 0 &&
                          rule.pushed_values >= 1 && rule.pushed_values <= kPushedMax &&
                          rule.combine <= Combine::kMean && rule.rounding <= Rounding::kStochastic;
    if (!is_sound) return std::nullopt;
    const auto its = std::make_shared<RuleDescription>();
    if (!its->read(reader) || !reader.done()) return std::nullopt;
    rule.parameters = its->parameters;
    rule.arguments = its->arguments;
    rule.owner = its;
    rule.check = [](const RuleParameters&, uint32_t) { return nullptr; };  // servers do that
    for (size_t i = 0; i < rule.kernels.size(); ++i) {
        if ((types >> i & 1) == 0) continue;
        rule.kernels[i] = {&run_described, &run_described_rows, [](size_t) { return size_t{0}; }};
    }
    return rule;
}

}  // namespace weir
