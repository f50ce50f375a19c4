// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PullWrites: the network writes that bring pulled values into workers' memory.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>

#include "lib/key/key_range.h"
#include "lib/key/position_set.h"
#include "lib/server/requests/fetcher.h"
#include "lib/server/shard_table.h"
#include "transport/transport.h"

namespace weir {

/// A pull whose values are written to its worker: from `buffer`, or if that is empty from the
/// rows of `keys`, which are pinned from posting to completion.
struct PullWrite {
    transport::ConnectionId connection = 0;
    uint64_t request = 0;
    bool is_replied = false;       ///< its worker gets a reply, not an immediate
    bool names_iteration = false;  ///< the reply says which one the values show
    uint64_t shown = 0;            ///< the last closed iteration when the values were read
    transport::RemoteSpan to;
    ShardTable* table = nullptr;  ///< must outlive the write
    KeyRange keys;                ///< whose rows the table has
    std::span<const std::byte> buffer;
    Fetcher::Ticket ticket = 0;  ///< of the buffer
};

/// A write waits until the connection takes it and, if it is to pin rows, until nothing waits for
/// pinned rows; then it is posted, and it ends with a completion. next_ended() returns it.
///
/// Thread: the shard's
class PullWrites {
public:
    explicit PullWrites(transport::Endpoint& endpoint) noexcept : endpoint_(endpoint) {}

    /// Posts the write, or queues it if it or another one has to wait.
    void add(const PullWrite& write);
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

    /// Whether a write of the table is queued or posted.
    [[nodiscard]] bool uses(const ShardTable& table) const noexcept;

    struct Ended {
        PullWrite write;
        Errc status = Errc::kOk;
        bool unpinned = false;  ///< it had rows pinned, and no row of its table is pinned now
    };

    /// A write that has ended, or could not be posted, since the last call.
    [[nodiscard]] std::optional<Ended> next_ended();

    /// Whether writes are queued.
    [[nodiscard]] bool waiting() const noexcept { return !waiting_.empty(); }

private:
    /// False: it has to wait.
    [[nodiscard]] bool post(uint64_t id);
    [[nodiscard]] transport::Post post_values(uint64_t id, std::span<const std::byte> from);

    transport::Endpoint& endpoint_;
    std::unordered_map<uint64_t, PullWrite> writes_;
    uint64_t next_id_ = 1;
    std::deque<uint64_t> waiting_;  ///< keys in writes_
    std::deque<Ended> ended_;
};

}  // namespace weir
