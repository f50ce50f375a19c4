// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/core.h"

#include <algorithm>
#include <cstring>

#include "lib/base/check.h"
#include "transport/sim/endpoint.h"

namespace weir::transport::sim {

namespace {

constexpr size_t kHeaderBytes = 64;
constexpr size_t kBuffersKept = 4096;
constexpr size_t kBufferBytesKept = size_t{64} * 1024;

size_t size_on_wire(const Packet& packet) {
    const bool writes =
        packet.kind == PacketKind::kWrite || packet.kind == PacketKind::kWriteImmediate;
    return kHeaderBytes + packet.bytes.size() + (writes ? packet.local.size() : 0);
}

}  // namespace

Core::Core(uint64_t seed, ManualClock& clock, const Options& options)
    : clock_(clock), options_(options), random_(seed) {
    WEIR_CHECK(options.delay_ns_min <= options.delay_ns_max);
    WEIR_CHECK(options.tries_max > 0 && options.step_bytes > 0 && options.operations_max > 0);
}

uint64_t Core::make_address(size_t length_bytes) {
    const uint64_t address = address_;
    address_ += (length_bytes + 0xffff) / 0x10000 * 0x10000 + 0x10000;
    return address;
}

uint64_t Core::add(SimEndpoint& endpoint) {
    endpoints_[++endpoint_number_] = &endpoint;
    return endpoint_number_;
}

void Core::remove(SimEndpoint& endpoint) {
    for (const auto& connection : connections_) {
        if (connection == nullptr) continue;
        for (uint32_t side = 0; side < 2; ++side) {
            End& end = connection->ends[side];
            if (end.owner != &endpoint) continue;
            release(*connection, posted_lane(side));
            cut_from_first_write(connection->lanes[posted_lane(side)]);
            send_close(*connection, side, Errc::kPeerLost);
            end.owner = nullptr;
            end.operations.clear();
            end.state = EndState::kEnded;
        }
    }
    for (size_t slot = 0; slot < connections_.size(); ++slot) {
        if (connections_[slot] != nullptr) retire(*connections_[slot]);
    }
    endpoints_.erase(endpoint.number());
}

SimConnection* Core::find(ConnectionId id, const SimEndpoint& owner) {
    const uint64_t slot = (id >> 1) & ((uint64_t{1} << kSlotBits) - 1);
    if (slot >= connections_.size() || connections_[slot] == nullptr) return nullptr;
    SimConnection& connection = *connections_[slot];
    const End& end = connection.ends[id & 1];
    return connection.serial == id >> (kSlotBits + 1) && end.owner == &owner ? &connection
                                                                             : nullptr;
}

SimConnection& Core::make_connection() {
    if (free_slots_.empty()) {
        WEIR_CHECK(connections_.size() < (size_t{1} << kSlotBits));
        free_slots_.push_back(static_cast<uint32_t>(connections_.size()));
        connections_.emplace_back();
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    connections_[slot] = std::make_unique<SimConnection>();
    connections_[slot]->slot = slot;
    connections_[slot]->serial = ++serial_;
    return *connections_[slot];
}

Result<ConnectionId> Core::connect(SimEndpoint& from, uint64_t target) {
    SimConnection& connection = make_connection();
    connection.target = target;
    const auto there = endpoints_.find(target);
    connection.ends[1].host = there == endpoints_.end() ? from.host() : there->second->host();
    End& end = connection.ends[0];
    end.owner = &from;
    end.host = from.host();
    end.state = EndState::kConnecting;
    from.began();
    Packet hello;
    hello.kind = PacketKind::kHello;
    hello.immediate = from.options().messages_in_flight;
    hello.remote.length_bytes = from.options().message_bytes_max;
    put(connection, 0, std::move(hello), false);
    return make_id(connection, 0);
}

void Core::put(SimConnection& connection, uint32_t index, Packet packet, bool held) {
    Lane& lane = connection.lanes[index];
    if (lane.cut) return keep_buffer(std::move(packet.bytes));
    if (!held) release(connection, index);
    lane.packets.push_back(std::move(packet));
    ++lane.held;
    if (!held) release(connection, index);
}

void Core::release(SimConnection& connection, uint32_t index) {
    Lane& lane = connection.lanes[index];
    for (; lane.held > 0; --lane.held) {
        depart(connection, index, lane.packets[lane.packets.size() - lane.held]);
    }
    schedule_lane(connection, index);
}

uint64_t Core::draw_delay_ns(const SimConnection& connection) {
    const uint64_t spread = options_.delay_ns_max - options_.delay_ns_min;
    const uint64_t delay_ns = options_.delay_ns_min + (spread == 0 ? 0 : random_.below(spread + 1));
    const double slowness = std::max(hosts_[connection.ends[0].host].slowness,
                                     hosts_[connection.ends[1].host].slowness);
    return slowness == 1 ? delay_ns
                         : static_cast<uint64_t>(static_cast<double>(delay_ns) * slowness);
}

void Core::depart(SimConnection& connection, uint32_t lane, Packet& packet) {
    ++counters_.packets;
    uint64_t sent_ns = now_ns();
    if (options_.bytes_per_s != 0) {
        Host& host = hosts_[connection.ends[lane / 2].host];
        const double wire_ns = static_cast<double>(size_on_wire(packet)) * 1e9 /
                               static_cast<double>(options_.bytes_per_s) * host.slowness;
        host.wire_free_ns = std::max(host.wire_free_ns, sent_ns) + static_cast<uint64_t>(wire_ns);
        sent_ns = host.wire_free_ns;
    }
    packet.ready_ns = sent_ns + draw_delay_ns(connection);
}

void Core::send_close(SimConnection& connection, uint32_t side, Errc status) {
    Packet close;
    close.kind = PacketKind::kClose;
    close.status = status;
    put(connection, posted_lane(side), std::move(close), false);
}

void Core::give_back(SimConnection& connection, uint32_t side) {
    End& end = connection.ends[side];
    // A quarter of the window at a time: if all messages are polled, the sender does not run out.
    if (++end.polled < std::max(end.owner->options().messages_in_flight / 4, 1U)) return;
    Packet credit;
    credit.kind = PacketKind::kCredit;
    credit.immediate = end.polled;
    end.polled = 0;
    put(connection, response_lane(side), std::move(credit), false);
}

void Core::retire(SimConnection& connection) {
    if (connection.ends[0].state != EndState::kEnded ||
        connection.ends[1].state != EndState::kEnded) {
        return;
    }
    for (Lane& lane : connection.lanes) {
        for (Packet& packet : lane.packets)
            keep_buffer(std::move(packet.bytes));
    }
    const uint32_t slot = connection.slot;
    connections_[slot] = nullptr;
    free_slots_.push_back(slot);
}

Buffer Core::take_buffer() {
    if (buffers_.empty()) return {};
    Buffer buffer = std::move(buffers_.back());
    buffers_.pop_back();
    buffer.clear();
    return buffer;
}

void Core::keep_buffer(Buffer buffer) {
    if (buffer.capacity() == 0 || buffer.capacity() > kBufferBytesKept) return;
    if (buffers_.size() < kBuffersKept) buffers_.push_back(std::move(buffer));
}

void Core::trace_packet(const SimConnection& connection, uint32_t lane, const Packet& packet) {
    trace(now_ns());
    trace(connection.serial * 4 + lane);
    trace(static_cast<uint64_t>(packet.kind) << 32 | packet.immediate);
    trace(packet.local.size() + packet.moved_bytes);
    trace(packet.bytes.size());
    if (packet.kind != PacketKind::kMessage) return;
    for (size_t offset = 0; offset < packet.bytes.size(); offset += 8) {
        uint64_t word = 0;
        std::memcpy(&word, packet.bytes.data() + offset,
                    std::min<size_t>(8, packet.bytes.size() - offset));
        trace(word);
    }
}

}  // namespace weir::transport::sim
