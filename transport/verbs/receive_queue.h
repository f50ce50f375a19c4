// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReceiveQueue: an endpoint's shared receive queue and the buffers in it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "lib/base/result.h"
#include "transport/verbs/handles.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class ReceiveQueue {
public:
    /// Work request ids of receives have this bit set; below it stands the buffer's number.
    static constexpr uint64_t kIdBit = uint64_t{1} << 63;

    /// Buffers beyond the sum of all windows. They absorb the first messages of a peer that sends
    /// more than it may, and stand in for a buffer that a queue pair has not given back yet.
    static constexpr uint32_t kSpares = 32;
    /// Buffers that can take the place of lost ones.
    static constexpr uint32_t kReplacementsMost = 224;
    static constexpr uint32_t kBeyondWindows = kSpares + kReplacementsMost;

    /// Of `depth` entries, those that windows may be made of. A small queue has few others.
    [[nodiscard]] static constexpr uint32_t windows_of(uint32_t depth) noexcept {
        return depth - std::min(kBeyondWindows, depth / 2);
    }

    /// From one buffer to the next. Every buffer begins a cache line: messages are aligned,
    /// whatever their greatest length.
    [[nodiscard]] static constexpr uint32_t stride_bytes(uint32_t buffer_bytes) noexcept {
        return (buffer_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    }

    /// A queue for `depth` buffers of `buffer_bytes`; there are none in it yet. `owner` is its
    /// context in device events.
    /// Errors: kNoMemory
    [[nodiscard]] static Result<ReceiveQueue> make(ibv_pd* pd, void* owner, uint32_t depth,
                                                   uint32_t buffer_bytes);

    /// Adds buffers until there are enough for windows of that sum, and the spare ones.
    /// Errors: kNoMemory
    [[nodiscard]] Status serve_windows(uint32_t sum);

    /// A queue pair has gone that perhaps took a buffer with it: another takes its place, as long
    /// as there are places. There is no telling which one it was, and it may come back yet.
    void replace_one();

    [[nodiscard]] ibv_srq* get() const noexcept { return srq_.get(); }

    [[nodiscard]] std::span<const std::byte> bytes(uint32_t buffer, uint32_t length_bytes) const {
        return {at(buffer), length_bytes};
    }

    /// Posts buffers again, all at once. False: the device does not take them.
    [[nodiscard]] bool post(std::span<const uint32_t> buffers);

    [[nodiscard]] uint32_t buffer_count() const noexcept {
        return static_cast<uint32_t>(requests_.size());
    }

private:
    static constexpr uint32_t kLineBytes = 64;
    /// Buffers come in blocks of so many, each registered at once.
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
    uint32_t windows_ = 0;   ///< sum of the windows that it serves
    uint32_t replaced_ = 0;  ///< buffers that stand in for lost ones
    std::vector<RegisteredPages> blocks_;
    std::vector<ibv_recv_wr> requests_;  ///< one per buffer; chained anew at each post
    std::vector<ibv_sge> pieces_;
};

}  // namespace weir::transport::verbs
