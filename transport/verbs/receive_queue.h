// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReceiveQueue: an endpoint's shared receive queue and the buffers in it.

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

    /// A queue for `depth` buffers of `buffer_bytes`; there are none in it yet. `owner` is its
    /// context in device events.
    /// Errors: kNoMemory
    [[nodiscard]] static Result<ReceiveQueue> make(ibv_pd* pd, void* owner, uint32_t depth,
                                                   uint32_t buffer_bytes);

    /// Adds buffers until there are `count` of them at least.
    /// Errors: kNoMemory
    [[nodiscard]] Status grow_to(uint32_t count);

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
    /// Every buffer begins a cache line: messages are aligned, whatever their greatest length.
    static constexpr uint32_t kLineBytes = 64;
    /// Buffers come in blocks of so many, each registered at once.
    static constexpr uint32_t kBlockBuffers = 64;

    [[nodiscard]] std::byte* at(uint32_t buffer) const {
        return blocks_[buffer / kBlockBuffers].bytes().data() +
               size_t{buffer % kBlockBuffers} * stride_bytes_;
    }

    ibv_pd* pd_ = nullptr;
    SrqPtr srq_;
    uint32_t depth_ = 0;
    uint32_t buffer_bytes_ = 0;
    uint32_t stride_bytes_ = 0;  ///< from one buffer to the next: a multiple of kLineBytes
    std::vector<RegisteredPages> blocks_;
    std::vector<ibv_recv_wr> requests_;  ///< one per buffer; chained anew at each post
    std::vector<ibv_sge> pieces_;
};

}  // namespace weir::transport::verbs
