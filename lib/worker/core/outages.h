// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Outages: what becomes of requests when a connection, a shard, the manager or the job ends.

#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/deadlines.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/core/control.h"
#include "lib/worker/core/incoming_replies.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/requests.h"
#include "lib/worker/requests/sender.h"
#include "transport/transport.h"

namespace weir {

/// Thread: the client's
class Outages {
public:
    Outages(Standing& standing, Peers& peers, Requests& requests, Sender& sender,
            IncomingReplies& replies, Control& control, Calls& calls, Deadlines& deadlines,
            const KnownTables& tables, transport::Endpoint& endpoint, const Clock& clock)
        : standing_(standing),
          peers_(peers),
          requests_(requests),
          sender_(sender),
          replies_(replies),
          control_(control),
          calls_(calls),
          deadlines_(deadlines),
          tables_(tables),
          endpoint_(endpoint),
          clock_(clock) {}

    struct End {
        Errc why = Errc::kOk;  ///< kOk: closed in order
        bool memory_in_doubt = false;
    };

    /// A connection has ended: its requests wait for the next one, or end.
    void closed(transport::ConnectionId connection, const End& end);
    /// The manager says that a shard is dead, or there is no manager any more that could say it. A
    /// connection that is open still counts until it closes. `loss`: what is lost with it, if that is known.
    void shard_died(uint64_t shard, std::string loss);
    /// For good: nobody says any more who lives. That is the reason for all that ends with it, so it comes
    /// first in their errors.
    void lose_manager(const Error& why);
    /// The manager says that the job has failed. All calls end, but one whose memory a server may still
    /// reach only when it does not any more.
    void job_failed(Status why);
    /// Closes the connections that have open requests, which end with them. The client has failed.
    void cut_off_requests();

private:
    /// What an end of a connection to a shard means.
    enum class Fate {
        kLost,    ///< for good
        kBroken,  ///< the shard may live, or its keys go elsewhere
    };

    [[nodiscard]] Fate fate_of(const Peer& peer) const;
    [[nodiscard]] Error error_of(const Peer& peer, const End& end) const;
    void keep_for_next_connection(uint32_t number);
    void lose(uint32_t number, const Error& why);
    void end_requests_of(uint32_t number, const Error& why, const Error& with_loss);

    Standing& standing_;
    Peers& peers_;
    Requests& requests_;
    Sender& sender_;
    IncomingReplies& replies_;
    Control& control_;
    Calls& calls_;
    Deadlines& deadlines_;
    const KnownTables& tables_;
    transport::Endpoint& endpoint_;
    const Clock& clock_;
};

}  // namespace weir
