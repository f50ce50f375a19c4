// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/replicated_log.h"

#include <algorithm>
#include <utility>

#include "lib/consensus/raft_log.h"

namespace weir::consensus {
namespace {

constexpr size_t kMembersMax = 9;
constexpr uint32_t kEntryCountMax = 2048;

/// What is wrong with them; nullptr if nothing is.
const char* fault_of(const ReplicatedLogOptions& options) {
    std::vector<uint64_t> ids;
    for (const Member& member : options.members)
        ids.push_back(member.id);
    std::ranges::sort(ids);
    if (ids.empty() || ids.size() > kMembersMax) return "a log has 1 to 9 replicas";
    if (ids.front() == 0 || std::ranges::adjacent_find(ids) != ids.end())
        return "replicas of a log have different ids, which are not 0";
    if (!std::ranges::binary_search(ids, options.self)) return "the replica is not a member";
    if (options.election_ns < 10 * kMillisecond || options.heartbeat_ns < kMillisecond ||
        options.heartbeat_ns > options.election_ns / 2 || options.election_ns > 60 * kSecond)
        return "an election waits 10 ms to 60 s, and a heartbeat at least 1 ms and half as long";
    const auto is_count = [](uint32_t count) { return count > 0 && count <= kEntryCountMax; };
    if (!is_count(options.entries_per_snapshot) || !is_count(options.entries_kept))
        return "1 to 2048 entries are kept, and may pass before a snapshot";
    return nullptr;
}

}  // namespace

bool have_replicated_log() noexcept {
    return true;
}

Result<std::unique_ptr<ReplicatedLog>> start_replicated_log(
    const ReplicatedLogOptions& options, std::unique_ptr<transport::Endpoint> endpoint,
    const Clock& clock, Replicated& replicated) {
    if (const char* const fault = fault_of(options); fault != nullptr)
        return Error(Errc::kInvalidArgument, fault);
    auto log = std::make_unique<RaftLog>(options, std::move(endpoint), clock, replicated);
    log->start();
    return std::unique_ptr<ReplicatedLog>(std::move(log));
}

}  // namespace weir::consensus
