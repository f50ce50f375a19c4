// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: handles events of sockets, and deadlines. Rarely, and not on the data path.
#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/core.h>

#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

namespace {

constexpr size_t kReadyAtOnce = 32;
/// How many calls of watch() pass between two searches for mapped memory that its owner has
/// deregistered.
constexpr uint64_t kWatchesPerSweep = 64;
/// How many packets of one peer's socket are taken in a row, so that other peers have their turn.
constexpr int kPacketsPerWatch = 64;
/// How long after the listener of a peer had no room it is dialled again.
constexpr uint64_t kRetryNs = kMillisecond;

}  // namespace

void ShmEndpoint::watch() {
    std::array<uint64_t, kReadyAtOnce> ready;
    const size_t count = watcher_.ready(ready);
    for (size_t i = 0; i < count; ++i)
        handle_ready(ready[i]);
    if (connections_.coming() > 0 || setup_->pause_ends_ns() != Listener::kUntilResumedNs) {
        setup_->check_deadlines(clock_.now_ns());
    }
    setup_->refusal_log().look();
    if (connections_.closing() > 0) check_closing();
    if (++watches_ % kWatchesPerSweep != 0) return;
    rings_.for_each([this](ShmConnection& c) {
        c.peer_regions.sweep();
        retired_ = retired_ || c.peer_regions.has_retired();
    });
}

void ShmEndpoint::handle_ready(uint64_t name) {
    switch (name) {
        case kWatchListener: setup_->accept_sockets(); break;
        case kWatchBell:
            bell_->drain();
            setup_->accept_links();
            break;
        case kWatchAlarm: break;
        default:
            if ((name & kWatchProcess) != 0) {
                handle_ended_process(static_cast<int>(name & ~kWatchProcess));
            } else {
                handle_ready_connection(name);
            }
    }
}

void ShmEndpoint::handle_ready_connection(ConnectionId id) {
    ShmConnection* const c = connections_.find(id);
    if (c == nullptr) return;
    if (c->state == State::kClosing) return discard_packets(*c);
    if (c->state == State::kShaking) return setup_->advance(*c);
    if (c->state == State::kOpen) drain_socket(*c);
}

/// What it has sent before is still taken.
void ShmEndpoint::handle_ended_process(int process) {
    connections_.for_each([&](ShmConnection& c) {
        if (c.far_process.descriptor() != process) return;
        if (c.state == State::kClosing) return finish(c, c.end_status);
        if (c.state != State::kOpen) return;
        const ConnectionId id = c.id;
        drain_socket(c);
        if (ShmConnection* const still = connections_.find_open(id)) begin_draining(*still);
    });
}

/// Wakes the endpoint for what no peer announces: a deadline of a handshake or of a close, the
/// end of the listener's pause, or the next attempt to dial.
void ShmEndpoint::set_alarm() {
    uint64_t wake_ns = setup_->pause_ends_ns();
    const bool changes = connections_.coming() > 0 || connections_.closing() > 0;
    if (!changes && wake_ns == Listener::kUntilResumedNs) return;
    const uint64_t now_ns = clock_.now_ns();
    connections_.for_each([&](const ShmConnection& c) {
        if (c.deadline_ns != 0) wake_ns = std::min(wake_ns, c.deadline_ns);
        if (c.state == State::kDialing) wake_ns = std::min(wake_ns, now_ns + kRetryNs);
    });
    watcher_.set_alarm(wake_ns - std::min(wake_ns, now_ns));
}

void ShmEndpoint::drain_socket(ShmConnection& connection) {
    Packet packet;
    for (int i = 0; i < kPacketsPerWatch; ++i) {
        const Receive received = receive_packet(connection.socket.get(), packet);
        if (received == Receive::kNothing) return;
        if (received == Receive::kEnd) return begin_draining(connection);
        if (auto taken = take_packet(connection, packet); !taken) {
            refuse(connection, taken.error());
            return;
        }
    }
}

Status ShmEndpoint::take_packet(ShmConnection& connection, const Packet& packet) {
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
                     fmt::format("it sent {} bytes on its socket that are no note of shm",
                                 packet.length_bytes));
    }
    RegionNote note;
    std::memcpy(&note, packet.buffer.data(), sizeof(note));
    auto added = connection.peer_regions.add(note, packet.fds.empty() ? -1 : packet.fds[0].get());
    retired_ = retired_ || connection.peer_regions.has_retired();
    return added;
}

/// Drops the packets that still come for a connection that is closing. The end of the stream
/// means that the peer does not access our memory any more.
void ShmEndpoint::discard_packets(ShmConnection& connection) {
    Packet packet;
    for (int i = 0; i < kPacketsPerWatch; ++i) {
        const Receive received = receive_packet(connection.socket.get(), packet);
        if (received == Receive::kNothing) return;
        if (received == Receive::kEnd) return finish(connection, connection.end_status);
    }
}

}  // namespace weir::transport::shm
