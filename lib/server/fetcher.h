// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fetcher: reads what workers want to push out of their memory, when the shard has room for it,
/// and taking turns between workers, so that many of them pushing at once do not swamp the shard.

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

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
    wire::MemoryHandle values_at;  ///< pull: where they are wanted
    wire::ListEnds ends;           ///< of a known list
    Errc status = Errc::kOk;       ///< kOutOfRange, kPeerLost: it could not be read
};

/// Thread: the shard's.
class Fetcher {
public:
    /// `memory` is registered with the endpoint's device; at most `limit_bytes` of it are in use.
    Fetcher(transport::Endpoint& endpoint, Memory& memory, size_t limit_bytes) noexcept
        : endpoint_(endpoint), memory_(memory), limit_bytes_(limit_bytes) {}

    ~Fetcher();
    Fetcher(const Fetcher&) = delete;
    Fetcher& operator=(const Fetcher&) = delete;

    /// Queues a request with remote keys or values; inline keys are copied.
    void add(transport::ConnectionId connection, const wire::Frame& frame);
    /// Posts reads as far as there is room. Returns how many requests were started.
    size_t start();
    /// A read has ended. The request it belongs to, once all of it is here.
    [[nodiscard]] std::optional<Fetched> ended(uint64_t context, Errc status);
    /// Gives back the memory of the request that ended() returned last.
    void done();
    /// Forgets what is queued for a connection that is gone; reads under way still end.
    void forget(transport::ConnectionId connection);

    [[nodiscard]] bool waiting() const noexcept {
        return waiting_count_ > 0 || !partly_posted_.empty();
    }

private:
    struct Fetch {
        transport::ConnectionId connection = 0;
        wire::FrameHeader header;
        wire::MemoryHandle keys_at;
        wire::MemoryHandle values_at;
        wire::ListEnds ends;
        std::vector<std::byte> inline_keys;
        std::byte* memory = nullptr;
        size_t memory_bytes = 0;
        size_t values_offset = 0;
        uint32_t reads_open = 0;
        bool keys_posted = false;
        bool values_posted = false;
        Errc status = Errc::kOk;
    };
    enum class Outcome { kStarted, kNotNow, kFailed };
    [[nodiscard]] Outcome post(size_t slot);
    [[nodiscard]] bool start_one();
    void drop(size_t slot);
    [[nodiscard]] Outcome read(size_t slot, size_t offset, const wire::MemoryHandle& from);
    [[nodiscard]] Fetched result(const Fetch& fetch) const;

    transport::Endpoint& endpoint_;
    Memory& memory_;
    size_t limit_bytes_;
    size_t used_bytes_ = 0;
    size_t waiting_count_ = 0;
    std::unordered_map<transport::ConnectionId, std::deque<Fetch>> waiting_;
    std::deque<transport::ConnectionId> turns_;  ///< connections with something queued
    std::deque<Fetch> slots_;                    ///< under way; index = context of their reads
    std::vector<size_t> free_slots_;
    std::vector<size_t> partly_posted_;  ///< slots whose second read found no room
    std::optional<size_t> returned_;
};

}  // namespace weir
