// SPDX-License-Identifier: Apache-2.0
/// \file
/// Core: simulated time, loss, partitions and death.

#include <algorithm>

#include "transport/sim/core.h"
#include "transport/sim/device.h"
#include "transport/sim/endpoint.h"

namespace weir::transport::sim {

std::optional<uint64_t> Core::next_event_ns() const {
    if (pending_.empty()) return std::nullopt;
    return std::max(pending_.top().at_ns, now_ns());
}

bool Core::step() {
    if (pending_.empty()) return false;
    const Pending next = pending_.top();
    pending_.pop();
    clock_.set(std::max(next.at_ns, now_ns()));
    happen(next);
    return true;
}

void Core::advance_to(uint64_t until_ns) {
    while (!pending_.empty() && pending_.top().at_ns <= until_ns)
        step();
    clock_.set(std::max(until_ns, now_ns()));
}

void Core::schedule(uint64_t at_ns, const SimConnection& connection, Happening what, uint32_t index,
                    Errc status) {
    pending_.push({at_ns, ++order_, connection.serial, connection.slot, what,
                   static_cast<uint8_t>(index), status});
}

void Core::schedule_lane(SimConnection& connection, uint32_t index) {
    Lane& lane = connection.lanes[index];
    if (lane.scheduled || lane.packets.size() == lane.held) return;
    lane.scheduled = true;
    schedule(std::max(lane.packets.front().ready_ns, now_ns()), connection, Happening::kLane,
             index);
}

void Core::happen(const Pending& pending) {
    SimConnection* const connection =
        pending.slot < connections_.size() ? connections_[pending.slot].get() : nullptr;
    if (connection == nullptr || connection->serial != pending.serial) return;
    ++counters_.events;
    switch (pending.what) {
        case Happening::kLane: run_lane(*connection, pending.index); break;
        case Happening::kBreak: break_end(*connection, pending.index, pending.status); break;
        case Happening::kDeath:
            connection->ends[pending.index].peer_ended = true;
            break_end(*connection, pending.index, pending.status);
            break;
        case Happening::kSilence:
            if (cut_off(*connection)) {
                break_both(*connection, static_cast<uint32_t>(random_.below(2)), Errc::kPeerLost);
            }
            break;
    }
    retire(*connection);
}

void Core::run_lane(SimConnection& connection, uint32_t index) {
    Lane& lane = connection.lanes[index];
    const uint32_t side = index / 2;
    lane.scheduled = false;
    if (lane.cut || lane.packets.size() == lane.held) return;
    Packet packet = std::move(lane.packets.front());
    lane.packets.pop_front();
    const bool lost =
        cut_off(connection, side) || (options_.loss > 0 && random_.uniform() < options_.loss);
    if (lost) {
        ++counters_.tries_lost;
        if (++packet.tries_lost >= options_.tries_max) {
            keep_buffer(std::move(packet.bytes));
            cut(connection, index);
            return break_both(connection, side, Errc::kPeerLost);
        }
        packet.ready_ns = now_ns() + options_.retry_ns + draw_delay_ns(connection);
        lane.packets.push_front(std::move(packet));
        return schedule_lane(connection, index);
    }
    trace_packet(connection, index, packet);
    const Progress progress = deliver(connection, 1 - side, packet);
    if (progress == Progress::kMore && !lane.cut) {
        packet.ready_ns = now_ns() + 1 + random_.below(kMicrosecond);
        packet.tries_lost = 0;  // each step is a packet of its own
        lane.packets.push_front(std::move(packet));
    } else {
        keep_buffer(std::move(packet.bytes));
    }
    schedule_lane(connection, index);
}

/// Whether nothing of that side arrives.
bool Core::cut_off(const SimConnection& connection, uint32_t side) const {
    return !blocked_.empty() &&
           blocked_.contains({connection.ends[side].host, connection.ends[1 - side].host});
}

bool Core::cut_off(const SimConnection& connection) const {
    return cut_off(connection, 0) || cut_off(connection, 1);
}

void Core::cut(SimConnection& connection, uint32_t index) {
    Lane& lane = connection.lanes[index];
    for (Packet& packet : lane.packets)
        keep_buffer(std::move(packet.bytes));
    lane.packets.clear();
    lane.held = 0;
    lane.cut = true;
}

void Core::cut_from_first_write(Lane& lane) {
    const auto first = std::find_if(lane.packets.begin(), lane.packets.end(), [](const Packet& p) {
        return p.kind == PacketKind::kWrite || p.kind == PacketKind::kWriteImmediate;
    });
    const auto dropped = static_cast<size_t>(lane.packets.end() - first);
    lane.held -= std::min(lane.held, dropped);
    lane.packets.erase(first, lane.packets.end());
}

void Core::break_both(SimConnection& connection, uint32_t first, Errc status) {
    ++counters_.connections_broken;
    schedule(now_ns(), connection, Happening::kBreak, first, status);
    schedule(now_ns() + random_.below(options_.silence_ns + 1), connection, Happening::kBreak,
             1 - first, status);
}

void Core::break_end(SimConnection& connection, uint32_t side, Errc status) {
    trace(now_ns() ^ connection.serial);
    end(connection, side, status);
    cut(connection, posted_lane(side));  // answers refer to no memory, and may still arrive
}

void Core::end(SimConnection& connection, uint32_t side, Errc status) {
    End& end = connection.ends[side];
    if (end.state == EndState::kEnded) return;
    end.state = EndState::kEnded;
    if (end.owner == nullptr) return;
    Completion completion;
    completion.connection = make_id(connection, side);
    for (const Operation& operation : end.operations) {
        completion.event = operation.event;
        completion.context = operation.context;
        completion.status = status == Errc::kOk ? Errc::kCancelled : status;
        end.owner->arrive(completion);
    }
    end.operations.clear();
    completion.event = Event::kClosed;
    completion.context = 0;
    completion.status = status;
    completion.peer_ended = end.peer_ended;
    end.owner->arrive(completion);
    end.owner->ended();
    end.owner = nullptr;
}

void Core::partition(HostId a, HostId b) {
    block(a, b);
    block(b, a);
}

void Core::block(HostId from, HostId to) {
    blocked_.insert({from, to});
    for (const auto& connection : connections_) {
        if (connection == nullptr || !cut_off(*connection)) continue;
        schedule(now_ns() + options_.silence_ns, *connection, Happening::kSilence, 0);
    }
}

void Core::heal(HostId a, HostId b) {
    blocked_.erase({a, b});
    blocked_.erase({b, a});
}

void Core::reset(HostId a, HostId b) {
    for (const auto& connection : connections_) {
        if (connection == nullptr) continue;
        const auto hosts = std::minmax({connection->ends[0].host, connection->ends[1].host});
        if (hosts != std::minmax({a, b})) continue;
        for (uint32_t lane = 0; lane < 4; ++lane)
            cut(*connection, lane);
        break_both(*connection, static_cast<uint32_t>(random_.below(2)), Errc::kPeerLost);
    }
}

void Core::kill(HostId host) {
    for (SimDevice* const device : devices_) {
        if (device->host() == host) device->kill();
    }
    for (const auto& [number, endpoint] : endpoints_) {
        if (endpoint->device().killed()) endpoint->kill();
    }
    for (const auto& connection : connections_) {
        for (uint32_t side = 0; connection != nullptr && side < 2; ++side) {
            SimEndpoint* const owner = connection->ends[side].owner;
            if (owner != nullptr && owner->device().killed()) kill_end(*connection, side);
        }
    }
    for (size_t slot = 0; slot < connections_.size(); ++slot) {
        if (connections_[slot] != nullptr) retire(*connections_[slot]);
    }
}

/// Kills one end. Some of the packets that it has sent are on the wire and still arrive.
void Core::kill_end(SimConnection& connection, uint32_t side) {
    End& dead = connection.ends[side];
    dead.owner = nullptr;
    dead.operations.clear();
    dead.state = EndState::kEnded;
    for (const uint32_t index : {posted_lane(side), response_lane(side)}) {
        Lane& lane = connection.lanes[index];
        cut_from_first_write(lane);
        const size_t sent = lane.packets.size() - lane.held;
        const size_t kept = sent == 0 ? 0 : random_.below(sent + 1);
        lane.packets.resize(kept);
        lane.held = 0;
    }
    End& peer = connection.ends[1 - side];
    if (peer.state == EndState::kAbsent) {  // the peer never learns of the connection
        cut(connection, posted_lane(side));
        peer.state = EndState::kEnded;
    }
    schedule(now_ns() + options_.silence_ns + random_.below(options_.silence_ns + 1), connection,
             Happening::kDeath, 1 - side, Errc::kPeerLost);
}

}  // namespace weir::transport::sim
