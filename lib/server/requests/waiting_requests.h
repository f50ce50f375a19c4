// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WaitingRequests: the requests that cannot go on yet, each in the queue of what it waits for; and
/// whether one must wait for its keys and values: these are in its message, in memory that is mapped,
/// or in memory that the Fetcher has to read first.

#include <string>
#include <utility>
#include <vector>

#include "lib/filter/body.h"
#include "lib/server/requests/fetcher.h"
#include "lib/server/requests/request.h"
#include "lib/server/shard_room.h"
#include "lib/store/index/known_lists.h"
#include "lib/store/memory.h"

namespace weir {

class WaitingRequests : ShardRoom {
public:
    WaitingRequests(const ShardRoom& room, KnownLists& lists, Memory& memory)
        : ShardRoom(room),
          lists_(lists),
          fetcher_(endpoint_, requests_, memory, options_.fetch_bytes_max) {}

    // Keys and values.

    /// Finds them. False: the Fetcher must read them, or provide a buffer for pulled values: those
    /// of a list, or of a range that does not lie side by side.
    [[nodiscard]] bool find_bytes(Request& request) {
        if (is_remote(request) && !map(request)) return false;
        if (standing_.is_moving()) [[unlikely]]
            keep_keys(request);
        return true;
    }

    /// A push whose body is expanded, if it was encoded. Valid until the next call. nullptr: it is no body of such
    /// a push; its connection is to be closed (take_refused()).
    [[nodiscard]] const Request* expand(const ShardTable& table, const Request& push) {
        return push.is_encoded() ? expand_body(table, push) : &push;
    }

    void count_expanded(const ShardTable& table, const Request& push);

    /// A connection whose worker has sent what is no body, and what is wrong with that.
    struct Refused {
        ConnectionId connection = 0;
        std::string why;
    };

    [[nodiscard]] bool has_refused() const noexcept { return !refused_.empty(); }

    [[nodiscard]] std::vector<Refused> take_refused() { return std::exchange(refused_, {}); }

    /// Finds and counts them. False: the request waits until the Fetcher has them, or was refused.
    [[nodiscard]] bool find_or_fetch(Session& session, Request& request);

    /// Counts mapped bytes as the endpoint counts bytes that it reads and writes.
    void count_mapped(const Request& request) {
        if (is_remote(request)) count_remote(request);
    }

    /// Memory of a worker; nullptr if it cannot be mapped so.
    [[nodiscard]] std::byte* map(ConnectionId connection, const wire::MemoryHandle& at,
                                 size_t alignment, transport::Access access);

    // What waits.

    [[nodiscard]] KeptRequests& requests() noexcept { return requests_; }

    /// For those that wait for their bytes.
    [[nodiscard]] Fetcher& fetcher() noexcept { return fetcher_; }

    /// Of a later epoch: they wait for its view.
    [[nodiscard]] RequestQueue& early() noexcept { return early_; }

    /// Keeps a request that cannot go on now, unless its worker has too many that wait: then it is
    /// replied to, and this is nullptr. Who waits already, goes on waiting, whatever for.
    [[nodiscard]] KeptRequest* keep(Session& session, const Request& request, Wait why);
    /// The same, in this queue.
    void defer(Session& session, const Request& request, Wait why, RequestQueue& queue);

    /// Ends a push or pull that cannot go on now, or for good.
    void refuse(const Request& request, Errc why, uint64_t detail = 0);

    void end(KeptRequest& request);
    /// A kept request was looked at: it waits again, or has been replied to, or nobody waits for
    /// its reply. A push that was executed from its queue has been ended there.
    void end_unless_waiting(KeptRequest& request);

    /// The connection is closed: drops what is deferred of it.
    void forget(ConnectionId connection);

    /// Deferred or held requests may now be able to go on: they are looked at again in this poll.
    void retry() noexcept { retry_ = true; }

    /// The same of pulls and parts that wait for an iteration of the table.
    void retry_deferred(const ShardTable& table) noexcept { retry_ |= !table.deferred.empty(); }

    [[nodiscard]] bool must_retry() const noexcept { return retry_; }

    void end_retry() noexcept { retry_ = false; }

private:
    [[nodiscard]] static bool is_remote(const Request& request) noexcept {
        constexpr uint8_t kRemote = wire::kKeysRemote | wire::kValuesRemote;
        return (request.header.flags & kRemote) != 0 && !request.has_been_read;
    }

    [[nodiscard]] bool map(Request& request);
    void count_remote(const Request& request);
    void keep_keys(Request& request);
    [[nodiscard]] const Request* expand_body(const ShardTable& table, const Request& push);
    void forget(RequestQueue& queue, ConnectionId connection);

    KnownLists& lists_;
    KeptRequests requests_;
    Fetcher fetcher_;
    RequestQueue early_;
    bool retry_ = false;
    BodyDecoder decoder_;
    Request expanded_;  ///< by expand_body()
    std::vector<Refused> refused_;
    std::vector<uint64_t> kept_keys_;  ///< of the push that is being executed; kept for its memory
};

}  // namespace weir
