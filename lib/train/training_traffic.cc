// SPDX-License-Identifier: Apache-2.0
#include "lib/train/training_traffic.h"

#include <vector>

namespace weir {
namespace {

/// Counters become those of all workers.
Status sum_counters(Client& client, const std::vector<uint64_t*>& counters) {
    std::vector<uint64_t> sums;
    for (const uint64_t* const counter : counters)
        sums.push_back(*counter);
    WEIR_TRY(client.allreduce(sums));
    for (size_t i = 0; i < sums.size(); ++i)
        *counters[i] = sums[i];
    return {};
}

}  // namespace

Result<TrainingTraffic> count_traffic(Client& client) {
    WEIR_ASSIGN(ClientStats stats, client.stats());
    std::vector<uint64_t*> counters{&stats.bytes_copied, &stats.registered_bytes,
                                    &stats.filters.rows_pushed, &stats.filters.rows_kept,
                                    &stats.filters.rows_held};
    for (FilterBytes FilterTraffic::*const of : kFilterBytes) {
        counters.push_back(&(stats.filters.*of).before);
        counters.push_back(&(stats.filters.*of).after);
    }
    WEIR_TRY(sum_counters(client, counters));
    return TrainingTraffic{stats.servers_bytes_sent, stats.servers_bytes_received, stats.filters,
                           stats.bytes_copied + stats.servers_bytes_copied,
                           stats.registered_bytes + stats.servers_registered_bytes};
}

}  // namespace weir
