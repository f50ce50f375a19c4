// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// IncomingRequests: before a push or pull takes effect: is its table known and its size right, and
/// is it its turn. Then it goes on in Pushes, IterationParts or TableReads; or it waits, and is
/// looked at again.

#include "lib/server/members/connections.h"

namespace weir {

class IncomingRequests : ShardRoom {
public:
    IncomingRequests(const ShardRoom& room, WaitingRequests& waiting, IterationParts& parts,
                     TableReads& reads, Pushes& pushes, Connections& connections)
        : ShardRoom(room),
          waiting_(waiting),
          parts_(parts),
          reads_(reads),
          pushes_(pushes),
          connections_(connections) {}

    /// One that has come, or that has waited. It may close its connection.
    void accept(Session& session, Request& request);
    /// Closes the connections of those whose bodies were none.
    void close_refused();
    /// Looks again at what has waited, early requests first. Returns at how many.
    size_t retry();
    /// The same of these.
    size_t retry(RequestQueue& queue);
    /// Goes on with what the Fetcher has read. Returns how much it did.
    size_t run_fetched();

private:
    [[nodiscard]] Errc check(const ShardTable& table, const Request& request) const;
    void fetched(Session& session, KeptRequest& request);
    [[nodiscard]] bool may_still_run(const Session& session, const Request& request);

    WaitingRequests& waiting_;
    IterationParts& parts_;
    TableReads& reads_;
    Pushes& pushes_;
    Connections& connections_;
};

}  // namespace weir
