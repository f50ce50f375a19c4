// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fetcher: gets requests what they need of the shard's registered memory: room for the keys and
/// values that are read out of workers' memory, and for values that are written there. Until there
/// is room a request waits as a few bytes; connections take turns, so that many workers at once do
/// not swamp the shard and one that is stuck holds up nobody else.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/server/spare_blocks.h"
#include "lib/store/memory.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// A request whose keys and values are now here. The spans live until Fetcher::done().
struct Fetched {
    transport::ConnectionId connection = 0;
    wire::FrameHeader header;
    std::span<const std::byte> keys;
    std::span<const std::byte> values;
    std::span<std::byte> room;     ///< pull: for the values, before they are written
    wire::MemoryHandle values_at;  ///< pull: where they are wanted
    wire::ListEnds ends;           ///< of a known list
    size_t carried_bytes = 0;      ///< of its keys and values, that its message brought
    Errc status = Errc::kOk;       ///< kOutOfRange, kPeerLost, kNoMemory: it could not be read
};

/// Thread: the shard's.
class Fetcher {
public:
    using Ticket = size_t;  ///< names a request whose memory is kept

    /// `memory` is registered with the endpoint's device. At most `limit_bytes` of it are in use
    /// at a time, and a quarter of that for one connection; but one request always is served.
    Fetcher(transport::Endpoint& endpoint, Memory& memory, size_t limit_bytes) noexcept
        : endpoint_(endpoint), limit_bytes_(limit_bytes), spares_(memory) {}

    Fetcher(const Fetcher&) = delete;
    Fetcher& operator=(const Fetcher&) = delete;
    ~Fetcher() = default;

    /// Queues a request; what its message carries is copied.
    void add(transport::ConnectionId connection, const wire::Frame& frame);
    /// Posts reads as far as there is room. Returns how many requests have got all of theirs.
    size_t start();
    /// A read has ended.
    void ended(uint64_t context, Errc status);
    /// The next request of which everything is here, or that has failed. Then done() or keep().
    [[nodiscard]] std::optional<Fetched> next();
    /// Gives back the memory of the request that next() returned last, unless it is kept.
    void done();
    /// Its memory stays as it is until release().
    [[nodiscard]] Ticket keep();
    void release(Ticket ticket);
    /// Forgets what is queued for a connection that is gone; reads under way still end.
    void forget(transport::ConnectionId connection);

    /// Memory that was used and may be again.
    [[nodiscard]] Reclaimable& spares() noexcept { return spares_; }

    [[nodiscard]] bool waiting() const noexcept { return !turns_.empty() || !ready_.empty(); }

private:
    struct Fetch {
        transport::ConnectionId connection = 0;
        wire::FrameHeader header;
        wire::MemoryHandle keys_at;
        wire::MemoryHandle values_at;
        wire::ListEnds ends;
        std::vector<std::byte> carried;  ///< keys and values that were in the message
        size_t carried_keys_bytes = 0;
        Block memory;  ///< keys that are read, then values
        size_t memory_bytes = 0;
        size_t values_offset = 0;
        uint32_t reads_open = 0;
        bool keys_posted = false;
        bool posted = false;  ///< all there is to post; no longer in its line
        Errc status = Errc::kOk;
    };

    /// What one connection has: requests that wait, the first of them maybe partly posted.
    struct Line {
        std::deque<size_t> waiting;  ///< slots
        size_t used_bytes = 0;
    };

    enum class Outcome {
        kDone,     ///< all is posted, or it has failed
        kNotNow,   ///< its connection has no room, or has its share
        kNoMemory  ///< nobody gets any until some is given back
    };
    [[nodiscard]] size_t free_slot();
    [[nodiscard]] Outcome start(size_t slot, Line& line);
    [[nodiscard]] Outcome get_memory(Fetch& fetch, Line& line);
    [[nodiscard]] Outcome post(size_t slot);
    [[nodiscard]] Outcome read(size_t slot, size_t offset, const wire::MemoryHandle& from);
    void drop(size_t slot);

    transport::Endpoint& endpoint_;
    size_t limit_bytes_;
    size_t used_bytes_ = 0;
    SpareBlocks spares_;
    std::unordered_map<transport::ConnectionId, Line> lines_;
    std::deque<transport::ConnectionId> turns_;  ///< connections with something that waits
    std::deque<Fetch> slots_;                    ///< index = context of their reads, and ticket
    std::vector<size_t> free_slots_;
    std::deque<size_t> ready_;
    std::optional<size_t> returned_;
};

}  // namespace weir
