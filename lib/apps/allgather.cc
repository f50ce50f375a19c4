// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/allgather.h"

#include <algorithm>
#include <numeric>

namespace weir::apps {

Result<std::vector<uint64_t>> allgather(BlockExchange& exchange, std::span<const uint64_t> mine,
                                        bool wanted) {
    if (exchange.worker_count() == 1) return std::vector<uint64_t>(mine.begin(), mine.end());
    std::vector<double> counts(exchange.worker_count(), 0);
    counts[exchange.worker_index()] = static_cast<double>(mine.size());
    WEIR_TRY(exchange.sum(counts));
    const auto before = counts.begin() + exchange.worker_index();
    const auto my_begin = static_cast<uint64_t>(std::accumulate(counts.begin(), before, 0.0));
    const auto total = static_cast<uint64_t>(std::accumulate(counts.begin(), counts.end(), 0.0));
    const uint64_t my_end = my_begin + mine.size();

    std::vector<uint64_t> all(wanted ? total : 0);
    for (uint64_t begin = 0; begin < total; begin += kReduceValueCountMax) {
        const uint64_t end = std::min(begin + kReduceValueCountMax, total);
        const uint64_t first = std::clamp(my_begin, begin, end);
        const uint64_t last = std::clamp(my_end, first, end);
        const std::span<const uint64_t> part =
            first < last ? mine.subspan(first - my_begin, last - first) : mine.first(0);
        const std::span<uint64_t> window =
            wanted ? std::span(all).subspan(begin, end - begin) : std::span<uint64_t>();
        WEIR_TRY(exchange.concatenate(first - begin, part, window));
    }
    return all;
}

}  // namespace weir::apps
