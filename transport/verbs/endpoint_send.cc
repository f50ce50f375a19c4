// SPDX-License-Identifier: Apache-2.0
/// \file
/// VerbsEndpoint: sends messages and begins operations. This takes no lock, allocates nothing and
/// makes no system call, except those of ibv_post_send.

#include <algorithm>
#include <cstring>
#include <limits>

#include "transport/verbs/endpoint.h"
#include "transport/verbs/endpoint_limits.h"

namespace weir::transport::verbs {

namespace {

constexpr uint32_t kCreditsMost = (1U << kCreditBits) - 1;

uint32_t pack(MessageKind kind, uint32_t credits) noexcept {
    return static_cast<uint32_t>(kind) << kCreditBits | credits;
}

}  // namespace

VerbsConnection* VerbsEndpoint::find_open(ConnectionId id) const noexcept {
    VerbsConnection* const c = connections_.find(id);
    return c != nullptr && c->state == State::kOpen ? c : nullptr;
}

Post VerbsEndpoint::send(ConnectionId connection,
                         std::span<const std::span<const std::byte>> parts) {
    VerbsConnection* const c = find_open(connection);
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
    flush_later(*c);
    ++c->messages_out;
    ++counters_.messages_sent;
    counters_.bytes_sent += length;
    return Post::kPosted;
}

Result<RemoteSpan> VerbsEndpoint::expose(ConnectionId connection,
                                         std::span<const std::byte> memory) {
    if (find_open(connection) == nullptr) {
        return Error(Errc::kPeerLost, "verbs: cannot expose memory: the connection is closed");
    }
    return regions_.expose(memory, "verbs");
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
    VerbsConnection* const c = find_open(id);
    if (c == nullptr) return Post::kClosed;
    if (local.size() != remote.length_bytes) return Post::kInvalid;
    if (!local.empty()) {
        const Region* const region = regions_.find(local, Access::kLocal);
        if (region == nullptr) return Post::kInvalid;
        work.next.lkey = static_cast<uint32_t>(region->local_key);
    }
    const bool immediate = work.last_opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (c->remainder || c->operations_open >= kOperationsMost || !c->sends->has_room() ||
        (immediate && !c->credits.can_send())) {
        return Post::kNotNow;
    }
    ++c->operations_open;
    if (remote.key > std::numeric_limits<uint32_t>::max()) {
        // No such key exists. The device would report that and break the connection; we do the
        // same.
        end_operation(*c, work.operation, Errc::kOutOfRange);
        fail(*c, Errc::kOutOfRange,
             "an operation of this side named a memory key that does not exist");
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

/// Posts as many parts as there is room for. The port limits the bytes of one work request.
void VerbsEndpoint::continue_remainder(VerbsConnection& c) {
    Remainder& work = *c.remainder;
    const uint32_t part_bytes_max = device_.hardware().port_attr.max_msg_sz;
    while (c.sends->has_room()) {
        flush_later(c);
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

void VerbsEndpoint::update_credits(VerbsConnection& c) {
    const bool may_post = c.state == State::kOpen || (c.state == State::kFinishing && !c.fence);
    if (!may_post || !c.credits.update_due() || !c.sends->has_reserve(2)) return;
    c.credits.spend();
    c.sends->add_empty(pack(MessageKind::kCreditUpdate, c.credits.pay(kCreditsMost)));
    ++c.messages_out;
    flush_later(c);
}

void VerbsEndpoint::flush_later(VerbsConnection& c) {
    if (c.is_in_flush_list) return;
    c.is_in_flush_list = true;
    flush_list_.push_back(&c);
}

void VerbsEndpoint::flush() {
    // By index: a connection that fails here may add itself or others to the list.
    for (size_t i = 0; i < flush_list_.size(); ++i) {
        VerbsConnection& c = *flush_list_[i];
        c.is_in_flush_list = false;
        const bool taken = c.sends->flush();
        counters_.doorbells += c.sends->take_doorbells();
        if (!taken)
            fail(c, Errc::kPeerLost, "the device refuses its work requests; see the kernel's log");
    }
    flush_list_.clear();
}

}  // namespace weir::transport::verbs
