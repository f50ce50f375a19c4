// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/send_queue.h"

#include <algorithm>
#include <bit>

#include <arpa/inet.h>

namespace weir::transport::verbs {

namespace {

/// At least one in so many requests gets a completion, so that records and ring bytes come back.
constexpr uint32_t kSignalEvery = 32;
/// From this size on, an operation gets a completion of its own. A caller that waits for 16 bulk
/// reads wants to use the first while the others are in flight.
constexpr uint32_t kBulkBytes = 2048;

}  // namespace

SendQueue::SendQueue(ibv_qp* qp, RegisteredPages ring, uint32_t depth, uint32_t inline_bytes_max,
                     uint32_t tag)
    : qp_(qp),
      ring_(std::move(ring)),
      ring_lkey_(ring_.lkey()),
      ring_bytes_(ring_.bytes().data()),
      ring_positions_(static_cast<uint32_t>(ring_.bytes().size())),
      depth_(depth),
      inline_bytes_max_(inline_bytes_max),
      tag_(uint64_t{tag} << 32),
      signal_every_(std::clamp(depth / 4, 1U, kSignalEvery)),
      records_(std::bit_ceil(depth)),
      mask_(static_cast<uint32_t>(records_.size()) - 1) {
    for (uint32_t i = 0; i < kBatchMax; ++i) {
        batch_[i].next = i + 1 < kBatchMax ? &batch_[i + 1] : nullptr;
        batch_[i].sg_list = &pieces_[i];
    }
}

ibv_send_wr& SendQueue::next_request(ibv_wr_opcode opcode, const Record& record) {
    if (batch_count_ == kBatchMax) static_cast<void>(flush());  // failed_ keeps the result
    WEIR_CHECK(in_flight() < depth_);
    records_[added_ & mask_] = record;
    ibv_send_wr& request = batch_[batch_count_++];
    request.wr_id = tag_ | added_;
    request.opcode = opcode;
    request.send_flags = 0;
    request.num_sge = 0;
    ++added_;
    quiet_ring_bytes_ += record.ring_bytes;
    // Requests without a completion hold at most about a quarter of the ring. The rest is free,
    // or will be once a requested completion comes.
    if (++quiet_count_ >= signal_every_ || quiet_ring_bytes_ >= ring_positions_.size_bytes() / 4) {
        signal(request);
    }
    return request;
}

void SendQueue::signal(ibv_send_wr& request) noexcept {
    request.send_flags |= IBV_SEND_SIGNALED;
    quiet_count_ = 0;
    quiet_ring_bytes_ = 0;
    quiet_operation_ = -1;
}

void SendQueue::attach(ibv_send_wr& request, uint64_t local, uint32_t bytes, uint32_t lkey) {
    if (bytes == 0) return;
    *request.sg_list = {local, bytes, lkey};
    request.num_sge = 1;
}

std::byte* SendQueue::reserve(uint32_t length_bytes) noexcept {
    reserved_ = ring_positions_.take(length_bytes);
    return reserved_.fits ? ring_bytes_ + reserved_.offset : nullptr;
}

void SendQueue::add_message(uint32_t length_bytes, uint32_t immediate) {
    WEIR_CHECK(reserved_.fits);
    add_send(length_bytes, immediate, reserved_);
    reserved_ = {};
}

void SendQueue::add_empty(uint32_t immediate) {
    add_send(0, immediate, {});
}

void SendQueue::add_send(uint32_t length_bytes, uint32_t immediate, const RingSpace::Piece& piece) {
    ibv_send_wr& request = next_request(IBV_WR_SEND_WITH_IMM, {{}, piece.taken_bytes, false});
    request.imm_data = htonl(immediate);
    attach(request, reinterpret_cast<uint64_t>(ring_bytes_ + piece.offset), length_bytes,
           ring_lkey_);
    if (length_bytes > 0 && length_bytes <= inline_bytes_max_)
        request.send_flags |= IBV_SEND_INLINE;
}

void SendQueue::add_part(const Transfer& transfer) {
    ibv_send_wr& request = next_request(transfer.opcode, {});
    attach(request, transfer.local, transfer.bytes, transfer.lkey);
    request.imm_data = htonl(transfer.immediate);
    request.wr.rdma.remote_addr = transfer.remote;
    request.wr.rdma.rkey = transfer.rkey;
}

void SendQueue::add_last(const Transfer& transfer, const Operation& operation) {
    add_part(transfer);
    Record& record = records_[(added_ - 1) & mask_];
    record.operation = operation;
    record.is_operation = true;
    ibv_send_wr& request = batch_[batch_count_ - 1];
    if ((request.send_flags & IBV_SEND_SIGNALED) != 0) return;
    if (transfer.bytes >= kBulkBytes) {
        signal(request);
    } else {
        quiet_operation_ = static_cast<int>(batch_count_) - 1;
    }
}

uint32_t SendQueue::add_fence() {
    add_part({IBV_WR_RDMA_WRITE, 0, 0, 0, 0, 0, 0});
    signal(batch_[batch_count_ - 1]);
    return added_ - 1;
}

bool SendQueue::flush() {
    if (batch_count_ == 0) return !failed_;
    // The last operation of a batch gets a completion, which also ends those before it.
    if (quiet_operation_ >= 0) signal(batch_[static_cast<size_t>(quiet_operation_)]);
    ibv_send_wr& last = batch_[batch_count_ - 1];
    ibv_send_wr* const after = last.next;
    last.next = nullptr;
    ibv_send_wr* bad = nullptr;
    if (!failed_) {
        ++doorbells_;
        failed_ = ibv_post_send(qp_, batch_.data(), &bad) != 0;
    }
    last.next = after;
    batch_count_ = 0;
    return !failed_;
}

}  // namespace weir::transport::verbs
