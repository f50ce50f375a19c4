// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReceiveQueue: an endpoint's shared receive queue and its buffers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "lib/base/result.h"
#include "transport/verbs/handles.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class ReceiveQueue {
public:
    /// Set in the work request ids of receives; the lower bits are the buffer's number.
    static constexpr uint64_t kIdBit = uint64_t{1} << 63;

    /// Buffers beyond the sum of all windows. They take the first messages of a peer that sends
    /// more than it may, and replace a buffer that a queue pair has not given back yet.
    static constexpr uint32_t kSpares = 32;
    /// The most buffers that can replace lost ones.
    static constexpr uint32_t kReplacementsMost = 224;
    static constexpr uint32_t kBeyondWindows = kSpares + kReplacementsMost;

    /// How many of `depth` entries may be granted as windows. A small queue has few entries
    /// beyond them.
    [[nodiscard]] static constexpr uint32_t windows_of(uint32_t depth) noexcept {
        return depth - std::min(kBeyondWindows, depth / 2);
    }

    /// Bytes from one buffer to the next. Every buffer begins at a cache line, so messages are
    /// aligned whatever the length of the longest.
    [[nodiscard]] static constexpr uint32_t stride_bytes(uint32_t buffer_bytes) noexcept {
        return (buffer_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    }

    /// Makes a queue for `depth` buffers of `buffer_bytes`, which has no buffers yet. `owner` is
    /// its context in asynchronous events.
    /// Errors: kNoMemory
    [[nodiscard]] static Result<ReceiveQueue> make(ibv_pd* pd, void* owner, uint32_t depth,
                                                   uint32_t buffer_bytes);

    /// Adds buffers until there are enough for windows of that sum, plus the spare ones.
    /// Errors: kNoMemory
    [[nodiscard]] Status serve_windows(uint32_t sum);

    /// A queue pair was destroyed that may have held a buffer. Adds another buffer, as long as
    /// there are replacements left. It is not known which buffer was lost, and it may still come
    /// back.
    void replace_one();

    [[nodiscard]] ibv_srq* get() const noexcept { return srq_.get(); }

    [[nodiscard]] std::span<const std::byte> bytes(uint32_t buffer, uint32_t length_bytes) const {
        return {at(buffer), length_bytes};
    }

    /// Posts buffers again, in one call. False: the device does not take them.
    [[nodiscard]] bool post(std::span<const uint32_t> buffers);

    [[nodiscard]] uint32_t buffer_count() const noexcept {
        return static_cast<uint32_t>(requests_.size());
    }

private:
    static constexpr uint32_t kLineBytes = 64;
    /// Buffers are made in blocks of so many; a block is registered as one region.
    static constexpr uint32_t kBlockBuffers = 32;

    Status grow_to(uint32_t count);

    [[nodiscard]] std::byte* at(uint32_t buffer) const {
        return blocks_[buffer / kBlockBuffers].bytes().data() +
               size_t{buffer % kBlockBuffers} * stride_bytes_;
    }

    ibv_pd* pd_ = nullptr;
    SrqPtr srq_;
    uint32_t depth_ = 0;
    uint32_t buffer_bytes_ = 0;
    uint32_t stride_bytes_ = 0;
    uint32_t windows_ = 0;   ///< sum of the granted windows
    uint32_t replaced_ = 0;  ///< buffers that stand in for lost ones
    std::vector<RegisteredPages> blocks_;
    std::vector<ibv_recv_wr> requests_;  ///< one per buffer; linked anew at each post
    std::vector<ibv_sge> pieces_;
};

}  // namespace weir::transport::verbs
