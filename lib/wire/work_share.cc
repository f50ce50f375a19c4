// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/work_share.h"

#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"

namespace weir {

/// Pieces travel as bits, so that a share fits into a small message.
std::vector<std::byte> WorkShare::encode() const {
    std::vector<std::byte> held((piece_count + 7) / 8);
    for (const uint32_t piece : pieces) {
        WEIR_CHECK(piece < piece_count);
        held[piece / 8] |= std::byte{1} << piece % 8;
    }
    ByteWriter writer;
    writer.number(round).number(index).number(worker_count).number(piece_count).raw(held);
    return std::move(writer).take();
}

std::optional<WorkShare> WorkShare::decode(std::span<const std::byte> body) {
    ByteReader reader(body);
    WorkShare share;
    share.round = reader.number<uint64_t>();
    share.index = reader.number<uint32_t>();
    share.worker_count = reader.number<uint32_t>();
    share.piece_count = reader.number<uint32_t>();
    if (share.piece_count > kPiecesMax || share.index >= share.worker_count) return std::nullopt;
    for (uint32_t at = 0; at < share.piece_count; at += 8) {
        const auto held = reader.number<uint8_t>();
        for (uint32_t bit = 0; bit < 8; ++bit) {
            if ((held >> bit & 1U) == 0) continue;
            if (at + bit >= share.piece_count) return std::nullopt;
            share.pieces.push_back(at + bit);
        }
    }
    if (!reader.done()) return std::nullopt;
    return share;
}

Error reassigned() {
    return {Errc::kReassigned,
            "workers have come or gone since this worker took its share of the work; take it anew"};
}

}  // namespace weir
