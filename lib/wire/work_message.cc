// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/work_message.h"

#include <algorithm>
#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/wire/work_share.h"

namespace weir {

std::vector<std::byte> WorkMessage::encode() const {
    ByteWriter writer;
    writer.number(piece_count).text(description);
    return std::move(writer).take();
}

std::optional<WorkMessage> WorkMessage::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    WorkMessage message;
    message.piece_count = reader.number<uint32_t>();
    message.description = reader.text(WorkShare::kDescriptionBytesMax);
    const bool is_in_bounds =
        message.piece_count > 0 && message.piece_count <= WorkShare::kPiecesMax;
    if (!reader.done() || !is_in_bounds) return std::nullopt;
    return message;
}

std::vector<std::byte> LostWorkersMessage::encode() const {
    ByteWriter writer;
    for (const uint32_t worker : workers)
        writer.number(worker);
    return std::move(writer).take();
}

std::optional<LostWorkersMessage> LostWorkersMessage::decode(std::span<const std::byte> body) {
    const size_t count = body.size() / sizeof(uint32_t);
    if (count > kWorkersMax) return std::nullopt;
    ByteReader reader(body);
    LostWorkersMessage message;
    for (size_t i = 0; i < count; ++i)
        message.workers.push_back(reader.number<uint32_t>());
    const bool is_ascending =
        std::ranges::adjacent_find(message.workers, std::ranges::greater_equal()) ==
        message.workers.end();
    if (!reader.done() || !is_ascending) return std::nullopt;
    return message;
}

}  // namespace weir
