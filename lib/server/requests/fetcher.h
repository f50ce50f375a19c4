// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fetcher: reads the keys and values of requests out of workers' memory into the shard's
/// registered memory. For pulls, it also reserves the memory that the values are written from.
/// Until there is memory, a request waits and takes a few bytes. Connections take turns: many
/// workers at once do not exhaust the memory, and a stuck worker does not hold up the others.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/server/requests/spare_blocks.h"
#include "lib/store/memory.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// A request whose keys and values are now here, or could not be read. The spans are valid until
/// Fetcher::done(), or after keep() until release().
struct Fetched {
    transport::ConnectionId connection = 0;
    wire::FrameHeader header;
    std::span<const std::byte> keys;
    std::span<const std::byte> values;
    std::span<std::byte> room;     ///< pull: buffer for the values, before they are written
    wire::MemoryHandle values_at;  ///< pull: the worker's memory to write them to
    wire::ListEnds ends;           ///< with kKeysKnown: first and last key
    uint32_t number = 0;           ///< as in its Frame
    size_t carried_bytes = 0;      ///< size of the keys and values in its message
    Errc status = Errc::kOk;       ///< not kOk: kOutOfRange, kPeerLost, kNoMemory
};

/// Thread: the shard's.
class Fetcher {
public:
    using Ticket = size_t;  ///< a request whose memory is kept

    /// `memory` is registered with the endpoint's device. At most `limit_bytes` of it are in use
    /// at a time, and a quarter of that by one connection. A larger request is served while
    /// nothing else is in use.
    Fetcher(transport::Endpoint& endpoint, Memory& memory, size_t limit_bytes) noexcept
        : endpoint_(endpoint), limit_bytes_(limit_bytes), spares_(memory) {}

    Fetcher(const Fetcher&) = delete;
    Fetcher& operator=(const Fetcher&) = delete;
    ~Fetcher() = default;

    /// Queues a request. The keys and values in its message are copied.
    void add(transport::ConnectionId connection, const wire::Frame& frame);
    /// Posts reads as far as there is room. Returns the number of requests that need no further
    /// read: all are posted, or one has failed.
    size_t start();
    /// The read that was posted with `context` has ended.
    void ended(uint64_t context, Errc status);
    /// The next request whose reads have all ended. Call done() or keep() before the next next().
    [[nodiscard]] std::optional<Fetched> next();
    /// Gives back the memory of the request that next() returned last, unless it is kept.
    void done();
    /// Keeps the memory of the request that next() returned last until release().
    [[nodiscard]] Ticket keep();
    /// Gives back what keep() kept.
    void release(Ticket ticket);
    /// Drops the queued requests of a connection that is closed. Their posted reads still end.
    void forget(transport::ConnectionId connection);

    /// Blocks that were given back and are kept for further requests.
    [[nodiscard]] SpareBlocks& spares() noexcept { return spares_; }

    [[nodiscard]] bool waiting() const noexcept { return !turns_.empty() || !ready_.empty(); }

private:
    struct Fetch {
        transport::ConnectionId connection = 0;
        wire::FrameHeader header;
        wire::MemoryHandle keys_at;
        wire::MemoryHandle values_at;
        wire::ListEnds ends;
        uint32_t number = 0;
        std::vector<std::byte> carried;  ///< keys, then values that were in the message
        size_t carried_keys_bytes = 0;
        Block memory;  ///< keys that are read, then values; each 64-byte aligned
        size_t memory_bytes = 0;
        size_t values_offset = 0;
        uint32_t reads_open = 0;
        bool keys_posted = false;
        bool posted = false;  ///< nothing left to post; no longer in Line::waiting
        Errc status = Errc::kOk;
    };

    /// The requests of one connection that still have reads to post. Of the first, some may be
    /// posted.
    struct Line {
        std::deque<size_t> waiting;  ///< slots
        size_t used_bytes = 0;       ///< memory of this connection's requests, posted or not
    };

    enum class Outcome {
        kDone,     ///< all its reads are posted, or the request has failed
        kNotNow,   ///< its connection takes no read now, or has used its share of the memory
        kNoMemory  ///< no request can get memory until some is given back
    };
    [[nodiscard]] size_t free_slot();
    [[nodiscard]] size_t post_with_memory();
    [[nodiscard]] Outcome start_first(Line& line);
    [[nodiscard]] Outcome start(size_t slot, Line& line);
    [[nodiscard]] Outcome get_memory(Fetch& fetch, Line& line);
    [[nodiscard]] Outcome post(size_t slot);
    [[nodiscard]] Outcome read(size_t slot, size_t offset, const wire::MemoryHandle& from);

    transport::Endpoint& endpoint_;
    size_t limit_bytes_;
    size_t used_bytes_ = 0;
    SpareBlocks spares_;
    std::unordered_map<transport::ConnectionId, Line> lines_;
    std::deque<transport::ConnectionId> turns_;  ///< connections whose Line::waiting is not empty
    std::deque<Fetch> slots_;                    ///< index: context of the reads, ticket
    std::vector<size_t> free_slots_;
    std::deque<size_t> ready_;        ///< slots for next()
    std::optional<size_t> returned_;  ///< by next(), until done() or keep()
};

}  // namespace weir
