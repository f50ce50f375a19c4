// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: expose, map, read and write. Every read or write is a copy that is complete when
/// the call returns.
#include <cstring>

#include <fmt/core.h>

#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

Result<RemoteSpan> ShmEndpoint::expose(ConnectionId id, std::span<const std::byte> memory) {
    ShmConnection* const connection = connections_.find_open(id);
    if (connection == nullptr)
        return Error(Errc::kPeerLost, "shm: cannot expose memory: the connection is closed");
    const ShmRegion* const region = regions_.now().find(memory);
    if (region == nullptr) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("shm: cannot expose {} bytes at {}: not all of them are registered; "
                        "use memory of the pool, or register it",
                        memory.size(), static_cast<const void*>(memory.data())));
    }
    if (region->access == Access::kLocal) {
        return Error(Errc::kRefused,
                     "shm: cannot expose memory that was registered as Access::kLocal");
    }
    connection->exposed = true;
    if (connection->link == nullptr && !connection->known_regions.contains(region->key)) {
        WEIR_TRY(announce(*connection, *region));
    }
    const auto offset = static_cast<uint64_t>(memory.data() - region->bytes.data());
    return RemoteSpan{offset, memory.size(), region->key};
}

/// Tells the peer of the region. The note is in the peer's socket before this returns, and so
/// before any message can carry the key.
Status ShmEndpoint::announce(ShmConnection& connection, const ShmRegion& region) {
    if (connection.known_regions.size() >= 2 * regions_.now().regions().size() + 64) {
        std::erase_if(connection.known_regions,
                      [&](uint64_t key) { return regions_.now().find_key(key) == nullptr; });
    }
    RegionNote note;
    note.key = region.key;
    note.base_address = reinterpret_cast<uint64_t>(region.bytes.data());
    note.length_bytes = region.bytes.size();
    note.fd_offset = region.fd_offset;
    note.access = static_cast<uint32_t>(region.access);
    note.has_fd = region.fd != nullptr ? 1 : 0;
    const int fd = region.fd != nullptr ? region.fd->get() : -1;
    WEIR_TRY(send_packet(connection.socket.get(), std::as_bytes(std::span(&note, 1)),
                         std::span(&fd, fd >= 0 ? 1 : 0)));
    connection.known_regions.insert(region.key);
    return {};
}

/// Finds the memory that `span` stands for on this connection. Sets `connection` to nullptr if
/// the connection ended over it.
ShmEndpoint::Reach ShmEndpoint::reach(ShmConnection*& connection, const RemoteSpan& span,
                                      Access wanted) {
    if (connection->link != nullptr) return reach_direct(span, wanted);
    const PeerRegion* region = connection->peer_regions.find(span.key);
    if (region == nullptr) {
        // The note about this region may still be in the socket.
        const ConnectionId id = connection->id;
        drain_socket(*connection);
        connection = connections_.find_open(id);
        if (connection == nullptr) return {Errc::kPeerLost, nullptr, 0};
        region = connection->peer_regions.find(span.key);
    }
    if (region == nullptr || !allows(region->access, wanted) ||
        !is_inside(span.address, span.length_bytes, region->length_bytes)) {
        return {Errc::kOutOfRange, nullptr, 0};
    }
    std::byte* const mapped =
        region->mapping ? region->mapping.bytes().data() + span.address : nullptr;
    return {Errc::kOk, mapped, region->base_address + span.address};
}

/// Within one process, addresses can be used as they are. The caller holds regions_.
ShmEndpoint::Reach ShmEndpoint::reach_direct(const RemoteSpan& span, Access wanted) {
    const ShmRegion* const region = regions_.now().find_key(span.key);
    if (region == nullptr || !allows(region->access, wanted) ||
        !is_inside(span.address, span.length_bytes, region->bytes.size())) {
        return {Errc::kOutOfRange, nullptr, 0};
    }
    return {Errc::kOk, region->bytes.data() + span.address, 0};
}

