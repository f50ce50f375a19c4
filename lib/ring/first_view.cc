// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/ring/plan.h"

namespace weir {
namespace {

constexpr uint128 kRingPositions = static_cast<uint128>(1) << 64;

/// A shard and its weight among all shards, times a number that is the same for all.
struct Weighed {
    uint32_t shard;
    uint32_t of_server;  ///< it is the server's first, second ... shard
    uint32_t weight;
    uint32_t shard_count;
};

}  // namespace

uint32_t points_for(size_t shard_count) noexcept {
    constexpr size_t kPoints = ViewLimits::kSegmentsMax / 2;
    return static_cast<uint32_t>(
        std::clamp<size_t>(kPoints / std::max<size_t>(shard_count, 1), 1, 16));
}

Result<View> first_view(std::span<const NewServer> servers, uint32_t points_per_shard) {
    if (servers.empty())
        return Error(Errc::kInvalidArgument, "ring: at least one server is needed");
    ViewData data;
    std::vector<Weighed> shards;
    for (const NewServer& server : servers) {
        const uint32_t number = data.next_server++;
        data.servers.push_back({number, server.rank, server.host, server.weight});
        const auto count = static_cast<uint32_t>(server.addresses.size());
        for (uint32_t i = 0; i < count; ++i) {
            shards.push_back({data.next_shard, i, server.weight, count});
            data.shards.push_back({data.next_shard++, number, 1, server.addresses[i]});
        }
    }
    data.epoch = 1;
    if (points_per_shard == 0 ||
        uint64_t{points_per_shard} * shards.size() > ViewLimits::kSegmentsMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("ring: {} shards of {} points each: there must be at least 1 "
                                 "point each and at most {} in all",
                                 shards.size(), points_per_shard, ViewLimits::kSegmentsMax));
    }
    // Neighbours on the ring are of different servers, so that a range is many servers' work.
    std::ranges::stable_sort(shards, {}, &Weighed::of_server);
    uint64_t weight_sum = 0;
    for (const NewServer& server : servers)
        weight_sum += server.weight;
    if (weight_sum == 0) return Error(Errc::kInvalidArgument, "ring: all servers have weight 0");
    data.segments.clear();
    uint64_t first = 0;
    for (uint32_t lap = 0; lap < points_per_shard; ++lap) {
        for (const Weighed& shard : shards) {
            ViewSegment segment{.first = first, .primary = shard.shard};
            const uint128 share = kRingPositions / weight_sum * shard.weight / shard.shard_count;
            const uint128 length = share / points_per_shard;
            if (length == 0) return Error(Errc::kInvalidArgument, "ring: weights too far apart");
            data.segments.push_back(segment);
            first += static_cast<uint64_t>(length);  // one shard with all: 0, and nothing follows
        }
    }
    return View::make(std::move(data));
}

}  // namespace weir
