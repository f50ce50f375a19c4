// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/endpoint.h"

#include <charconv>

namespace weir::transport::sim {

namespace {

uint32_t side_of(ConnectionId id) {
    return static_cast<uint32_t>(id & 1);
}

bool takes_a_message(PacketKind kind) {
    return kind == PacketKind::kMessage || kind == PacketKind::kWriteImmediate;
}

/// The poster's memory as a packet refers to it; a write only reads it.
std::span<std::byte> as_local(std::span<const std::byte> memory) {
    return {const_cast<std::byte*>(memory.data()), memory.size()};
}

}  // namespace

SimEndpoint::SimEndpoint(Core& core, SimDevice& device, const EndpointOptions& options)
    : core_(core), device_(device), options_(options), number_(core.add(*this)) {}

SimEndpoint::~SimEndpoint() {
    core_.remove(*this);
}

std::string SimEndpoint::address() const {
    return core_.options().name + ":" + std::to_string(number_);
}

Capabilities SimEndpoint::capabilities() const {
    return {core_.options().maps_memory, !core_.options().maps_memory, options_.message_bytes_max,
            core_.options().operations_max, core_.options().copied_bytes_max};
}

Result<ConnectionId> SimEndpoint::connect(std::string_view address) {
    if (device_.killed()) return Error(Errc::kUnavailable, "sim: this host was killed");
    const std::string prefix = core_.options().name + ":";
    const std::string shown(address.substr(0, 99));
    if (!address.starts_with(prefix)) {
        return Error(Errc::kUnavailable, prefix + " cannot reach \"" + shown +
                                             "\": addresses of this network begin with its name");
    }
    const std::string_view digits = address.substr(prefix.size());
    uint64_t target = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), target);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) {
        return Error(Errc::kInvalidArgument,
                     prefix + " \"" + shown + "\" does not end with an endpoint's number");
    }
    if (is_full()) {
        return Error(Errc::kBusy, "sim: all " + std::to_string(options_.connections_max) +
                                      " connections of this endpoint are in use");
    }
    return core_.connect(*this, target);
}

void SimEndpoint::close(ConnectionId id) {
    SimConnection* const connection = core_.find(id, *this);
    if (connection == nullptr) return;
    End& end = connection->ends[side_of(id)];
    if (end.state == EndState::kClosing) return;
    flush();
    end.state = EndState::kClosing;
    core_.send_close(*connection, side_of(id), Errc::kOk);
}

Post SimEndpoint::send(ConnectionId id, std::span<const std::span<const std::byte>> parts) {
    SimConnection* const connection = core_.find(id, *this);
    if (connection == nullptr) return Post::kClosed;
    End& end = connection->ends[side_of(id)];
    if (end.state == EndState::kClosing) return Post::kClosed;
    if (end.state == EndState::kConnecting) return Post::kNotNow;
    size_t length_bytes = 0;
    for (const auto& part : parts)
        length_bytes += part.size();
    if (length_bytes > end.message_bytes_max) return Post::kInvalid;
    if (end.room == 0) return Post::kNotNow;
    --end.room;
    Packet packet;
    packet.kind = PacketKind::kMessage;
    packet.bytes = core_.take_buffer();
    packet.bytes.reserve(length_bytes);
    for (const auto& part : parts) {
        packet.bytes.insert(packet.bytes.end(), part.begin(), part.end());
    }
    put(*connection, side_of(id), std::move(packet));
    ++counters_.messages_sent;
    counters_.bytes_sent += length_bytes;
    return Post::kPosted;
}

Result<RemoteSpan> SimEndpoint::expose(ConnectionId id, std::span<const std::byte> memory) {
    if (core_.find(id, *this) == nullptr) {
        return Error(Errc::kPeerLost, "sim: cannot expose memory: the connection is closed");
    }
    return device_.expose(memory);
}

Post SimEndpoint::post(ConnectionId id, const Operation& operation, Packet packet) {
    SimConnection* const connection = core_.find(id, *this);
    if (connection == nullptr) return Post::kClosed;
    End& end = connection->ends[side_of(id)];
    if (end.state == EndState::kClosing) return Post::kClosed;
    if (packet.local.size() != packet.remote.length_bytes || !device_.registered(packet.local)) {
        return Post::kInvalid;
    }
    const bool message = takes_a_message(packet.kind);
    if (end.state == EndState::kConnecting || (message && end.room == 0) ||
        end.operations.size() >= core_.options().operations_max) {
        return Post::kNotNow;
    }
    if (message) --end.room;
    end.operations.push_back(operation);
    put(*connection, side_of(id), std::move(packet));
    return Post::kPosted;
}