std::byte* ShmEndpoint::map(ConnectionId id, const RemoteSpan& span, Access wanted) {
    ShmConnection* connection = connections_.find_open(id);
    if (connection == nullptr) return nullptr;
    if (connection->link == nullptr) return reach(connection, span, wanted).mapped;
    regions_.hold();
    std::byte* const there = reach_direct(span, wanted).mapped;
    if (there != nullptr) {
        regions_.hold_for_the_turn();
    } else {
        regions_.release();
    }
    return there;
}

Post ShmEndpoint::may_post(const ShmConnection* connection, std::span<const std::byte> memory,
                           const RemoteSpan& span) {
    if (connection == nullptr || connection->is_over()) return Post::kClosed;
    if (memory.size() != span.length_bytes || !regions_.is_registered(memory))
        return Post::kInvalid;
    if (connection->state != State::kOpen) return Post::kNotNow;
    if (connection->operations_open >= capabilities().operations_max) return Post::kNotNow;
    return Post::kPosted;
}

/// Queues the completion now, before the copy: if the connection breaks during the operation,
/// kClosed must come after it.
size_t ShmEndpoint::begin_operation(ShmConnection& connection, Event event, uint64_t context) {
    Completion completion;
    completion.event = event;
    completion.connection = connection.id;
    completion.context = context;
    ++connection.operations_open;
    return own_.push(completion);
}

Errc ShmEndpoint::copy_in(ShmConnection* connection, std::span<std::byte> into,
                          const RemoteSpan& from) {
    if (connection->link != nullptr) regions_.hold();
    const Reach source = reach(connection, from, Access::kRemoteRead);
    Errc status = source.status;
    if (status == Errc::kOk && source.mapped != nullptr) {
        if (!into.empty()) std::memcpy(into.data(), source.mapped, into.size());
    } else if (status == Errc::kOk) {
        status = connection->far_process.read(into, source.far_address);
        if (status == Errc::kOk) counters_.bytes_staged += into.size();
    }
    regions_.release();
    if (status == Errc::kOk) counters_.bytes_received += into.size();
    return status;
}

Errc ShmEndpoint::copy_out(ShmConnection* connection, std::span<const std::byte> from,
                           const RemoteSpan& to) {
    if (connection->link != nullptr) regions_.hold();
    const Reach target = reach(connection, to, Access::kRemoteWrite);
    Errc status = target.status;
    if (status == Errc::kOk && target.mapped != nullptr) {
        if (!from.empty()) std::memcpy(target.mapped, from.data(), from.size());
    } else if (status == Errc::kOk) {
        status = connection->far_process.write(from, target.far_address);
    }
    regions_.release();
    if (status == Errc::kOk) counters_.bytes_sent += from.size();
    return status;
}

Post ShmEndpoint::read(ConnectionId id, std::span<std::byte> into, const RemoteSpan& from,
                       uint64_t context) {
    ShmConnection* const connection = connections_.find(id);
    const Post answer = may_post(connection, into, from);
    if (answer != Post::kPosted) return answer;
    ++counters_.reads;
    const size_t place = begin_operation(*connection, Event::kRead, context);
    own_.at(place).status = copy_in(connection, into, from);
    return Post::kPosted;
}

Post ShmEndpoint::write(ConnectionId id, std::span<const std::byte> from, const RemoteSpan& to,
                        uint64_t context) {
    ShmConnection* const connection = connections_.find(id);
    const Post answer = may_post(connection, from, to);
    if (answer != Post::kPosted) return answer;
    ++counters_.writes;
    const size_t place = begin_operation(*connection, Event::kWritten, context);
    own_.at(place).status = copy_out(connection, from, to);
    return Post::kPosted;
}

Post ShmEndpoint::write_immediate(ConnectionId id, std::span<const std::byte> from,
                                  const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    ShmConnection* const connection = connections_.find(id);
    const Post answer = may_post(connection, from, to);
    if (answer != Post::kPosted) return answer;
    if (!connection->channel.out.has_room()) return no_room(*connection);
    ++counters_.writes;
    const size_t place = begin_operation(*connection, Event::kWritten, context);
    const Errc status = copy_out(connection, from, to);
    own_.at(place).status = status;
    // The record shows the peer that the data is there. There is room for it: it was checked
    // above.
    if (status == Errc::kOk) static_cast<void>(post_immediate(*connection, immediate));
    return Post::kPosted;
}

}  // namespace weir::transport::shm
