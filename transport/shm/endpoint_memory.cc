// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: registered memory, ours and the peers', and the notes about it on the socket.
/// Every read or write is a copy that is complete when the call returns.
#include <cstring>

#include <fmt/core.h>
#include <sys/epoll.h>

#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

namespace {

bool inside(uint64_t offset, uint64_t length, uint64_t region_bytes) noexcept {
    return offset <= region_bytes && length <= region_bytes - offset;
}

bool contains(std::span<const std::byte> outer, std::span<const std::byte> inner) noexcept {
    const auto begin = reinterpret_cast<uintptr_t>(outer.data());
    const auto at = reinterpret_cast<uintptr_t>(inner.data());
    return at >= begin && inside(at - begin, inner.size(), outer.size());
}

}  // namespace

void ShmEndpoint::hold_regions() noexcept {
    if (!reader_->entered()) reader_->enter();
}

void ShmEndpoint::release_regions() noexcept {
    if (!mapped_ && reader_->entered()) reader_->leave();
}

const RegionSnapshot& ShmEndpoint::regions() {
    const uint64_t generation = device_.regions().generation();
    if (regions_ == nullptr || generation != regions_generation_) {
        regions_generation_ = generation;
        regions_ = device_.regions().snapshot();
        last_region_ = nullptr;
    }
    return *regions_;
}

bool ShmEndpoint::is_registered(std::span<const std::byte> memory) {
    if (memory.empty()) return true;
    const RegionSnapshot& all = regions();
    if (last_region_ == nullptr || !contains(last_region_->bytes, memory)) {
        last_region_ = all.find(memory);
    }
    return last_region_ != nullptr;
}

Result<RemoteSpan> ShmEndpoint::expose(ConnectionId id, std::span<const std::byte> memory) {
    Connection* const connection = find_open(id);
    if (connection == nullptr) return Error(Errc::kPeerLost, "shm: the connection is closed");
    const Region* const region = regions().find(memory);
    if (region == nullptr) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("shm: {} bytes at {} are not (wholly) registered", memory.size(),
                                 static_cast<const void*>(memory.data())));
    }
    if (region->access == Access::kLocal) {
        return Error(Errc::kRefused, "shm: memory registered as local cannot be exposed");
    }
    connection->exposed = true;
    if (connection->link == nullptr && !connection->announced.contains(region->key)) {
        WEIR_TRY(announce(*connection, *region));
    }
    const auto offset = static_cast<uint64_t>(memory.data() - region->bytes.data());
    return RemoteSpan{offset, memory.size(), region->key};
}