Post SimEndpoint::read(ConnectionId id, std::span<std::byte> into, const RemoteSpan& from,
                       uint64_t context) {
    Packet packet;
    packet.kind = PacketKind::kRead;
    packet.local = into;
    packet.remote = from;
    const Post answer = post(id, {Event::kRead, context, into}, std::move(packet));
    if (answer == Post::kPosted) ++counters_.reads;
    return answer;
}

Post SimEndpoint::write(ConnectionId id, std::span<const std::byte> from, const RemoteSpan& to,
                        uint64_t context) {
    Packet packet;
    packet.kind = PacketKind::kWrite;
    packet.local = as_local(from);
    packet.remote = to;
    const Post answer = post(id, {Event::kWritten, context, {}}, std::move(packet));
    if (answer == Post::kPosted) {
        ++counters_.writes;
        counters_.bytes_sent += from.size();
    }
    return answer;
}

Post SimEndpoint::write_immediate(ConnectionId id, std::span<const std::byte> from,
                                  const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    Packet packet;
    packet.kind = PacketKind::kWriteImmediate;
    packet.immediate = immediate;
    packet.local = as_local(from);
    packet.remote = to;
    const Post answer = post(id, {Event::kWritten, context, {}}, std::move(packet));
    if (answer == Post::kPosted) {
        ++counters_.writes;
        counters_.bytes_sent += from.size();
    }
    return answer;
}

std::byte* SimEndpoint::map(ConnectionId id, const RemoteSpan& span, Access wanted) {
    if (!core_.options().maps_memory) return nullptr;
    SimConnection* const connection = core_.find(id, *this);
    if (connection == nullptr) return nullptr;
    const End& peer = connection->ends[1 - side_of(id)];
    return peer.owner == nullptr ? nullptr : peer.owner->device().resolve(span, wanted);
}

void SimEndpoint::put(SimConnection& connection, uint32_t side, Packet packet) {
    End& end = connection.ends[side];
    if (!end.has_held) held_.push_back(make_id(connection, side));
    end.has_held = true;
    core_.put(connection, posted_lane(side), std::move(packet), true);
}

void SimEndpoint::flush() {
    for (const ConnectionId id : held_) {
        SimConnection* const connection = core_.find(id, *this);
        if (connection == nullptr) continue;
        connection->ends[side_of(id)].has_held = false;
        core_.release(*connection, posted_lane(side_of(id)));
        ++counters_.doorbells;
    }
    held_.clear();
}

size_t SimEndpoint::poll(std::span<Completion> completions) {
    flush();
    for (Buffer& buffer : lent_)
        core_.keep_buffer(std::move(buffer));
    lent_.clear();
    size_t count = 0;
    for (; count < completions.size() && !arrived_.empty(); ++count) {
        Arrived& arrived = arrived_.front();
        Completion& completion = completions[count];
        completion = arrived.completion;
        if (completion.event == Event::kReceived) {
            lent_.push_back(std::move(arrived.message));
            completion.message = lent_.back();
            ++counters_.messages_received;
            counters_.bytes_received += completion.message.size();
        }
        if (completion.event == Event::kReceived || completion.event == Event::kImmediate) {
            SimConnection* const connection = core_.find(completion.connection, *this);
            if (connection != nullptr) core_.give_back(*connection, side_of(completion.connection));
        }
        arrived_.pop_front();
    }
    return count;
}

void SimEndpoint::arrive(const Completion& completion, Buffer message) {
    if (!device_.killed()) arrived_.push_back({completion, std::move(message)});
}

void SimEndpoint::kill() {
    arrived_.clear();
    held_.clear();
}

std::string SimEndpoint::peer_name(ConnectionId id) const {
    const SimConnection* const connection = core_.find(id, *this);
    if (connection == nullptr) return "a peer that is gone";
    const End& peer = connection->ends[1 - side_of(id)];
    if (peer.owner == nullptr)
        return core_.options().name + ":" + std::to_string(connection->target);
    return peer.owner->address() + " on host " + std::to_string(peer.host);
}

}  // namespace weir::transport::sim
