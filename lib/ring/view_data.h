// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ViewData: who holds what and who takes part, as plain data: what a view says in one epoch.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/random.h"

namespace weir {

/// No shard has this number.
inline constexpr uint32_t kNoShard = ~0U;

/// The first iteration of a worker that takes part in no iteration of a table.
inline constexpr uint64_t kNoIteration = ~uint64_t{0};

/// What a view may hold at most. A view that was received is refused beyond this.
struct ViewLimits {
    static constexpr size_t kSegmentsMax = size_t{1} << 16;
    static constexpr size_t kServersMax = size_t{1} << 16;
    static constexpr size_t kShardsMax = size_t{1} << 16;
    static constexpr size_t kWorkersMax = size_t{1} << 16;
    static constexpr size_t kMembersMax = size_t{1} << 20;
    static constexpr size_t kWithdrawalsMax = size_t{1} << 16;
    static constexpr size_t kBackupsMax = 3;
    static constexpr size_t kAddressBytesMax = 512;
};

/// A process that holds parts of the ring.
struct ViewServer {
    uint32_t number = 0;  ///< never used twice
    uint32_t rank = 0;    ///< of the process in the job, for messages to people
    uint64_t host = 0;    ///< equal for the servers of one host; means nothing else
    /// Its share of the ring in relation to the other servers' weights, at least 1. The unit is
    /// the caller's: all 1, or the size of each server's pool.
    uint32_t weight = 1;
    friend bool operator==(const ViewServer&, const ViewServer&) = default;
};

struct ViewShard {
    uint32_t number = 0;  ///< never used twice
    uint32_t server = 0;
    uint64_t since = 0;   ///< the epoch in which the positions that it is primary of last changed
    std::string address;  ///< where workers connect to
    friend bool operator==(const ViewShard&, const ViewShard&) = default;
};

/// A shard that is about to get a copy of a segment.
struct ViewLearner {
    uint32_t shard = kNoShard;     ///< kNoShard: there is no learner
    uint32_t replaces = kNoShard;  ///< whose role it takes once complete; kNoShard: a new backup
    uint64_t named = 0;            ///< the epoch that named it
    friend bool operator==(const ViewLearner&, const ViewLearner&) = default;
};

/// The positions from `first` to just before the next segment's, or to the end of the ring.
struct ViewSegment {
    uint64_t first = 0;
    uint32_t primary = kNoShard;  ///< kNoShard: no copy is left, the segment is lost
    /// The first backup follows the primary; what is not used is kNoShard, at the end.
    std::array<uint32_t, ViewLimits::kBackupsMax> backups = {kNoShard, kNoShard, kNoShard};
    ViewLearner learner = {};

    [[nodiscard]] size_t backup_count() const noexcept {
        size_t count = 0;
        while (count < backups.size() && backups[count] != kNoShard)
            ++count;
        return count;
    }

    [[nodiscard]] bool has_learner() const noexcept { return learner.shard != kNoShard; }

    friend bool operator==(const ViewSegment&, const ViewSegment&) = default;
};

struct ViewWorker {
    uint32_t number = 0;  ///< never used twice
    uint32_t rank = 0;
    /// From which iteration on it is a member of the tables for which there is no ViewMember: 1,
    /// or kNoIteration. Who joins has a ViewMember for every table that existed then, so this
    /// speaks of tables that were made later, when nothing could have been closed.
    uint64_t first_iteration = 1;
    friend bool operator==(const ViewWorker&, const ViewWorker&) = default;
};

/// The first iteration of a worker in one table.
struct ViewMember {
    uint32_t worker = 0;
    uint32_t table = 0;
    uint64_t first_iteration = 1;  ///< at least 1; kNoIteration: it takes part in none
    friend bool operator==(const ViewMember&, const ViewMember&) = default;
};

/// Iterations of a table of which a worker that has left in order did not push all: it had withdrawn
/// its part of each, at a deadline say. They fail wherever they are not closed.
struct ViewWithdrawal {
    uint32_t worker = 0;  ///< gone
    uint32_t table = 0;
    uint64_t first_iteration = 1;
    uint64_t last_iteration = 1;
    friend bool operator==(const ViewWithdrawal&, const ViewWithdrawal&) = default;
};

/// Every list is in ascending order of view_key(). The default is the view before the first one:
/// it has no servers and no workers, and the whole ring has no primary.
struct ViewData {
    uint64_t epoch = 0;
    uint32_t next_server = 0;  ///< all numbers below were given out; who is not listed is gone
    uint32_t next_shard = 0;
    uint32_t next_worker = 0;
    std::vector<ViewServer> servers;
    std::vector<ViewShard> shards;
    std::vector<ViewSegment> segments = std::vector<ViewSegment>(1);
    std::vector<ViewWorker> workers;
    std::vector<ViewMember> members;
    std::vector<ViewWithdrawal> withdrawals;
    friend bool operator==(const ViewData&, const ViewData&) = default;
};

[[nodiscard]] inline uint64_t view_key(const ViewServer& server) noexcept {
    return server.number;
}

[[nodiscard]] inline uint64_t view_key(const ViewShard& shard) noexcept {
    return shard.number;
}

[[nodiscard]] inline uint64_t view_key(const ViewSegment& segment) noexcept {
    return segment.first;
}

[[nodiscard]] inline uint64_t view_key(const ViewWorker& worker) noexcept {
    return worker.number;
}

[[nodiscard]] inline uint64_t view_key(const ViewMember& member) noexcept {
    return uint64_t{member.worker} << 32 | member.table;
}

[[nodiscard]] inline uint64_t view_key(const ViewWithdrawal& withdrawal) noexcept {
    return uint64_t{withdrawal.worker} << 32 | withdrawal.table;
}

/// The last position of segment `i`.
[[nodiscard]] inline uint64_t last_position(const std::vector<ViewSegment>& segments,
                                            size_t i) noexcept {
    return i + 1 < segments.size() ? segments[i + 1].first - 1 : ~uint64_t{0};
}

/// How many positions segment `i` has: up to 2^64.
[[nodiscard]] inline uint128 position_count(const std::vector<ViewSegment>& segments,
                                            size_t i) noexcept {
    return static_cast<uint128>(last_position(segments, i) - segments[i].first) + 1;
}

}  // namespace weir
