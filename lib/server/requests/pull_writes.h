// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PullWrites: the network writes that bring pulled values into workers' memory.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "lib/key/position_set.h"
#include "lib/server/requests/request.h"
#include "lib/server/shard_table.h"
#include "transport/transport.h"

namespace weir {

/// A write waits until the connection takes it and, if it is to pin rows, until nothing waits for
/// pinned rows; then it is posted, and it ends with a completion. next_ended() returns it.
///
/// Thread: the shard's
class PullWrites {
public:
    /// What is a reference must outlive this.
    PullWrites(transport::Endpoint& endpoint, KeptRequests& requests) noexcept
        : endpoint_(endpoint), requests_(requests) {}

    /// Posts the values of a pull, or queues it if it or another one has to wait. It must not end before
    /// next_ended() has returned it.
    void add(KeptRequest& pull);
    /// Posts the queued writes that need not wait any longer. Returns how many were posted.
    size_t post_waiting();

    /// The workers of all queued writes get a reply.
    void want_replies() noexcept;

    /// The write that was posted with `context` has ended.
    void end(uint64_t context, Errc status);

    /// Ends the queued writes of a connection that is closed. The posted ones still complete.
    void forget(transport::ConnectionId connection);

    /// Ends the queued writes that would take rows at these positions from their tables.
    void forget(const PositionSet& positions);

    /// Ends the queued writes of a table that is dropped. The posted ones still complete.
    void forget(const ShardTable& table);

    struct Ended {
        KeptRequest* pull = nullptr;
        Errc status = Errc::kOk;
        bool unpinned = false;  ///< it had rows pinned, and no row of its table is pinned now
    };

    /// A write that has ended, or could not be posted, since the last call.
    [[nodiscard]] std::optional<Ended> next_ended();

    /// Whether writes are queued.
    [[nodiscard]] bool waiting() const noexcept { return !waiting_.empty(); }

private:
    /// False: it has to wait.
    [[nodiscard]] bool post(KeptRequest& pull);
    [[nodiscard]] transport::Post post_values(const KeptRequest& pull,
                                              std::span<const std::byte> from);
    void end(KeptRequest& pull, Errc status);
    /// Ends those that are queued and for which is_over(pull).
    template <class IsOver>
    void end_queued(IsOver&& is_over, Errc status);

    transport::Endpoint& endpoint_;
    KeptRequests& requests_;
    RequestQueue waiting_;
    std::deque<Ended> ended_;
};

}  // namespace weir
