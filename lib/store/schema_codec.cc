// SPDX-License-Identifier: Apache-2.0
#include "lib/store/schema_codec.h"

#include <span>

#include "lib/base/byte_codec.h"

namespace weir {
namespace {

constexpr size_t kTextBytesMax = 256;
constexpr uint8_t kNotFinite = 1;  // a flag: allow_not_finite
constexpr uint8_t kNotSaved = 2;   // another one: not in_checkpoints
constexpr uint8_t kAtRandom = 4;   // another one: stochastic rounding
constexpr uint8_t kCombined = 8;   // another one: combine follows max_delay
constexpr uint8_t kErasable = 16;  // another one: erasable
constexpr uint8_t kHasCodec = 32;  // another one: codec and codec_version follow combine
constexpr uint8_t kKnownFlags =
    kNotFinite | kNotSaved | kAtRandom | kCombined | kErasable | kHasCodec;

}  // namespace

std::string encode_schema(const TableSchema& schema) {
    ByteWriter writer;
    writer.text(schema.name).number(schema.layout).number(schema.value_type).number(schema.width);
    writer.number(schema.key_count).text(schema.rule);
    const InitialValue& initial = schema.initial_value;
    writer.number(initial.kind).number(initial.first).number(initial.second);
    writer.number(initial.seed).number(initial.generator);
    for (const double parameter : schema.parameters.value)
        writer.number(parameter);
    const int flags = (schema.allow_not_finite ? kNotFinite : 0) |
                      (schema.in_checkpoints ? 0 : kNotSaved) |
                      (schema.rounding == Rounding::kStochastic ? kAtRandom : 0) |
                      (schema.combine ? kCombined : 0) | (schema.erasable ? kErasable : 0) |
                      (schema.codec.empty() ? 0 : kHasCodec);
    writer.number(static_cast<uint8_t>(flags)).number(schema.max_delay);
    if (schema.combine) writer.number(*schema.combine);
    if (!schema.codec.empty()) writer.text(schema.codec).number(schema.codec_version);
    if (schema.rule_hash != 0) writer.number(schema.rule_version).number(schema.rule_hash);
    const std::span<const std::byte> bytes = writer.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<TableSchema> decode_schema(std::string_view bytes, uint32_t form) {
    ByteReader reader(std::as_bytes(std::span(bytes)));
    TableSchema schema;
    schema.name = reader.text(kTextBytesMax);
    schema.layout = reader.number<Layout>();
    schema.value_type = reader.number<ValueType>();
    schema.width = reader.number<uint32_t>();
    schema.key_count = reader.number<uint64_t>();
    schema.rule = reader.text(kTextBytesMax);
    InitialValue& initial = schema.initial_value;
    if (form == 1) {
        initial = reader.number<double>();
    } else {
        initial.kind = reader.number<InitialValue::Kind>();
        initial.first = reader.number<double>();
        initial.second = reader.number<double>();
        initial.seed = reader.number<uint64_t>();
        initial.generator = reader.number<uint32_t>();
        if (initial.kind > InitialValue::Kind::kNormal) return std::nullopt;
    }
    const size_t parameters = form == 1 ? 4 : schema.parameters.value.size();
    for (double& parameter : std::span(schema.parameters.value).first(parameters))
        parameter = reader.number<double>();
    const auto flags = reader.number<uint8_t>();
    schema.allow_not_finite = (flags & kNotFinite) != 0;
    schema.in_checkpoints = (flags & kNotSaved) == 0;
    schema.rounding = (flags & kAtRandom) != 0 ? Rounding::kStochastic : Rounding::kNearest;
    schema.erasable = (flags & kErasable) != 0;
    schema.max_delay = reader.number<uint32_t>();
    if ((flags & kCombined) != 0) {
        schema.combine = reader.number<Combine>();
        if (*schema.combine > Combine::kMean) return std::nullopt;
    }
    if ((flags & kHasCodec) != 0) {
        schema.codec = reader.text(kTextBytesMax);
        schema.codec_version = reader.number<uint32_t>();
        if (schema.codec.empty()) return std::nullopt;
    }
    if (!reader.done()) {  // not of a checkpoint from before rules had versions
        schema.rule_version = reader.number<uint32_t>();
        schema.rule_hash = reader.number<uint64_t>();
        if (schema.rule_hash == 0) return std::nullopt;
        if (form == 1) schema.rule_hash = 0;  // of what was compared then
    }
    if (!reader.done() || (flags & ~kKnownFlags) != 0 || !is_valid(schema.value_type) ||
        (schema.layout != Layout::kDense && schema.layout != Layout::kSparse)) {
        return std::nullopt;
    }
    return schema;
}

}  // namespace weir
