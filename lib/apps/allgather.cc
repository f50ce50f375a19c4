// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/allgather.h"

#include <algorithm>
#include <numeric>

namespace weir::apps {

Result<std::vector<uint64_t>> allgather(BlockExchange& exchange, std::span<const uint64_t> mine) {
    if (exchange.worker_count() == 1) return std::vector<uint64_t>(mine.begin(), mine.end());
    std::vector<double> counts(exchange.worker_count(), 0);
    counts[exchange.worker_index()] = static_cast<double>(mine.size());
    WEIR_TRY(exchange.sum(counts));
    const auto before = counts.begin() + exchange.worker_index();
    const auto my_begin = static_cast<uint64_t>(std::accumulate(counts.begin(), before, 0.0));
    const auto total = static_cast<uint64_t>(std::accumulate(counts.begin(), counts.end(), 0.0));

    std::vector<uint64_t> all(total, 0);
    std::copy(mine.begin(), mine.end(), all.begin() + static_cast<int64_t>(my_begin));
    std::vector<double> halves;  // a double holds 32 bits exactly, not 64
    constexpr uint64_t kWindow = kReduceValueCountMax / 2;
    for (uint64_t begin = 0; begin < total; begin += kWindow) {
        const uint64_t count = std::min(kWindow, total - begin);
        halves.resize(2 * count);
        for (uint64_t i = 0; i < count; ++i) {
            halves[2 * i] = static_cast<double>(all[begin + i] >> 32);
            halves[2 * i + 1] = static_cast<double>(all[begin + i] & 0xffffffff);
        }
        WEIR_TRY(exchange.sum(halves));
        for (uint64_t i = 0; i < count; ++i) {
            all[begin + i] = (static_cast<uint64_t>(halves[2 * i]) << 32) |
                             static_cast<uint64_t>(halves[2 * i + 1]);
        }
    }
    return all;
}

}  // namespace weir::apps
