// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sender: puts requests on their way, each push in its order, and again if need be.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/store/memory.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/deadlines.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/client_options.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/requests/departures.h"
#include "lib/worker/requests/encoder.h"
#include "lib/worker/requests/requests.h"
#include "transport/transport.h"

namespace weir {

/// Invariants: each id in a lane is of a request that is kUnsent, or of one that has ended or is kept aside;
/// waiting_count_ ids are in lanes.
///
/// Thread: the client's
class Sender {
public:
    Sender(Peers& peers, Requests& requests, Calls& calls, Deadlines& deadlines,
           const KnownTables& tables, transport::Endpoint& endpoint, const Clock& clock,
           Memory& memory, const ClientCoreOptions& options, ClientCounters& counters);

    /// A new request of `call`. It is sent now, waits in its lane, or ends.
    void submit(uint64_t id, ClientRequest& request, Call& call);

    /// Until submit_gathered(), new requests are gathered.
    void gather() noexcept { gathers_ = true; }

    /// The gathered requests, all of `call`. Those of one peer are sent as one message, as far as they fit.
    void submit_gathered(Call& call);
    /// The requests of a call are submitted: they leave, and then its deadline is set. Reading the clock
    /// takes as long as writing a short message, so it must not delay them.
    void send_off(Call& call, uint64_t deadline_ns);

    /// A poll begins: what send_off() has kept leaves with it.
    void note_poll() {
        if (departures_.are_waiting()) departures_.left(clock_.now_ns());
    }

    /// Sends what waits in lanes, as far as it can. Returns of how many requests it took care.
    size_t send_waiting();

    [[nodiscard]] bool has_waiting() const noexcept { return waiting_count_ > 0; }

    /// When send_waiting() may have something to do; ~0: not before something else happens.
    [[nodiscard]] uint64_t due_ns() const noexcept;

    /// Puts a request that was sent before into its lane: before the first push of its table that has a
    /// later place, so that nothing overtakes it.
    void send_again(uint64_t id, ClientRequest& request, bool after_pause);
    /// The same, of many that are not in a lane. What has no place comes after what has one.
    void send_again(Peer& peer, std::vector<uint64_t> requests);
    /// Empties the lane.
    [[nodiscard]] std::vector<uint64_t> take_waiting(Peer& peer);
    /// An ordered push is not under way any more. `was_executed`: now or before.
    void push_ended(const ClientRequest& request, bool was_executed);

    /// The peer is kLost or kGone, and so the request ends.
    [[nodiscard]] Error gone(const ClientRequest& request) const;

private:
    enum class Outcome { kSent, kWait, kFailed };

    /// So many frames go into a message at most.
    static constexpr size_t kFramesMax = 8;
    using Frames = std::array<EncodedFrame, kFramesMax>;

    void submit_together(std::span<const uint64_t> requests, Call& call);
    [[nodiscard]] size_t encode_together(std::span<const uint64_t> requests, const Peer& peer,
                                         Frames& frames);
    [[nodiscard]] bool has_push_before(std::span<const uint64_t> requests, const Content& content);
    [[nodiscard]] Outcome send_together(std::span<const uint64_t> requests, Frames& frames,
                                        Peer& peer, Call& call);
    [[nodiscard]] bool set_predecessor(const Content& content, Peer& peer, EncodedFrame& frame);
    void sent(ClientRequest& request, Peer& peer);
    [[nodiscard]] Outcome post(uint64_t id, ClientRequest& request, Peer& peer, Call* call);
    [[nodiscard]] Outcome send_piece(uint64_t id, ClientRequest& request, Peer& peer, Call& call);
    [[nodiscard]] Outcome send(ClientRequest& request, Peer& peer, Call& call, EncodedFrame& frame);
    [[nodiscard]] bool may_send_to(Peer& peer);
    [[nodiscard]] bool tell_time(const Peer& peer, PieceOrder& order, const Content& content);
    void wait(Peer& peer, uint64_t id);
    void measure(ClientRequest& request, Peer& peer);
    void note_sent(const ClientRequest& request, const Peer& peer);

    Peers& peers_;
    Requests& requests_;
    Calls& calls_;
    Deadlines& deadlines_;
    const KnownTables& tables_;
    transport::Endpoint& endpoint_;
    const Clock& clock_;
    ClientCounters& counters_;
    Encoder encoder_;
    size_t waiting_count_ = 0;
    bool gathers_ = false;
    std::vector<uint64_t> gathered_;                 ///< requests
    std::vector<std::span<const std::byte>> parts_;  ///< of the message that is put together
    Departures departures_;
    std::optional<bool>
        may_wait_;  ///< what was posted since the last call was sent off; none: nothing
};

}  // namespace weir
