// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SendQueue: the send side of one queue pair. It collects work requests and posts them in
/// batches, requests as few completions as it can, and knows what each completion stands for.

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <infiniband/verbs.h>

#include "transport/transport.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/ring_space.h"

namespace weir::transport::verbs {

/// What the completion of a caller's operation needs.
struct Operation {
    Event event = Event::kRead;
    uint64_t context = 0;
    uint64_t bytes = 0;
};

/// One work request that moves memory.
struct Transfer {
    ibv_wr_opcode opcode = IBV_WR_RDMA_READ;
    uint64_t local = 0;
    uint32_t lkey = 0;
    uint32_t bytes = 0;
    uint64_t remote = 0;
    uint32_t rkey = 0;
    uint32_t immediate = 0;
};

/// Thread: the endpoint's.
class SendQueue {
public:
    /// Requests kept free for what keeps a connection alive or ends it: a credit update, the
    /// fence of an orderly end, and the beacon of any end.
    static constexpr uint32_t kReserved = 4;
    static constexpr uint32_t kBatchMax = 16;

    /// `tag` comes back in the upper half of every work request's id.
    SendQueue(ibv_qp* qp, RegisteredPages ring, uint32_t depth, uint32_t inline_bytes_max,
              uint32_t tag);

    /// Whether there is room for a request of the caller.
    [[nodiscard]] bool has_room() const noexcept { return in_flight() + kReserved < depth_; }

    /// Whether there is room for one of our own requests, and for `spare` more after it.
    [[nodiscard]] bool has_reserve(uint32_t spare) const noexcept {
        return in_flight() + spare < depth_;
    }

    /// Room for a message of that length. The caller fills it and calls add_message(). nullptr:
    /// no room now.
    [[nodiscard]] std::byte* reserve(uint32_t length_bytes) noexcept;
    /// Adds the message that reserve() made room for last.
    void add_message(uint32_t length_bytes, uint32_t immediate);
    /// Adds a message without content.
    void add_empty(uint32_t immediate);
    /// Adds a part of an operation that has more parts.
    void add_part(const Transfer& transfer);
    /// Adds the last or only part of an operation.
    void add_last(const Transfer& transfer, const Operation& operation);
    /// Adds a request that only completes. When it has completed, so have all before it. Returns
    /// its sequence number.
    uint32_t add_fence();

    /// Posts the collected requests. False: the device does not take them, and the queue pair is
    /// lost.
    [[nodiscard]] bool flush();

    /// How many batches were posted since the last call.
    [[nodiscard]] uint64_t take_doorbells() noexcept { return std::exchange(doorbells_, 0); }

    /// Whether `sequence` (the lower half of a request's id) is in flight.
    [[nodiscard]] bool is_open(uint32_t sequence) const noexcept {
        return sequence - done_ < added_ - done_;
    }

    /// Ends all requests up to and including `sequence`. Calls on_end(operation) for those that
    /// complete an operation of the caller.
    template <class OnEnd>
    void end_through(uint32_t sequence, OnEnd&& on_end) {
        while (done_ != sequence + 1) {
            const Record& record = records_[done_ & mask_];
            ++done_;
            ring_positions_.give_back(record.ring_bytes);
            if (record.is_operation) on_end(record.operation);
        }
    }

    /// Ends all requests.
    template <class OnEnd>
    void end_all(OnEnd&& on_end) {
        if (done_ != added_) end_through(added_ - 1, on_end);
    }

    [[nodiscard]] uint32_t in_flight() const noexcept { return added_ - done_; }

    /// The sequence number of the oldest request in flight.
    [[nodiscard]] uint32_t oldest() const noexcept { return done_; }

    /// Gives the ring away, for another queue pair to use.
    [[nodiscard]] RegisteredPages take_ring() noexcept { return std::move(ring_); }

private:
    struct Record {
        Operation operation;
        uint32_t ring_bytes = 0;
        bool is_operation = false;
    };

    ibv_send_wr& next_request(ibv_wr_opcode opcode, const Record& record);
    void attach(ibv_send_wr& request, uint64_t local, uint32_t bytes, uint32_t lkey);
    void signal(ibv_send_wr& request) noexcept;
    void add_send(uint32_t length_bytes, uint32_t immediate, const RingSpace::Piece& piece);

    ibv_qp* qp_;
    RegisteredPages ring_;
    uint32_t ring_lkey_;
    std::byte* ring_bytes_;
    RingSpace ring_positions_;
    RingSpace::Piece reserved_;
    uint32_t depth_;
    uint32_t inline_bytes_max_;
    uint64_t tag_;
    uint32_t signal_every_;

    std::vector<Record> records_;  ///< of requests [done_, added_), at sequence & mask_
    uint32_t mask_;
    uint32_t added_ = 0;
    uint32_t done_ = 0;

    std::array<ibv_send_wr, kBatchMax> batch_{};
    std::array<ibv_sge, kBatchMax> pieces_{};
    uint32_t batch_count_ = 0;
    int quiet_operation_ = -1;       ///< in the batch: the last operation without a completion
    uint32_t quiet_count_ = 0;       ///< requests since the last one with a completion
    uint32_t quiet_ring_bytes_ = 0;  ///< ring bytes that these requests hold
    bool failed_ = false;
    uint64_t doorbells_ = 0;
};

}  // namespace weir::transport::verbs
