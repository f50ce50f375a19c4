// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Link: the frames between a member of the job (a shard or a worker) and the manager, over one
/// connection after another. Both ends count frames and keep what they sent until the other end
/// says that it has it. So after a break each frame still arrives once, and in order.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace weir {

struct ManagerLife;

/// What a member says of itself when its link goes on over another connection.
struct LinkIdentity {
    uint64_t link = 0;     ///< a random number; 0: a connection that breaks is not made anew
    uint64_t process = 0;  ///< that of its process's life line (life_line.h)
    std::shared_ptr<const ManagerLife> manager = nullptr;
};

/// One end. Thread: that of the endpoint.
class Link {
public:
    /// Kept by the manager for an end that is connected and takes nothing. Beyond it, the link is of
    /// no use.
    static constexpr size_t kKeptBytesMax = size_t{64} << 20;

    /// Keeps the frame; post() sends it behind the others.
    void add(std::span<const std::span<const std::byte>> parts);
    /// Goes on over this connection with what the other end has not taken: `others_count` is the
    /// number of frames that it says it has.
    /// False: it cannot have that number; nothing was changed.
    [[nodiscard]] bool resume(uint64_t others_count);
    /// The other end says that it has so many frames.
    /// False: it cannot have that number.
    [[nodiscard]] bool note_taken(uint64_t others_count);
    /// Posts what is to be posted, as far as there is room. Returns the number of frames.
    size_t post(transport::Endpoint& endpoint, transport::ConnectionId connection);

    /// What is posted counts as taken: there is no other connection to come.
    void drop_posted() { (void)note_taken(dropped_ + kept_.size() - unposted_count_); }

    [[nodiscard]] bool has_unposted() const noexcept { return unposted_count_ > 0; }

    [[nodiscard]] size_t kept_bytes() const noexcept { return kept_bytes_; }

    /// A frame of the other end has arrived.
    void take(size_t bytes) noexcept;

    [[nodiscard]] uint64_t taken() const noexcept { return taken_; }

    /// Whether the other end should hear what was taken, to keep no more than that.
    [[nodiscard]] bool owes_count() const noexcept { return owed_bytes_ >= kBytesPerCount; }

    /// Tells the other end. If there is no room now, nothing happens.
    void post_count(transport::Endpoint& endpoint, transport::ConnectionId connection);

private:
    /// What is taken before the other end hears of it; a frame counts kFrameBytes more.
    static constexpr size_t kBytesPerCount = size_t{64} << 10;
    static constexpr size_t kFrameBytes = 1024;

    // What every poll of a member asks for lies together, and is counted as it changes.
    size_t unposted_count_ = 0;  ///< the last ones of kept_, on this connection
    size_t owed_bytes_ = 0;
    std::deque<std::vector<std::byte>> kept_;
    size_t kept_bytes_ = 0;
    uint64_t dropped_ = 0;  ///< frames before kept_: the other end has them
    uint64_t offered_ = 0;  ///< frames that were posted on any connection: it has no others
    uint64_t taken_ = 0;
};

}  // namespace weir
