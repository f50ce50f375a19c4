// SPDX-License-Identifier: Apache-2.0
/// \file
/// Core: handles arriving packets.

#include <algorithm>
#include <cstring>

#include "transport/sim/core.h"
#include "transport/sim/device.h"
#include "transport/sim/endpoint.h"

namespace weir::transport::sim {

Core::Progress Core::deliver(SimConnection& connection, uint32_t to, Packet& packet) {
    if (packet.kind == PacketKind::kHello) {
        deliver_hello(connection, packet);
        return Progress::kDelivered;
    }
    End& end = connection.ends[to];
    if (end.owner == nullptr) return Progress::kDelivered;  // the endpoint is gone
    switch (packet.kind) {
        case PacketKind::kWelcome: deliver_welcome(connection, packet); break;
        case PacketKind::kRefusal: break_end(connection, to, packet.status); break;
        case PacketKind::kMessage: deliver_message(connection, to, packet); break;
        case PacketKind::kWrite:
        case PacketKind::kWriteImmediate: return deliver_write(connection, to, packet);
        case PacketKind::kRead: return deliver_read(connection, to, packet);
        case PacketKind::kClose: deliver_close(connection, to, packet); break;
        case PacketKind::kCloseAck:
            end.close_acknowledged = true;
            end_if_done(connection, to);
            break;
        case PacketKind::kCredit: end.room += packet.immediate; break;
        default: deliver_response(connection, to, packet); break;
    }
    return Progress::kDelivered;
}

void Core::deliver_hello(SimConnection& connection, const Packet& packet) {
    End& end = connection.ends[1];
    const auto there = endpoints_.find(connection.target);
    Packet answer;
    answer.kind = PacketKind::kRefusal;
    answer.status = Errc::kPeerLost;
    if (there != endpoints_.end() && there->second->device().killed()) {
        end.state = EndState::kEnded;
        schedule(now_ns() + options_.silence_ns, connection, Happening::kBreak, 0, Errc::kPeerLost);
        return;
    }
    if (there == endpoints_.end() || there->second->is_full()) {
        if (there != endpoints_.end()) answer.status = Errc::kBusy;
        end.state = EndState::kEnded;
        return put(connection, 2, std::move(answer), false);
    }
    SimEndpoint& owner = *there->second;
    end.owner = &owner;
    end.state = EndState::kOpen;
    end.room = packet.immediate;
    end.message_bytes_max = static_cast<uint32_t>(
        std::min<uint64_t>(owner.options().message_bytes_max, packet.remote.length_bytes));
    owner.began();
    Completion completion;
    completion.event = Event::kAccepted;
    completion.connection = make_id(connection, 1);
    owner.arrive(completion);
    answer.kind = PacketKind::kWelcome;
    answer.status = Errc::kOk;
    answer.immediate = owner.options().messages_in_flight;
    answer.remote.length_bytes = end.message_bytes_max;
    put(connection, 2, std::move(answer), false);
}

void Core::deliver_welcome(SimConnection& connection, const Packet& packet) {
    End& end = connection.ends[0];
    if (end.state != EndState::kConnecting) return;  // closed meanwhile
    end.state = EndState::kOpen;
    end.room = packet.immediate;
    end.message_bytes_max = static_cast<uint32_t>(packet.remote.length_bytes);
    Completion completion;
    completion.event = Event::kConnected;
    completion.connection = make_id(connection, 0);
    end.owner->arrive(completion);
}

void Core::deliver_message(SimConnection& connection, uint32_t to, Packet& packet) {
    Completion completion;
    completion.event = packet.kind == PacketKind::kMessage ? Event::kReceived : Event::kImmediate;
    completion.immediate = packet.immediate;
    completion.connection = make_id(connection, to);
    connection.ends[to].owner->arrive(completion, std::move(packet.bytes));
}

Core::Progress Core::deliver_write(SimConnection& connection, uint32_t to, Packet& packet) {
    const SimEndpoint* const poster = connection.ends[1 - to].owner;
    if (poster == nullptr) return Progress::kDelivered;
    SimEndpoint& target = *connection.ends[to].owner;
    // Looked up anew for every step: either side may deregister in between.
    std::byte* const there = target.device().resolve(packet.remote, Access::kRemoteWrite);
    if (there == nullptr || !connection.ends[1 - to].owner->device().registered(packet.local)) {
        refuse(connection, to);
        return Progress::kDelivered;
    }
    const size_t step = std::min(options_.step_bytes, packet.local.size() - packet.moved_bytes);
    if (step > 0) {
        std::memcpy(there + packet.moved_bytes, packet.local.data() + packet.moved_bytes, step);
    }
    packet.moved_bytes += step;
    if (packet.moved_bytes < packet.local.size()) return Progress::kMore;
    if (packet.kind == PacketKind::kWriteImmediate) deliver_message(connection, to, packet);
    Packet done;
    done.kind = PacketKind::kDone;
    put(connection, response_lane(to), std::move(done), false);
    return Progress::kDelivered;
}

Core::Progress Core::deliver_read(SimConnection& connection, uint32_t to, Packet& packet) {
    const std::byte* const there =
        connection.ends[to].owner->device().resolve(packet.remote, Access::kRemoteRead);
    if (there == nullptr) {
        refuse(connection, to);
        return Progress::kDelivered;
    }
    const size_t length = packet.remote.length_bytes;
    const size_t step = std::min(options_.step_bytes, length - packet.moved_bytes);
    if (packet.moved_bytes == 0) packet.bytes = take_buffer();
    packet.bytes.insert(packet.bytes.end(), there + packet.moved_bytes,
                        there + packet.moved_bytes + step);
    packet.moved_bytes += step;
    if (packet.moved_bytes < length) return Progress::kMore;
    Packet answer;
    answer.kind = PacketKind::kBytes;
    answer.bytes = std::move(packet.bytes);
    put(connection, response_lane(to), std::move(answer), false);
    return Progress::kDelivered;
}

/// The peer asked for memory that it may not reach. Its operation ends with an error, and then
/// the connection: at the peer first, at this side a little later.
void Core::refuse(SimConnection& connection, uint32_t to) {
    ++connection.ends[to].owner->count().refused;
    ++counters_.connections_broken;
    cut(connection, posted_lane(1 - to));
    Packet answer;
    answer.kind = PacketKind::kDone;
    answer.status = Errc::kRefused;
    put(connection, response_lane(to), std::move(answer), false);
    schedule(now_ns() + draw_delay_ns(connection), connection, Happening::kBreak, to,
             Errc::kRefused);
}

void Core::deliver_close(SimConnection& connection, uint32_t to, const Packet& packet) {
    connection.ends[to].peer_ended = true;
    if (packet.status != Errc::kOk) return break_end(connection, to, packet.status);
    // What this side has sent still goes out, up to the first packet that needs memory the owner
    // may reuse now.
    release(connection, posted_lane(to));
    cut_from_first_write(connection.lanes[posted_lane(to)]);
    Packet answer;
    answer.kind = PacketKind::kCloseAck;
    put(connection, posted_lane(to), std::move(answer), false);
    end(connection, to, Errc::kOk);
}

void Core::deliver_response(SimConnection& connection, uint32_t to, Packet& packet) {
    End& end = connection.ends[to];
    if (end.operations.empty()) return;
    const Operation operation = end.operations.front();
    end.operations.pop_front();
    Completion completion;
    completion.event = operation.event;
    completion.status = packet.status;
    completion.connection = make_id(connection, to);
    completion.context = operation.context;
    if (packet.kind == PacketKind::kBytes) {
        if (!end.owner->device().registered(operation.into)) {
            completion.status = Errc::kInvalidArgument;
        } else if (!packet.bytes.empty()) {
            std::memcpy(operation.into.data(), packet.bytes.data(), packet.bytes.size());
            end.owner->count().bytes_received += packet.bytes.size();
        }
    }
    end.owner->arrive(completion);
    if (completion.status != Errc::kOk) {
        break_end(connection, to, completion.status);
        break_both(connection, to, Errc::kPeerLost);
    } else {
        end_if_done(connection, to);
    }
}

void Core::end_if_done(SimConnection& connection, uint32_t side) {
    End& one = connection.ends[side];
    if (one.state == EndState::kClosing && one.close_acknowledged && one.operations.empty()) {
        end(connection, side, Errc::kOk);
    }
}

}  // namespace weir::transport::sim
