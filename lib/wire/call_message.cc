// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/call_message.h"

#include <utility>

#include "lib/base/byte_codec.h"

namespace weir {

std::vector<std::byte> CallMessage::encode() const {
    ByteWriter writer;
    writer.number(function);
    writer.number(static_cast<uint32_t>(numbers.size()))
        .number(static_cast<uint32_t>(tables.size()));
    for (const double number : numbers)
        writer.number(number);
    for (const uint32_t table : tables)
        writer.number(table);
    if (tables.size() % 2 != 0) writer.number(uint32_t{0});
    return std::move(writer).take();
}

std::vector<std::byte> CallMessage::encode_with_count() const {
    const std::vector<std::byte> words = encode();
    ByteWriter writer;
    writer.number(uint64_t{words.size() / sizeof(uint64_t)}).raw(words);
    return std::move(writer).take();
}

std::optional<CallMessage> CallMessage::decode(std::span<const std::byte> words) {
    ByteReader reader(words);
    CallMessage message;
    message.function = reader.number<uint64_t>();
    const auto number_count = reader.number<uint32_t>();
    const auto table_count = reader.number<uint32_t>();
    if (number_count > kNumbersMax || table_count > kTablesMax) return std::nullopt;
    message.numbers.resize(number_count);
    for (double& number : message.numbers)
        number = reader.number<double>();
    message.tables.resize(table_count);
    for (uint32_t& table : message.tables)
        table = reader.number<uint32_t>();
    if (table_count % 2 != 0 && reader.number<uint32_t>() != 0) return std::nullopt;
    if (!reader.done()) return std::nullopt;
    return message;
}

}  // namespace weir
