// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Connections: who is at the other end of one, and what ends with it. That to the manager is not
/// among them (ManagerLink).

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/server/members/members.h"
#include "lib/server/requests/pushes.h"

namespace weir {

class Connections : ShardRoom {
public:
    Connections(const ShardRoom& room, WaitingRequests& waiting, TableReads& reads, Pushes& pushes,
                Members& members)
        : ShardRoom(room), waiting_(waiting), reads_(reads), pushes_(pushes), members_(members) {}

    /// The first frame of a worker.
    void hello(Session& session, const wire::Frame& frame);
    /// The next push of a table has a time that is far from those before.
    void far_time(Session& session, const wire::Frame& frame);
    /// The manager says who will be in a view. Connections may have come before.
    void receive_passes(std::span<const std::byte> body);
    /// The shard has a new view: closes the connections of workers that are gone, and forgets them.
    void apply_view();

    /// Closes a connection. The peer breaks the protocol.
    void refuse(ConnectionId connection, std::string_view why);
    /// The same: a hello with the number of a worker that this job does not have.
    void refuse_worker(ConnectionId connection);
    void close(ConnectionId connection);
    /// One that this shard has closed is in doubt until the endpoint says that it is closed.
    void closed(ConnectionId connection, bool memory_in_doubt = true);
    /// Ends a shard that has lost the manager and has no workers any more.
    void end_if_all_are_gone();

private:
    void act_on(const Session& session, Sessions::Hello verdict);

    WaitingRequests& waiting_;
    TableReads& reads_;
    Pushes& pushes_;
    Members& members_;
};

}  // namespace weir
