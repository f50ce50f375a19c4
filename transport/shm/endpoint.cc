// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint, the data path: sending and receiving, sleeping and waking.
#include "transport/shm/endpoint.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include <sys/timerfd.h>

namespace weir::transport::shm {

namespace {

constexpr uint32_t kOperationsMax = 1024;
/// Written bytes, in whole lines, after which the records are shown without waiting for flush():
/// enough to share the cost of showing, few enough that the peer starts early.
constexpr uint64_t kShowBytes = 2048;
/// Polls plus completions between two looks at the sockets. A look costs as much as about ten
/// polls.
constexpr uint32_t kPollsPerLook = 1024;
constexpr uint32_t kPollsPerLookComing = 8;
constexpr uint64_t kRetryNs = kMillisecond;

}  // namespace

Connection* ShmEndpoint::find(ConnectionId id) const noexcept {
    const size_t slot = slot_index(id);
    if (slot >= slots_.size() || slots_[slot] == nullptr || slots_[slot]->id != id) return nullptr;
    return slots_[slot].get();
}

Connection* ShmEndpoint::find_open(ConnectionId id) const noexcept {
    Connection* const connection = find(id);
    return connection != nullptr && connection->state == State::kOpen ? connection : nullptr;
}

Capabilities ShmEndpoint::capabilities() const {
    Capabilities can;
    can.maps_memory = true;
    can.reaches_other_hosts = false;
    can.message_bytes_max = options_.message_bytes_max;
    can.operations_max = kOperationsMax;
    return can;
}

Post ShmEndpoint::send(ConnectionId id, std::span<const std::span<const std::byte>> parts) {
    Connection* const connection = find(id);
    if (connection == nullptr || connection->is_over()) return Post::kClosed;
    uint64_t length_bytes = 0;
    for (const auto part : parts) {
        if (part.size() > options_.message_bytes_max) return Post::kInvalid;
        length_bytes += part.size();
    }
    if (length_bytes > options_.message_bytes_max) return Post::kInvalid;
    if (connection->state != State::kOpen) return Post::kNotNow;
    RingWriter& out = connection->channel.out;
    std::byte* room = out.begin(static_cast<uint32_t>(length_bytes));
    if (room == nullptr) return no_room(*connection);
    for (const auto part : parts) {
        if (part.empty()) continue;
        std::memcpy(room, part.data(), part.size());
        room += part.size();
    }
    out.end(RecordKind::kMessage, static_cast<uint32_t>(length_bytes));
    ++counters_.messages_sent;
    counters_.bytes_sent += length_bytes;
    mark_dirty(*connection);
    if (out.withheld_bytes() >= kShowBytes) out.publish();
    return Post::kPosted;
}

Post ShmEndpoint::signal(ConnectionId id, uint32_t immediate) {
    Connection* const connection = find(id);
    if (connection == nullptr || connection->is_over()) return Post::kClosed;
    if (connection->state != State::kOpen) return Post::kNotNow;
    return post_immediate(*connection, immediate);
}

Post ShmEndpoint::no_room(Connection& connection) {
    turned_away_ = true;
    if (!connection.channel.out.broken()) return Post::kNotNow;
    refuse(connection, Error(Errc::kProtocol, "it claims to have read what was never sent"));
    return Post::kClosed;
}

Post ShmEndpoint::post_immediate(Connection& connection, uint32_t immediate) {
    if (!connection.channel.out.put(RecordKind::kImmediate, immediate)) return no_room(connection);
    mark_dirty(connection);
    return Post::kPosted;
}

void ShmEndpoint::mark_dirty(Connection& connection) {
    if (connection.dirty) return;
    connection.dirty = true;
    dirty_.push_back(&connection);
}

void ShmEndpoint::flush() {
    if (dirty_.empty()) return;
    bool asymmetric = true;
    for (Connection* const connection : dirty_) {
        connection->channel.out.publish();
        asymmetric = asymmetric && connection->asymmetric;
    }
    light_fence(asymmetric);  // one for all connections
    for (Connection* const connection : dirty_) {
        connection->dirty = false;
        if (take_armed(connection->channel.out.control())) wake(*connection);
    }
    dirty_.clear();
}

void ShmEndpoint::wake(const Connection& connection) {
    ++counters_.doorbells;
    if (connection.link != nullptr) {
        const DirectLink& link = *connection.link;
        (connection.side == Side::kConnecting ? link.accepting_bell : link.connecting_bell)->ring();
        return;
    }
    // A packet on our own socket, not a write to an eventfd of the peer: the peer could make such
    // a descriptor block us. If the socket is full or closed, the peer is awake or dead.
    const uint64_t magic = kWakeMagic;
    static_cast<void>(
        send_packet(connection.socket.get(), std::as_bytes(std::span(&magic, 1)), {}));
}

size_t ShmEndpoint::poll(std::span<Completion> completions) {
    ++polls_;
    begin_turn();
    flush();
    if (look_in_ == 0 || watched_.empty()) {
        look_in_ = coming_ > 0 || !closing_.empty() ? kPollsPerLookComing : kPollsPerLook;
        look();
    }
    size_t count = local_.empty() ? 0 : take_local(completions);
    count += take_remote(completions.subspan(count));
    if (!local_.empty()) count += take_local(completions.subspan(count));
    look_in_ -= std::min<uint32_t>(look_in_, static_cast<uint32_t>(count) + 1);
    return count;
}

void ShmEndpoint::begin_turn() {
    for (Connection* const connection : lent_) {
        connection->lent = false;
        connection->channel.in.give_back();
    }
    lent_.clear();
    if (!graveyard_.empty()) graveyard_.clear();
    if (!link_graveyard_.empty()) link_graveyard_.clear();
    if (mapped_) {
        mapped_ = false;
        release_regions();
    }
    if (retired_) {
        retired_ = false;
        for (const Watch& one : watched_)
            one.connection->peer_regions.unmap_retired();
    }
    if (armed_) {
        armed_ = false;
        look_in_ = 0;
        for (const Watch& one : watched_)
            set_armed(one.connection->channel.in.control(), false);
    }
}

size_t ShmEndpoint::take_local(std::span<Completion> completions) {
    size_t count = 0;
    while (count < completions.size() && !local_.empty()) {
        completions[count] = local_.pop();
        const Completion& one = completions[count++];
        if (one.event != Event::kRead && one.event != Event::kWritten) continue;
        if (Connection* const connection = find(one.connection)) --connection->operations_open;
    }
    return count;
}

size_t ShmEndpoint::take_remote(std::span<Completion> completions) {
    size_t count = 0;
    for (size_t left = watched_.size(); left > 0 && count < completions.size(); --left) {
        if (next_watch_ >= watched_.size()) next_watch_ = 0;
        const Watch one = watched_[next_watch_];
        if (!RingReader::ready(one.word) &&
            (draining_ == 0 || one.connection->state != State::kDraining)) {
            ++next_watch_;
            continue;
        }
        count += take_from(*one.connection, completions.subspan(count));
        // If the connection was removed, the last one in the list has taken its place.
        if (next_watch_ < watched_.size() && watched_[next_watch_].connection == one.connection) {
            ++next_watch_;
        }
        if (watched_.empty()) break;
    }
    return count;
}

size_t ShmEndpoint::take_from(Connection& connection, std::span<Completion> completions) {
    RingReader& in = connection.channel.in;
    // A connection that brought records to two polls in a row probably has more behind its batch.
    // For any other connection, nothing is likely to be there yet, and looking would delay the
    // records that were taken.
    const bool streams = connection.taken_at + 1 == polls_;
    connection.taken_at = polls_;
    size_t count = 0;
    while (count < completions.size()) {
        Record record;
        const Take take = in.take(record);
        if (take == Take::kBroken) {
            refuse(connection, Error(Errc::kProtocol, "it wrote garbage into its ring"));
            return count;
        }
        if (take == Take::kNothing) {
            if (connection.state == State::kDraining) {
                finish(connection, Errc::kPeerLost);
                return count;
            }
            break;
        }
        if (!take_record(connection, record, completions[count])) return count;
        ++count;
        if (!in.has_more() && !streams) break;
    }
    watched_[connection.watch_index].word = in.watched();
    if (!connection.lent) {
        connection.lent = true;
        lent_.push_back(&connection);
    }
    return count;
}

/// False: the connection has ended.
bool ShmEndpoint::take_record(Connection& connection, const Record& record,
                              Completion& completion) {
    completion = {};
    completion.connection = connection.id;
    const bool offered = connection.state == State::kOffered;
    if (record.kind == RecordKind::kClose) {
        finish(connection, offered ? Errc::kRefused : Errc::kOk);
        return false;
    }
    if (offered != (record.kind == RecordKind::kAccept)) {
        refuse(connection, Error(Errc::kProtocol, "a record out of turn in its ring"));
        return false;
    }
    switch (record.kind) {
        case RecordKind::kAccept:
            enter(connection, State::kOpen);
            completion.event = Event::kConnected;
            break;
        case RecordKind::kImmediate:
            completion.event = Event::kImmediate;
            completion.immediate = record.value;
            break;
        default:
            completion.event = Event::kReceived;
            completion.message = record.payload;
            ++counters_.messages_received;
            counters_.bytes_received += record.payload.size();
            break;
    }
    return true;
}

int ShmEndpoint::arm() {
    flush();
    for (const Watch& one : watched_)
        set_armed(one.connection->channel.in.control(), true);
    armed_ = true;
    heavy_fence(device_.has_membarrier());
    // A sender that was answered kNotNow may have room by now, and no event would say so: do not
    // sleep this time.
    bool something = !local_.empty() || draining_ > 0 || turned_away_;
    turned_away_ = false;
    for (const Watch& one : watched_)
        something = something || RingReader::ready(one.word);
    // The returned descriptor must be readable then. Our own bell makes it so.
    if (something) descriptors_.bell->ring();
    if (coming_ > 0 || !closing_.empty() || listen_again_ns_ != 0) set_timer();
    return descriptors_.epoll.get();
}

/// Wakes the endpoint for what no peer announces: a deadline of a handshake or of a close, or the
/// next attempt to dial.
void ShmEndpoint::set_timer() {
    uint64_t wake_ns = listen_again_ns_ == 0 ? ~uint64_t{0} : listen_again_ns_;
    const uint64_t now_ns = clock_.now_ns();
    for (const auto& slot : slots_) {
        if (slot == nullptr) continue;
        if (!slot->comes_into_being() && slot->state != State::kClosing) continue;
        wake_ns = std::min(wake_ns, slot->state == State::kDialing
                                        ? std::min(slot->deadline_ns, now_ns + kRetryNs)
                                        : slot->deadline_ns);
    }
    const uint64_t in_ns = wake_ns > now_ns ? wake_ns - now_ns : 1;
    itimerspec when = {};
    when.it_value.tv_sec = static_cast<time_t>(in_ns / kSecond);
    when.it_value.tv_nsec = static_cast<long>(in_ns % kSecond);
    timerfd_settime(descriptors_.timer.get(), 0, &when, nullptr);
}

std::string ShmEndpoint::peer_name(ConnectionId id) const {
    const Connection* const connection = find(id);
    if (connection == nullptr) return "a closed connection";
    if (connection->link != nullptr) return "another endpoint of this process";
    if (connection->peer.pid == 0) return "a process of this host";
    return fmt::format("pid {} on this host", connection->peer.pid);
}

}  // namespace weir::transport::shm
