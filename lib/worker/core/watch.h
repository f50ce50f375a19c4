// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Watch: deadlines of calls, and signs of life: calls that may take long must not hide that a server has
/// stopped.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/worker/calls/call_tasks.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/deadlines.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/core/control.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/requests.h"

namespace weir {

/// At its deadline a call is withdrawn: nothing more of it is sent, and it ends once no server reaches the
/// caller's memory. A connection over which one does is closed for that.
///
/// Thread: the client's
class Watch {
public:
    Watch(Standing& standing, Peers& peers, Requests& requests, Calls& calls, CallTasks& tasks,
          Control& control, Deadlines& deadlines, const KnownTables& tables)
        : standing_(standing),
          peers_(peers),
          requests_(requests),
          calls_(calls),
          tasks_(tasks),
          control_(control),
          deadlines_(deadlines),
          tables_(tables) {}

    /// Looks at deadlines, if one is due.
    void look(uint64_t now_ns);

private:
    void check_join(uint64_t now_ns);
    void check_deadlines(uint64_t now_ns);
    static void withdraw(Call& call, const ClientRequest& request, Error why);
    [[nodiscard]] std::string text_of_deadline(const ClientRequest& request) const;
    void end_withdrawn(uint64_t now_ns);
    [[nodiscard]] bool reaches_caller(ClientRequest& request, uint64_t now_ns);
    void close_for_withdrawn(Peer& peer, uint64_t now_ns);

    // signs_of_life.cc
    /// A request for a sign of life from a peer.
    struct Sign {
        bool is_wanted = false;  ///< a call waits for the peer longer than a sign period
        Calls::Id call = 0;      ///< 0: none is under way
    };

    [[nodiscard]] Sign& sign(uint32_t peer);
    void check_signs_of_life(uint64_t now_ns);
    void end_calls_to_silent(uint32_t number, const Peer& peer);
    void ask_for_signs_of_life(uint64_t now_ns);

    void tell_of_long_wait(uint32_t number, const StatsMessage& sign, uint64_t now_ns);

    Standing& standing_;
    Peers& peers_;
    Requests& requests_;
    Calls& calls_;
    CallTasks& tasks_;
    Control& control_;
    Deadlines& deadlines_;
    const KnownTables& tables_;
    Sign sign_of_manager_;
    std::vector<Sign> signs_;               ///< by shard
    uint64_t long_wait_ns_ = 30 * kSecond;  ///< of which it is told; each is twice the one before
    Calls::Id told_wait_ = 0;               ///< the last call of which it was told
};

}  // namespace weir
