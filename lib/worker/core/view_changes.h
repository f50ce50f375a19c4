// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ViewChanges: how a later view is adopted, and what becomes of requests whose keys it moves.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/ring/view.h"
#include "lib/ring/view_change.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/client_options.h"
#include "lib/worker/core/operations.h"
#include "lib/worker/core/outages.h"
#include "lib/worker/job_events.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/cut.h"
#include "lib/worker/requests/requests.h"
#include "lib/worker/requests/sender.h"
#include "transport/transport.h"

namespace weir {

/// A later view is adopted once the shards that it changes have replied to all that is under way there;
/// what was cut for an older view they call stale. Meanwhile nothing more is sent to them, and
/// the others never stop. Then the requests that those shards would still refuse are cut again. All new
/// pieces keep the place of the old one. What is not cut again keeps the epoch of its cut.
///
/// Thread: the client's
class ViewChanges {
public:
    ViewChanges(Standing& standing, Peers& peers, Requests& requests, Sender& sender,
                Operations& operations, Outages& outages, Calls& calls, JobEvents& events,
                transport::Endpoint& endpoint, ClientCounters& counters)
        : standing_(standing),
          peers_(peers),
          requests_(requests),
          sender_(sender),
          operations_(operations),
          outages_(outages),
          calls_(calls),
          events_(events),
          endpoint_(endpoint),
          counters_(counters) {}

    /// A part of a view, from the manager.
    void receive(std::span<const std::byte> body);

    /// Adopts the next view, if there is one and it has to wait for nothing.
    void poll() {
        if (next_ && !must_wait()) adopt();
    }

    /// The job has failed: no view is adopted, by which what waits for it would be sent anew.
    void stop() noexcept { next_.reset(); }

private:
    void accept(View view);
    void hold_changed(const View& next);
    [[nodiscard]] bool may_write(uint32_t shard);
    [[nodiscard]] bool is_awaited(const ClientRequest& request) const noexcept;
    [[nodiscard]] bool must_wait();
    void adopt();
    [[nodiscard]] std::vector<uint64_t> held_requests();

    // What becomes of a request of a shard that has changed, and that is not under way.
    enum class Fate {
        kStays,     ///< the shard takes it
        kEnds,      ///< nobody does
        kIsCut,     ///< others have its keys
        kIsRenewed  ///< the same, and the part of which it is has to be made anew
    };

    [[nodiscard]] Fate fate_of(const ClientRequest& request) const;
    void cut_again(std::span<const uint64_t> requests, uint64_t before);
    void end(uint64_t id, ClientRequest& request);
    [[nodiscard]] std::vector<Cut> cut_request(const ClientRequest& request);
    void replace(std::span<const uint64_t> old, Calls::Id call_id, std::vector<Cut> cuts,
                 std::vector<uint64_t>& made);
    void renew_part(Calls::Id call_id, std::span<const uint64_t> requests, uint64_t before,
                    std::vector<uint64_t>& made);

    Standing& standing_;
    Peers& peers_;
    Requests& requests_;
    Sender& sender_;
    Operations& operations_;
    Outages& outages_;
    Calls& calls_;
    JobEvents& events_;
    transport::Endpoint& endpoint_;
    ClientCounters& counters_;
    ViewParts parts_;
    std::optional<View> next_;  ///< to be adopted when all shards that it changes have replied
    uint64_t awaited_ = 0;      ///< a request that it waits for; may have ended
};

}  // namespace weir
