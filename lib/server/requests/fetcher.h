// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fetcher: reads the keys and values of requests out of workers' memory into the shard's
/// registered memory. For pulls, it also reserves the memory that the values are written from.
/// Until there is memory, a request waits and takes a few bytes. Connections take turns: many
/// workers at once do not exhaust the memory, and a stuck worker does not hold up the others.

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "lib/replication/spare_blocks.h"
#include "lib/server/requests/request.h"
#include "lib/store/memory.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// Thread: the shard's.
class Fetcher {
public:
    /// `requests` must outlive this. `memory` is registered with the endpoint's device. At most `limit_bytes` of it are in use
    /// at a time, and a quarter of that by one connection. A larger request is served while
    /// nothing else is in use.
    Fetcher(transport::Endpoint& endpoint, KeptRequests& requests, Memory& memory,
            size_t limit_bytes) noexcept
        : endpoint_(endpoint), requests_(requests), limit_bytes_(limit_bytes), spares_(memory) {}

    Fetcher(const Fetcher&) = delete;
    Fetcher& operator=(const Fetcher&) = delete;
    ~Fetcher() = default;

    /// Queues a request. It must not end before next() has returned it.
    void add(KeptRequest& request);
    /// Posts reads as far as there is room. Returns the number of requests that need no further
    /// read: all are posted, or one has failed.
    size_t start();
    /// The read that was posted with `context` has ended.
    void ended(uint64_t context, Errc status);
    /// The next request whose reads have all ended: its keys, values and room are here, or its
    /// status says why not. nullptr: none.
    [[nodiscard]] KeptRequest* next();
    /// Gives back the memory of a request, if it has some.
    void release(KeptRequest& request);
    /// A connection is closed: next() returns its queued requests, with kPeerLost, as soon as the reads
    /// that are posted have ended.
    void forget(transport::ConnectionId connection);

    /// Blocks that were given back and are kept for further requests.
    [[nodiscard]] SpareBlocks& spares() noexcept { return spares_; }

    [[nodiscard]] bool waiting() const noexcept { return !turns_.empty() || !ready_.empty(); }

private:
    /// The requests of one connection that still have reads to post. Of the first, some may be
    /// posted.
    struct Line {
        RequestQueue waiting;
        size_t used_bytes = 0;  ///< memory of this connection's requests, posted or not
    };

    enum class Outcome {
        kDone,     ///< all its reads are posted, or the request has failed
        kNotNow,   ///< its connection takes no read now, or has used its share of the memory
        kNoMemory  ///< no request can get memory until some is given back
    };
    [[nodiscard]] size_t post_with_memory();
    [[nodiscard]] Outcome start_first(Line& line);
    [[nodiscard]] Outcome start(KeptRequest& request, Line& line);
    [[nodiscard]] Outcome get_memory(KeptRequest& request, Line& line);
    [[nodiscard]] Outcome post(KeptRequest& request);
    [[nodiscard]] Outcome read(KeptRequest& request, size_t offset, const wire::MemoryHandle& from);

    transport::Endpoint& endpoint_;
    KeptRequests& requests_;
    size_t limit_bytes_;
    size_t used_bytes_ = 0;
    SpareBlocks spares_;
    std::unordered_map<transport::ConnectionId, Line> lines_;
    std::deque<transport::ConnectionId> turns_;  ///< connections whose Line::waiting is not empty
    RequestQueue ready_;                         ///< for next()
};

}  // namespace weir
