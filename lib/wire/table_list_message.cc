// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/table_list_message.h"

#include "lib/base/byte_codec.h"

namespace weir {

std::vector<std::byte> TableListMessage::encode() const {
    ByteWriter writer;
    writer.number(next);
    for (const TableMessage& table : tables)
        writer.number(table.table).text(table.name).text(table.schema);
    return std::move(writer).take();
}

std::optional<TableListMessage> TableListMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    TableListMessage message;
    message.next = reader.number<uint32_t>();
    uint64_t least = 0;  // of the next number
    while (reader.ok() && !reader.done()) {
        TableMessage& table = message.tables.emplace_back();
        table.table = reader.number<uint32_t>();
        table.name = reader.text(TableMessage::kNameBytesMax);
        table.schema = reader.text(TableMessage::kSchemaBytesMax);
        if (table.name.empty() || table.table < least) return std::nullopt;
        least = uint64_t{table.table} + 1;
    }
    const bool goes_on = least != 0 && message.next >= least;
    if (!reader.done() || (message.next != 0 && !goes_on)) return std::nullopt;
    return message;
}

}  // namespace weir
