// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// IncomingReplies: from a reply to the end of a request, or to its being sent again.

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/clock.h"
#include "lib/wire/frame.h"
#include "lib/worker/calls/call_tasks.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/client_options.h"
#include "lib/worker/core/reply_errors.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/held_failures.h"
#include "lib/worker/requests/requests.h"
#include "lib/worker/requests/sender.h"
#include "transport/transport.h"

namespace weir {

/// Delivers pulled values, and sends a list in full if the shard has forgotten it.
///
/// Thread: the client's
class IncomingReplies {
public:
    IncomingReplies(Standing& standing, Peers& peers, Requests& requests, Sender& sender,
                    Calls& calls, CallTasks& tasks, KnownTables& tables, const Clock& clock,
                    ClientCounters& counters)
        : standing_(standing),
          peers_(peers),
          requests_(requests),
          sender_(sender),
          calls_(calls),
          tasks_(tasks),
          tables_(tables),
          clock_(clock),
          counters_(counters),
          errors_(standing, peers, tables) {}

    /// A kReply. False: it is of no request that this connection was asked for.
    [[nodiscard]] bool receive(transport::ConnectionId connection, const wire::Frame& frame);
    /// The values of a pull have arrived in the memory that the shard was given. False: as above.
    [[nodiscard]] bool receive_immediate(transport::ConnectionId connection, uint32_t immediate);

    /// A server was lost: the cause of failures that are held.
    void blame(const Status& server_lost) { held_failures_.blame(server_lost); }

    /// Failures that were held for long enough end their requests. Returns how many.
    size_t end_held_failures();

    [[nodiscard]] bool holds_failures() const noexcept { return !held_failures_.empty(); }

    [[nodiscard]] uint64_t due_ns() const noexcept { return held_failures_.due_ns(); }

private:
    /// What a reply means for its request.
    enum class Fate {
        kEnds,
        kHeld,       ///< it ends, maybe with another error
        kSentAgain,  ///< at once
        kPaused,     ///< is sent again after a pause
        kStale       ///< waits for a view
    };

    void receive(uint64_t id, ClientRequest& request, const wire::Frame& frame);
    [[nodiscard]] Fate fate_of(const ClientRequest& request, Errc status) const;
    void succeeded(ClientRequest& request, const wire::Frame& frame);
    void measure(ClientRequest& request, const wire::Frame& frame);
    void pulled(ClientRequest& request, const wire::Frame& frame);
    void pulled_encoded(ClientRequest& request, const wire::Frame& frame);
    [[nodiscard]] Result<Body> decode(const BodyForm& form, Codecs codecs,
                                      std::span<const std::byte> values);
    void note_shown(const ClientRequest& request, uint64_t shown);
    [[nodiscard]] static bool is_pushed(const ClientRequest& request,
                                        const wire::FrameHeader& reply);
    void deliver_copy(const ClientRequest& request);
    void deliver(const ClientRequest& request, std::span<const std::byte> values);
    void note_dropped(const wire::Frame& reply);

    Standing& standing_;
    Peers& peers_;
    Requests& requests_;
    Sender& sender_;
    Calls& calls_;
    CallTasks& tasks_;
    KnownTables& tables_;
    const Clock& clock_;
    ClientCounters& counters_;
    ReplyErrors errors_;
    HeldFailures held_failures_;
    BodyDecoder decoder_;
};

}  // namespace weir