/// Tells the peer of the region. The note is in the peer's socket before this returns, and so
/// before any message can carry the key.
Status ShmEndpoint::announce(Connection& connection, const Region& region) {
    if (connection.announced.size() >= 2 * regions().regions().size() + 64) {
        std::erase_if(connection.announced,
                      [&](uint64_t key) { return regions().find_key(key) == nullptr; });
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
    connection.announced.insert(region.key);
    return {};
}

/// Finds the memory that `span` stands for on this connection. Sets `connection` to nullptr if
/// the connection ended over it.
ShmEndpoint::Reach ShmEndpoint::reach(Connection*& connection, const RemoteSpan& span,
                                      Access wanted) {
    if (connection->link != nullptr) return reach_direct(span, wanted);
    const PeerRegion* region = connection->peer_regions.find(span.key);
    if (region == nullptr) {
        // The note about this region may still be in the socket.
        const ConnectionId id = connection->id;
        drain_socket(*connection);
        connection = find_open(id);
        if (connection == nullptr) return {Errc::kPeerLost, nullptr, 0};
        region = connection->peer_regions.find(span.key);
    }
    if (region == nullptr || !allows(region->access, wanted) ||
        !inside(span.address, span.length_bytes, region->length_bytes)) {
        return {Errc::kOutOfRange, nullptr, 0};
    }
    std::byte* const mapped =
        region->mapping ? region->mapping.bytes().data() + span.address : nullptr;
    return {Errc::kOk, mapped, region->base_address + span.address};
}

/// Within one process, addresses can be used as they are. The caller has called hold_regions().
ShmEndpoint::Reach ShmEndpoint::reach_direct(const RemoteSpan& span, Access wanted) {
    const Region* const region = regions().find_key(span.key);
    if (region == nullptr || !allows(region->access, wanted) ||
        !inside(span.address, span.length_bytes, region->bytes.size())) {
        return {Errc::kOutOfRange, nullptr, 0};
    }
    return {Errc::kOk, region->bytes.data() + span.address, 0};
}

void ShmEndpoint::drain_socket(Connection& connection) {
    Packet packet;
    for (int i = 0; i < kPacketsPerLook; ++i) {
        const Receive received = receive_packet(connection.socket.get(), packet);
        if (received == Receive::kNothing) return;
        if (received == Receive::kEnd) return begin_draining(connection);
        if (auto taken = take_packet(connection, packet); !taken) {
            refuse(connection, taken.error());
            return;
        }
    }
}

Status ShmEndpoint::take_packet(Connection& connection, const Packet& packet) {
    uint64_t magic = 0;
    if (!packet.truncated && packet.length_bytes >= sizeof(magic)) {
        std::memcpy(&magic, packet.buffer.data(), sizeof(magic));
    }
    if (magic == kWakeMagic && packet.length_bytes == sizeof(magic) && packet.fds.empty()) {
        return {};
    }
    if (magic != kRegionMagic || packet.length_bytes != sizeof(RegionNote) ||
        packet.fds.size() > 1) {
        return Error(Errc::kProtocol,
                     fmt::format("{} bytes of garbage on its socket", packet.length_bytes));
    }
    RegionNote note;
    std::memcpy(&note, packet.buffer.data(), sizeof(note));
    auto added = connection.peer_regions.add(note, packet.fds.empty() ? -1 : packet.fds[0].get());
    retired_ = retired_ || connection.peer_regions.has_retired();
    return added;
}

std::byte* ShmEndpoint::map(ConnectionId id, const RemoteSpan& span, Access wanted) {
    Connection* connection = find_open(id);
    if (connection == nullptr) return nullptr;
    if (connection->link == nullptr) return reach(connection, span, wanted).mapped;
    hold_regions();
    std::byte* const there = reach_direct(span, wanted).mapped;
    if (there != nullptr) {
        mapped_ = true;  // held until the next poll
    } else {
        release_regions();
    }
    return there;
}

Post ShmEndpoint::may_post(const Connection* connection, std::span<const std::byte> memory,
                           const RemoteSpan& span) {
    if (connection == nullptr || connection->is_over()) return Post::kClosed;
    if (memory.size() != span.length_bytes || !is_registered(memory)) return Post::kInvalid;
    if (connection->state != State::kOpen) return Post::kNotNow;
    if (connection->operations_open >= capabilities().operations_max) return Post::kNotNow;
    return Post::kPosted;
}

/// Queues the completion now, before the copy: if the connection breaks during the operation,
/// kClosed must come after it.
size_t ShmEndpoint::begin_operation(Connection& connection, Event event, uint64_t context) {
    Completion completion;
    completion.event = event;
    completion.connection = connection.id;
    completion.context = context;
    ++connection.operations_open;
    return local_.push(completion);
}

Errc ShmEndpoint::copy_in(Connection* connection, std::span<std::byte> into,
                          const RemoteSpan& from) {
    if (connection->link != nullptr) hold_regions();
    const Reach source = reach(connection, from, Access::kRemoteRead);
    Errc status = source.status;
    if (status == Errc::kOk && source.mapped != nullptr) {
        if (!into.empty()) std::memcpy(into.data(), source.mapped, into.size());
    } else if (status == Errc::kOk) {
        status = connection->far_process.read(into, source.far_address);
        if (status == Errc::kOk) counters_.bytes_staged += into.size();
    }
    release_regions();
    if (status == Errc::kOk) counters_.bytes_received += into.size();
    return status;
}

Errc ShmEndpoint::copy_out(Connection* connection, std::span<const std::byte> from,
                           const RemoteSpan& to) {
    if (connection->link != nullptr) hold_regions();
    const Reach target = reach(connection, to, Access::kRemoteWrite);
    Errc status = target.status;
    if (status == Errc::kOk && target.mapped != nullptr) {
        if (!from.empty()) std::memcpy(target.mapped, from.data(), from.size());
    } else if (status == Errc::kOk) {
        status = connection->far_process.write(from, target.far_address);
    }
    release_regions();
    if (status == Errc::kOk) counters_.bytes_sent += from.size();
    return status;
}

Post ShmEndpoint::read(ConnectionId id, std::span<std::byte> into, const RemoteSpan& from,
                       uint64_t context) {
    Connection* const connection = find(id);
    const Post answer = may_post(connection, into, from);
    if (answer != Post::kPosted) return answer;
    ++counters_.reads;
    const size_t place = begin_operation(*connection, Event::kRead, context);
    local_.at(place).status = copy_in(connection, into, from);
    return Post::kPosted;
}

Post ShmEndpoint::write(ConnectionId id, std::span<const std::byte> from, const RemoteSpan& to,
                        uint64_t context) {
    Connection* const connection = find(id);
    const Post answer = may_post(connection, from, to);
    if (answer != Post::kPosted) return answer;
    ++counters_.writes;
    const size_t place = begin_operation(*connection, Event::kWritten, context);
    local_.at(place).status = copy_out(connection, from, to);
    return Post::kPosted;
}

Post ShmEndpoint::write_immediate(ConnectionId id, std::span<const std::byte> from,
                                  const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    Connection* const connection = find(id);
    const Post answer = may_post(connection, from, to);
    if (answer != Post::kPosted) return answer;
    if (!connection->channel.out.has_room()) return no_room(*connection);
    ++counters_.writes;
    const size_t place = begin_operation(*connection, Event::kWritten, context);
    const Errc status = copy_out(connection, from, to);
    local_.at(place).status = status;
    // The record shows the peer that the data is there. There is room for it: it was checked
    // above.
    if (status == Errc::kOk) static_cast<void>(post_immediate(*connection, immediate));
    return Post::kPosted;
}

}  // namespace weir::transport::shm
