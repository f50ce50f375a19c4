// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: the data path. Nothing here locks, allocates or calls the system, but for what
/// ibv_post_send and ibv_poll_cq do themselves.

#include <algorithm>
#include <cstring>
#include <limits>

#include <arpa/inet.h>
#include <fmt/core.h>

#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"

namespace weir::transport::verbs {

namespace {

using State = Connection::State;

constexpr uint32_t kCreditBits = 16;
constexpr uint32_t kCreditsMost = (1U << kCreditBits) - 1;

uint32_t pack(MessageKind kind, uint32_t credits) noexcept {
    return static_cast<uint32_t>(kind) << kCreditBits | credits;
}

/// What a failed work request tells its caller. That the peer's memory does not allow it is a
/// matter of the address; all else means that the peer cannot be reached any more.
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

Post VerbsEndpoint::send(ConnectionId connection,
                         std::span<const std::span<const std::byte>> parts) {
    Connection* const c = find_open(connection);
    if (c == nullptr) return Post::kClosed;
    size_t length = 0;
    for (const auto part : parts)
        length += part.size();
    if (length > options_.message_bytes_max) return Post::kInvalid;
    if (!c->credits.can_send() || !c->sends->has_room() || c->remainder) return Post::kNotNow;
    const auto length_bytes = static_cast<uint32_t>(length);
    std::byte* at = c->sends->reserve(length_bytes);
    if (at == nullptr) return Post::kNotNow;
    for (const auto part : parts) {
        if (part.empty()) continue;
        std::memcpy(at, part.data(), part.size());
        at += part.size();
    }
    c->credits.spend();
    c->sends->add_message(length_bytes, pack(MessageKind::kMessage, c->credits.pay(kCreditsMost)));
    mark_dirty(*c);
    ++c->messages_out;
    ++counters_.messages_sent;
    counters_.bytes_sent += length;
    return Post::kPosted;
}

Post VerbsEndpoint::signal(ConnectionId connection, uint32_t immediate) {
    Connection* const c = find_open(connection);
    if (c == nullptr) return Post::kClosed;
    if (!c->credits.can_send() || !c->sends->has_room() || c->remainder) return Post::kNotNow;
    c->credits.spend();
    c->sends->add_signal(immediate);
    mark_dirty(*c);
    ++c->messages_out;
    return Post::kPosted;
}

Result<RemoteSpan> VerbsEndpoint::expose(ConnectionId connection,
                                         std::span<const std::byte> memory) {
    if (find_open(connection) == nullptr) {
        return Error(Errc::kPeerLost, "the connection is closed: nobody to expose memory to");
    }
    for (const Access access : {Access::kRemote, Access::kRemoteRead, Access::kRemoteWrite}) {
        if (const Region* const region = regions_.find(memory, access)) {
            return RemoteSpan{reinterpret_cast<uint64_t>(memory.data()), memory.size(),
                              region->rkey};
        }
    }
    if (regions_.find(memory, Access::kLocal) != nullptr) {
        return Error(Errc::kRefused, "the memory is registered for local use only");
    }
    return Error(Errc::kInvalidArgument,
                 fmt::format("{} bytes at {} are not wholly inside of registered memory",
                             memory.size(), static_cast<const void*>(memory.data())));
}

std::byte* VerbsEndpoint::map(ConnectionId /*connection*/, const RemoteSpan& /*span*/,
                              Access /*wanted*/) {
    return nullptr;
}

Post VerbsEndpoint::read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
                         uint64_t context) {
    Remainder work;
    work.next.opcode = IBV_WR_RDMA_READ;
    work.last_opcode = IBV_WR_RDMA_READ;
    work.operation = {Event::kRead, context, into.size()};
    return post_operation(connection, into, from, work);
}

Post VerbsEndpoint::write(ConnectionId connection, std::span<const std::byte> from,
                          const RemoteSpan& to, uint64_t context) {
    Remainder work;
    work.next.opcode = IBV_WR_RDMA_WRITE;
    work.last_opcode = IBV_WR_RDMA_WRITE;
    work.operation = {Event::kWritten, context, from.size()};
    return post_operation(connection, from, to, work);
}

Post VerbsEndpoint::write_immediate(ConnectionId connection, std::span<const std::byte> from,
                                    const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    Remainder work;
    work.next.opcode = IBV_WR_RDMA_WRITE;
    work.next.immediate = immediate;
    work.last_opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.operation = {Event::kWritten, context, from.size()};
    return post_operation(connection, from, to, work);
}

Post VerbsEndpoint::post_operation(ConnectionId id, std::span<const std::byte> local,
                                   const RemoteSpan& remote, Remainder work) {
    Connection* const c = find_open(id);
    if (c == nullptr) return Post::kClosed;
    if (local.size() != remote.length_bytes) return Post::kInvalid;
    if (!local.empty()) {
        const Region* const region = regions_.find(local, Access::kLocal);
        if (region == nullptr) return Post::kInvalid;
        work.next.lkey = region->lkey;
    }
    const bool immediate = work.last_opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (c->remainder || c->operations_open >= kOperationsMost || !c->sends->has_room() ||
        (immediate && !c->credits.can_send())) {
        return Post::kNotNow;
    }
    ++c->operations_open;
    if (remote.key > std::numeric_limits<uint32_t>::max()) {
        // No such key exists. The device would say so and break the connection; we do the same.
        end_operation(*c, work.operation, Errc::kOutOfRange);
        fail(*c, Errc::kOutOfRange, "an operation named a key that cannot be");
        return Post::kPosted;
    }
    if (immediate) {
        c->credits.spend();
        ++c->messages_out;
    }
    work.next.local = reinterpret_cast<uint64_t>(local.data());
    work.next.remote = remote.address;
    work.next.rkey = static_cast<uint32_t>(remote.key);
    work.bytes = local.size();
    c->remainder = work;
    continue_remainder(*c);
    return Post::kPosted;
}

/// Posts as many parts as there is room for. What one work request can carry is the port's limit.
void VerbsEndpoint::continue_remainder(Connection& c) {
    Remainder& work = *c.remainder;
    const uint32_t part_bytes_max = device_.hardware().port_attr.max_msg_sz;
    while (c.sends->has_room()) {
        mark_dirty(c);
        work.next.bytes = static_cast<uint32_t>(std::min<uint64_t>(work.bytes, part_bytes_max));
        work.bytes -= work.next.bytes;
        if (work.bytes == 0) {
            work.next.opcode = work.last_opcode;
            c.sends->add_last(work.next, work.operation);
            c.remainder.reset();
            return;
        }
        c.sends->add_part(work.next);
        work.next.local += work.next.bytes;
        work.next.remote += work.next.bytes;
    }
}

void VerbsEndpoint::update_credits(Connection& c) {
    const bool alive = c.state == State::kOpen || (c.state == State::kClosing && !c.fence_posted);
    if (!alive || !c.credits.update_due() || !c.sends->has_reserve(2)) return;
    c.credits.spend();
    c.sends->add_empty(pack(MessageKind::kCreditUpdate, c.credits.pay(kCreditsMost)));
    ++c.messages_out;
    mark_dirty(c);
}

void VerbsEndpoint::mark_dirty(Connection& c) {
    if (c.dirty) return;
    c.dirty = true;
    dirty_.push_back(&c);
}

void VerbsEndpoint::flush() {
    // By index: a connection that fails here may put itself or others into the list.
    for (size_t i = 0; i < dirty_.size(); ++i) {
        Connection& c = *dirty_[i];
        c.dirty = false;
        const bool taken = c.sends->flush();
        counters_.doorbells += c.sends->take_doorbells();
        if (!taken) fail(c, Errc::kPeerLost, "the device does not take its work requests");
    }
    dirty_.clear();
}

void VerbsEndpoint::take_completion(const ibv_wc& wc) {
    if ((wc.wr_id & ReceiveQueue::kIdBit) != 0) {
        take_received(wc);
    } else {
        take_sent(wc);
    }
}

void VerbsEndpoint::take_sent(const ibv_wc& wc) {
    const auto slot = static_cast<size_t>(wc.wr_id >> 32);
    const auto sequence = static_cast<uint32_t>(wc.wr_id);
    Connection* const c = slot < slots_.size() ? slots_[slot].get() : nullptr;
    if (c == nullptr || !c->qp_up || c->qp->qp_num != wc.qp_num || !c->sends->is_open(sequence)) {
        return;  // of a queue pair that was given up
    }
    if (wc.status == IBV_WC_SUCCESS) {
        c->sends->end_through(sequence,
                              [&](const Operation& done) { end_operation(*c, done, Errc::kOk); });
        if (c->remainder) continue_remainder(*c);
        update_credits(*c);
        if (c->state == State::kClosing) advance_close(*c);
    } else {
        const Errc code = code_of(wc.status);
        const Errc others = c->state == State::kDraining && c->reason == Errc::kOk
                                ? Errc::kCancelled
                                : Errc::kPeerLost;
        // Nobody knows how those before it ended that were to complete quietly.
        if (sequence != c->sends->oldest()) {
            c->sends->end_through(sequence - 1,
                                  [&](const Operation& lost) { end_operation(*c, lost, others); });
        }
        c->sends->end_through(sequence, [&](const Operation& lost) {
            end_operation(*c, lost, code == Errc::kPeerLost ? others : code);
        });
        if (c->state != State::kDraining) {
            serve_socket(*c);  // perhaps it has said goodbye
            fail(*c, code, ibv_wc_status_str(wc.status));
        }
    }
    advance_drain(*c);
}

void VerbsEndpoint::take_received(const ibv_wc& wc) {
    const auto buffer = static_cast<uint32_t>(wc.wr_id);
    Connection* const c = find_queue_pair(wc.qp_num);
    if (c == nullptr || wc.status != IBV_WC_SUCCESS) {
        returning_.push_back({buffer, 0});
        if (c == nullptr) return;
        c->receives_over = true;  // a queue pair that failed takes no more
        if (c->state == State::kDraining) {
            advance_drain(*c);
        } else {
            serve_socket(*c);
            fail(*c, code_of(wc.status), ibv_wc_status_str(wc.status));
        }
        return;
    }
    if (c->state == State::kHandshake) become_open(*c);  // faster than its "ready"
    ++c->messages_in;
    if (!c->announced || c->reason == Errc::kProtocol || !c->credits.receive()) {
        returning_.push_back({buffer, 0});
        if (c->state == State::kDraining) return;
        ++counters_.refused;
        fail(*c, Errc::kProtocol, "it sent more messages than it was granted");
        return;
    }
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        returning_.push_back({buffer, c->id});
        Completion completion;
        completion.event = Event::kImmediate;
        completion.connection = c->id;
        completion.immediate = ntohl(wc.imm_data);
        emit(completion);
    } else {
        take_message(*c, wc, buffer);
    }
    if (c->state == State::kClosing) advance_close(*c);
}

