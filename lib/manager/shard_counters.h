// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardCounters: the manager asks all shards for their counters, and waits a while for them.

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lib/base/clock.h"
#include "lib/manager/job_tables.h"
#include "lib/node/outbox.h"
#include "lib/wire/messages.h"

namespace weir {

/// One question at a time.
///
/// Thread: the manager's
class ShardCounters {
public:
    /// A shard that has not answered by then is left out.
    static constexpr uint64_t kAnswerNs = 2 * kSecond;

    explicit ShardCounters(Outbox& outbox) noexcept : outbox_(outbox) {}

    [[nodiscard]] bool is_asking() const noexcept { return is_asking_; }

    void ask(const std::vector<ShardPeer>& shards, uint64_t now_ns);

    /// Whether a reply from a shard answers a question about its counters.
    [[nodiscard]] static bool is_answer(const wire::FrameHeader& header) noexcept {
        return header.request >= kRequests;
    }

    /// Errors: Errc::kProtocol if the answer is malformed
    [[nodiscard]] Status take(uint32_t shard, const wire::Frame& frame);

    /// The shard is in the job no more.
    void forget_shard(uint32_t shard) { missing_.erase(shard); }

    /// Ends the question if all have answered, or it has taken too long. True once for each.
    [[nodiscard]] bool ends(uint64_t now_ns);

    /// By shard, of the last question.
    [[nodiscard]] const std::map<uint32_t, StatsMessage>& counters() const noexcept {
        return counters_;
    }

private:
    static constexpr uint64_t kRequests = uint64_t{1} << 32;  // above all numbers of tables

    Outbox& outbox_;
    bool is_asking_ = false;
    uint64_t request_ = kRequests;
    uint64_t since_ns_ = 0;
    std::set<uint32_t> missing_;
    std::map<uint32_t, StatsMessage> counters_;
};

}  // namespace weir
