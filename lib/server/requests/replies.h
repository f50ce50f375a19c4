// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Replies: what a shard replies, and when. Some replies are held until what they say is replicated,
/// and while others may take over from this shard, none leaves without a lease.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/node/lease_line.h"
#include "lib/node/outbox.h"
#include "lib/replication/closed_iterations.h"
#include "lib/replication/streams.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// Replies leave in the order in which they were given. A held one waits for the change that was the
/// shard's last one when it was given (Streams::last_change()): also that to a repeated push, whose
/// effect may not be replicated yet.
///
/// Thread: the shard's
class Replies {
public:
    using ConnectionId = transport::ConnectionId;

    /// Limit of what waits for one connection before pulls of values in replies are to come again:
    /// much less than what Outbox allows before it closes the connection.
    static constexpr size_t kBytesMax = size_t{8} << 20;

    /// `endpoint`, `clock` and `streams` must outlive this. `lease`: of the server, if it needs one.
    Replies(transport::Endpoint& endpoint, const Clock& clock, const Streams& streams,
            std::shared_ptr<const ServerLease> lease)
        : outbox_(endpoint), clock_(clock), streams_(streams), lease_(std::move(lease)) {}

    /// Ends a request with what stays true whoever serves.
    void reply(ConnectionId connection, uint64_t request, Errc status, uint64_t detail = 0,
               std::span<const std::byte> body = {});

    /// Ends a part of, or a pull that names, an iteration that has failed at this shard. If a shard that
    /// takes over could make it succeed, reply_failed_when_replicated() is due.
    void reply_failed(ConnectionId connection, uint64_t request, const IterationFailure& failure);

    /// Ends a request with what is true only as long as some replica has all changes up to now: pushes,
    /// parts of closed iterations, pulls that name an iteration. Leaves when all in sync have them.
    void reply_when_replicated(ConnectionId connection, uint64_t request, Errc status,
                               uint64_t detail = 0, std::span<const std::byte> body = {}) {
        if (!is_active_) [[likely]]
            return reply(connection, request, status, detail, body);
        hold_reply(connection, reply_of(request, status, detail), body);
    }

    /// Ends a push that was executed, and whose values cannot be sent.
    void reply_pushed(ConnectionId connection, uint64_t request, Errc status, uint64_t detail);

    void reply_failed_when_replicated(ConnectionId connection, uint64_t request,
                                      const IterationFailure& failure);

    /// Until end_message(), replies to this connection that may leave at once leave as one message, as
    /// far as they fit.
    void begin_message(ConnectionId connection) { outbox_.begin_message(connection); }

    void end_message() { outbox_.end_message(); }

    /// Sends a frame that says nothing of the tables: it is held for nothing.
    void send_at_once(ConnectionId connection, wire::FrameHeader& header,
                      std::span<const std::byte> body = {}) {
        outbox_.send(connection, header, body);
    }

    /// Whether so much waits for the connection that it is to ask for values later.
    [[nodiscard]] bool is_busy(ConnectionId connection) const {
        return waiting_bytes(connection) >= kBytesMax;
    }

    /// Of what waits for the connection, whatever for.
    [[nodiscard]] size_t waiting_bytes(ConnectionId connection) const;

    /// The streams may have changed: looks whether replies wait for replicas, and need a lease.
    void look_at_streams(bool has_in_sync) noexcept;

    /// Whether replies wait for replicas, or some are held.
    [[nodiscard]] bool is_active() const noexcept { return is_active_; }

    /// A backup in sync may take over once the lease has ended.
    [[nodiscard]] bool needs_lease() const noexcept { return needs_lease_; }

    /// Whether the lease allows to say what was done up to now.
    [[nodiscard]] bool may_send() const;

    /// Whether some reply waits for nothing but the lease.
    [[nodiscard]] bool waits_for_lease() const noexcept { return !ready_.empty(); }

    /// Whether release() would send something, with a lease.
    [[nodiscard]] bool has_due() const noexcept {
        return !ready_.empty() ||
               (!held_.empty() && held_.front().change <= streams_.replicated_change());
    }

    /// Sends the replies that are due; the lease holds. Returns how many.
    size_t release();

    /// Sends what the connections had no room for. Returns how many frames.
    size_t flush() { return outbox_.empty() ? 0 : outbox_.flush(); }

    [[nodiscard]] bool must_flush() const noexcept { return !outbox_.empty(); }

    /// The connection is closed: nobody waits for its replies.
    void forget(ConnectionId connection);

    /// A moment in the order of replies.
    struct Moment {
        uint64_t change = 0;
        std::optional<uint64_t> behind = {};  ///< frames of the outbox; none: some were held then
    };

    [[nodiscard]] Moment now() const noexcept { return {streams_.last_change()}; }

    /// Whether all replies of before the moment have been sent, also to workers whose connections take
    /// little.
    [[nodiscard]] bool has_sent_before(Moment& moment) const noexcept;

private:
    struct Held {
        uint64_t change = 0;  ///< that has to be replicated before
        ConnectionId connection = 0;
        wire::FrameHeader header;
        std::vector<std::byte> body = {};

        [[nodiscard]] size_t bytes() const noexcept { return sizeof header + body.size(); }
    };

    [[nodiscard]] static wire::FrameHeader reply_of(uint64_t request, Errc status,
                                                    uint64_t detail) noexcept;
    [[nodiscard]] static wire::FrameHeader reply_of(uint64_t request,
                                                    const IterationFailure& failure) noexcept;
    void send_reply(ConnectionId connection, wire::FrameHeader& header,
                    std::span<const std::byte> body);
    void hold_reply(ConnectionId connection, const wire::FrameHeader& header,
                    std::span<const std::byte> body);
    void keep(std::deque<Held>& queue, uint64_t change, ConnectionId connection,
              const wire::FrameHeader& header, std::span<const std::byte> body);
    size_t send_up_to(std::deque<Held>& queue, uint64_t change);

    Outbox outbox_;
    const Clock& clock_;
    const Streams& streams_;
    std::shared_ptr<const ServerLease> lease_;
    std::deque<Held> held_;   ///< by rising change
    std::deque<Held> ready_;  ///< they wait for nothing but the lease
    /// Of the connections that have some of these.
    std::unordered_map<ConnectionId, size_t> held_bytes_;

    // Derived by look_at_streams(); every reply branches on these.
    bool is_active_ = false;
    bool needs_lease_ = false;
};

}  // namespace weir