void VerbsEndpoint::take_message(Connection& c, const ibv_wc& wc, uint32_t buffer) {
    const uint32_t immediate = ntohl(wc.imm_data);
    const uint32_t kind = immediate >> kCreditBits;
    const bool update = kind == static_cast<uint32_t>(MessageKind::kCreditUpdate);
    const bool known =
        update ? wc.byte_len == 0 : kind == static_cast<uint32_t>(MessageKind::kMessage);
    if ((wc.wc_flags & IBV_WC_WITH_IMM) == 0 || !known ||
        !c.credits.take_back(immediate & kCreditsMost)) {
        returning_.push_back({buffer, c.id});
        ++counters_.refused;
        fail(c, Errc::kProtocol,
             fmt::format("it sent a message of unknown kind or with wrong credits ({:#x})",
                         immediate));
        return;
    }
    if (update) {
        returning_.push_back({buffer, c.id});
        return;
    }
    ++counters_.messages_received;
    counters_.bytes_received += wc.byte_len;
    Completion completion;
    completion.event = Event::kReceived;
    completion.connection = c.id;
    completion.message = receives_->bytes(buffer, wc.byte_len);
    emit(completion, {buffer, c.id});
}

void VerbsEndpoint::end_operation(Connection& c, const Operation& operation, Errc status) {
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
    emit(completion);
}

}  // namespace weir::transport::verbs
