// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/waiting_requests.h"

#include "lib/base/check.h"

namespace weir {

void WaitingRequests::refuse(const Request& request, Errc why, uint64_t detail) {
    const uint64_t number = request.header.request;
    request.was_push ? replies_.reply_pushed(request.connection, number, why, detail)
                     : replies_.reply(request.connection, number, why, detail);
}

KeptRequest* WaitingRequests::keep(Session& session, const Request& request, Wait why) {
    const bool is_deferred = why == Wait::kView || why == Wait::kIteration;
    const size_t bytes = request.carried_bytes();
    KeptRequest* kept = request.is_kept() ? &requests_[request.slot] : nullptr;
    if (kept == nullptr) {
        const bool has_room = is_deferred ? sessions_.add_deferred(session, bytes)
                                          : sessions_.add_waiting(session, bytes);
        if (!has_room) {
            refuse(request, Errc::kBusy);
            return nullptr;
        }
        counters_.bytes_copied += bytes;
        kept = &requests_.keep(request);
        if (request.has(wire::kKeysKnown))
            kept->list = lists_.find(request.header.table, known_list(request));
        kept->is_deferred = is_deferred;
    } else if (kept->is_deferred && !is_deferred) {
        Sessions::end_deferred(session, bytes);
        kept->is_deferred = false;
    }
    WEIR_CHECK(kept->wait == Wait::kNothing && why != Wait::kNothing);
    kept->wait = why;
    return kept;
}

void WaitingRequests::defer(Session& session, const Request& request, Wait why,
                            RequestQueue& queue) {
    if (const KeptRequest* const kept = keep(session, request, why)) queue.push_back(kept->slot);
}

void WaitingRequests::end_unless_waiting(KeptRequest& request) {
    if (!request.is_kept() || request.wait != Wait::kNothing) return;
    if (Session* const session = sessions_.find(request.connection)) {
        const size_t bytes = request.carried_bytes();
        if (request.is_deferred) Sessions::end_deferred(*session, bytes);
        Sessions::end_waiting(*session, bytes);
    }
    fetcher_.release(request);
    requests_.end(request);
}

void WaitingRequests::end(KeptRequest& request) {
    request.wait = Wait::kNothing;
    end_unless_waiting(request);
}

void WaitingRequests::forget(ConnectionId connection) {
    for (ShardTable* const table : tables_)
        forget(table->deferred, connection);
    forget(early_, connection);
}

void WaitingRequests::forget(RequestQueue& queue, ConnectionId connection) {
    std::erase_if(queue, [&](uint32_t slot) {
        if (requests_[slot].connection != connection) return false;
        end(requests_[slot]);
        return true;
    });
}

}  // namespace weir
