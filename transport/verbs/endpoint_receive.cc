// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: what completions mean: messages that arrived, and sends and operations that
/// ended. As long as nothing fails, this takes no lock, allocates nothing and makes no system
/// call.

#include <arpa/inet.h>
#include <fmt/core.h>

#include "transport/verbs/endpoint.h"

namespace weir::transport::verbs {

namespace {

/// The status of an operation whose work request failed. If memory does not allow the access, the
/// address was wrong; any other failure means that the peer is lost.
Errc code_of(ibv_wc_status status) noexcept {
    switch (status) {
        case IBV_WC_REM_ACCESS_ERR:
        case IBV_WC_REM_INV_REQ_ERR:
        case IBV_WC_REM_INV_RD_REQ_ERR: return Errc::kOutOfRange;
        case IBV_WC_LOC_PROT_ERR:
        case IBV_WC_LOC_ACCESS_ERR: return Errc::kInvalidArgument;
        default: return Errc::kPeerLost;
    }
}

}  // namespace

void VerbsEndpoint::take_sent(const ibv_wc& wc) {
    const auto sequence = static_cast<uint32_t>(wc.wr_id);
    VerbsConnection* const c = connections_.at_slot(static_cast<size_t>(wc.wr_id >> 32));
    if (c == nullptr || c->queue_pair < QueuePairState::kUp || c->qp->qp_num != wc.qp_num ||
        !c->sends->is_open(sequence)) {
        return;  // of a queue pair that was given up before it was drained
    }
    if (wc.status == IBV_WC_SUCCESS) {
        c->sends->end_through(sequence,
                              [&](const Operation& done) { end_operation(*c, done, Errc::kOk); });
        if (c->remainder) continue_remainder(*c);
        update_credits(*c);
        advance_close(*c);
    } else {
        take_failed(*c, wc);
    }
    advance_drain(*c);
}

void VerbsEndpoint::take_failed(VerbsConnection& c, const ibv_wc& wc) {
    const auto sequence = static_cast<uint32_t>(wc.wr_id);
    const Errc code = code_of(wc.status);
    const Errc others = c.is_ending() && c.reason == Errc::kOk ? Errc::kCancelled : Errc::kPeerLost;
    // The requests before it have no completion of their own, so it is unknown how they ended.
    if (sequence != c.sends->oldest()) {
        c.sends->end_through(sequence - 1,
                             [&](const Operation& lost) { end_operation(c, lost, others); });
    }
    c.sends->end_through(sequence, [&](const Operation& lost) {
        end_operation(c, lost, code == Errc::kPeerLost ? others : code);
    });
    meeting_->serve(c);  // its Bye may have arrived
    fail(c, code, ibv_wc_status_str(wc.status));
}

void VerbsEndpoint::take_received(const ibv_wc& wc) {
    const auto buffer = static_cast<uint32_t>(wc.wr_id);
    VerbsConnection* const c = connections_.find_queue_pair(wc.qp_num);
    if (c == nullptr || wc.status != IBV_WC_SUCCESS) {
        delivery_.give_back({buffer, 0});
        if (c == nullptr) return;
        c->queue_pair = QueuePairState::kSpent;  // a receive fails on a queue pair in ERR only
        meeting_->serve(*c);
        fail(*c, code_of(wc.status), ibv_wc_status_str(wc.status));
        advance_drain(*c);
        return;
    }
    if (c->is_coming()) open(*c);  // its first message came before its Ready
    ++c->messages_in;
    if (!c->is_known_to_caller || c->reason == Errc::kProtocol || !c->credits.receive()) {
        delivery_.give_back({buffer, 0});
        if (c->is_ending()) return;
        ++counters_.refused;
        fail(*c, Errc::kProtocol, "it sent more messages than it was granted");
        return;
    }
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        delivery_.give_back({buffer, c->id});
        Completion completion;
        completion.event = Event::kImmediate;
        completion.connection = c->id;
        completion.immediate = ntohl(wc.imm_data);
        delivery_.add(completion);
    } else {
        take_message(*c, wc, buffer);
    }
    advance_close(*c);
}

void VerbsEndpoint::take_message(VerbsConnection& c, const ibv_wc& wc, uint32_t buffer) {
    const uint32_t immediate = ntohl(wc.imm_data);
    const uint32_t kind = immediate >> kCreditBits;
    const bool update = kind == static_cast<uint32_t>(MessageKind::kCreditUpdate);
    const bool known =
        update ? wc.byte_len == 0 : kind == static_cast<uint32_t>(MessageKind::kMessage);
    if ((wc.wc_flags & IBV_WC_WITH_IMM) == 0 || !known ||
        !c.credits.take_back(immediate & ((1U << kCreditBits) - 1))) {
        delivery_.give_back({buffer, c.id});
        ++counters_.refused;
        fail(c, Errc::kProtocol,
             fmt::format("it sent a message of unknown kind or with wrong credits ({:#x})",
                         immediate));
        return;
    }
    if (update) {
        delivery_.give_back({buffer, c.id});
        return;
    }
    ++counters_.messages_received;
    counters_.bytes_received += wc.byte_len;
    Completion completion;
    completion.event = Event::kReceived;
    completion.connection = c.id;
    completion.message = supplies_->receives().bytes(buffer, wc.byte_len);
    delivery_.add_lending(completion, {buffer, c.id});
}

void VerbsEndpoint::end_operation(VerbsConnection& c, const Operation& operation, Errc status) {
    --c.operations_open;
    const bool is_read = operation.event == Event::kRead;
    ++(is_read ? counters_.reads : counters_.writes);
    if (status == Errc::kOk) {
        (is_read ? counters_.bytes_received : counters_.bytes_sent) += operation.bytes;
    }
    Completion completion;
    completion.event = operation.event;
    completion.status = status;
    completion.connection = c.id;
    completion.context = operation.context;
    delivery_.add(completion);
}

}  // namespace weir::transport::verbs
