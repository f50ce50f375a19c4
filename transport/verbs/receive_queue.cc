// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/receive_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>

#include <fmt/core.h>

#include "lib/base/log.h"

namespace weir::transport::verbs {

Result<ReceiveQueue> ReceiveQueue::make(ibv_pd* pd, void* owner, uint32_t depth,
                                        uint32_t buffer_bytes) {
    ReceiveQueue queue;
    ibv_srq_init_attr attr{};
    attr.srq_context = owner;
    attr.attr.max_wr = depth;
    attr.attr.max_sge = 1;
    queue.srq_.reset(ibv_create_srq(pd, &attr));
    if (queue.srq_ == nullptr) {
        return Error(Errc::kNoMemory,
                     fmt::format("cannot make a shared receive queue of {} entries", depth), errno);
    }
    queue.pd_ = pd;
    queue.depth_ = depth;
    queue.buffer_bytes_ = buffer_bytes;
    queue.stride_bytes_ = stride_bytes(buffer_bytes);
    // Room for all that there will ever be, so that the linked requests never move.
    queue.requests_.reserve(depth);
    queue.pieces_.reserve(depth);
    return queue;
}

Status ReceiveQueue::serve_windows(uint32_t sum) {
    windows_ = sum;
    return grow_to(std::min(windows_ + kSpares + replaced_, depth_));
}

void ReceiveQueue::replace_one() {
    if (replaced_ == kReplacementsMost) return;
    if (++replaced_ == kReplacementsMost) {
        log(LogLevel::kWarning,
            "verbs: {} broken connections may each have kept a receive buffer; those of further "
            "ones "
            "are not replaced",
            replaced_);
    }
    if (const Status grown = serve_windows(windows_); !grown) {
        log(LogLevel::kWarning, "verbs: a lost receive buffer cannot be replaced: {}",
            grown.error().message());
    }
}

Status ReceiveQueue::grow_to(uint32_t count) {
    while (buffer_count() < count) {
        const uint32_t first = buffer_count();
        const uint32_t more = std::min(kBlockBuffers, depth_ - first);
        WEIR_ASSIGN(RegisteredPages pages,
                    RegisteredPages::make(pd_, size_t{kBlockBuffers} * stride_bytes_));
        const uint32_t lkey = pages.lkey();
        blocks_.push_back(std::move(pages));
        std::array<uint32_t, kBlockBuffers> added;
        std::iota(added.begin(), added.end(), first);
        for (uint32_t buffer = first; buffer < first + more; ++buffer) {
            pieces_.push_back({reinterpret_cast<uint64_t>(at(buffer)), buffer_bytes_, lkey});
            requests_.push_back({kIdBit | buffer, nullptr, &pieces_.back(), 1});
        }
        if (!post(std::span(added).first(more))) {
            return Error(Errc::kNoMemory, "the device refuses more receive buffers", errno);
        }
    }
    return {};
}

bool ReceiveQueue::post(std::span<const uint32_t> buffers) {
    if (buffers.empty()) return true;
    for (size_t i = 0; i < buffers.size(); ++i) {
        requests_[buffers[i]].next = i + 1 < buffers.size() ? &requests_[buffers[i + 1]] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq_.get(), &requests_[buffers.front()], &bad) == 0;
}

}  // namespace weir::transport::verbs
