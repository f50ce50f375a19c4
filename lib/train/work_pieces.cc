// SPDX-License-Identifier: Apache-2.0
#include "lib/train/work_pieces.h"

namespace weir {

WorkShare share_of_all(const Client& client, uint32_t piece_count) {
    WorkShare share{0, client.worker(), client.worker_count_at_start(), piece_count, {}};
    const auto first_of = [&](uint32_t worker) {
        return static_cast<uint32_t>(uint64_t{piece_count} * worker / share.worker_count);
    };
    for (uint32_t piece = first_of(share.index); piece < first_of(share.index + 1); ++piece)
        share.pieces.push_back(piece);
    return share;
}

}  // namespace weir
