// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint, the data path: sending and receiving, sleeping and waking.
#include "transport/shm/endpoint.h"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "transport/shm/address.h"

namespace weir::transport::shm {

namespace {

constexpr uint32_t kOperationsMax = 1024;
/// Written bytes, in whole lines, after which the records are shown without waiting for flush():
/// enough to share the cost of showing, few enough that the peer starts early.
constexpr uint64_t kShowBytes = 2048;
/// Polls plus completions between two calls of watch(), which costs as much as about ten polls.
constexpr uint32_t kPollsPerWatch = 1024;
constexpr uint32_t kPollsPerWatchComing = 8;

}  // namespace

Result<std::unique_ptr<Endpoint>> ShmEndpoint::make(ShmDevice& device,
                                                    const EndpointOptions& options) {
    const std::string name = random_name();
    WEIR_ASSIGN(Descriptor socket, listen_abstract(name));
    WEIR_ASSIGN(Doorbell bell, Doorbell::make());
    WEIR_ASSIGN(Watcher watcher, Watcher::make(kWatchAlarm));
    WEIR_TRY(watcher.watch(bell.fd(), kWatchBell, Watcher::For::kInput));
    std::unique_ptr<ShmEndpoint> endpoint(
        new ShmEndpoint(device, clamp(options), std::move(bell), std::move(watcher)));
    ShmEndpoint& e = *endpoint;
    WEIR_ASSIGN(Listener listener, Listener::make(std::move(socket), e.watcher_, kWatchListener));
    const ConnectionSetup::Surroundings around{device,   e.watcher_, e.connections_,
                                               e.rings_, e.clock_,   e};
    e.setup_.emplace(around, e.options_, name, std::move(listener), e.bell_);
    return std::unique_ptr<Endpoint>(std::move(endpoint));
}

ShmEndpoint::ShmEndpoint(ShmDevice& device, const EndpointOptions& options, Doorbell bell,
                         Watcher watcher)
    : device_(device),
      options_(options),
      bell_(std::make_shared<const Doorbell>(std::move(bell))),
      watcher_(std::move(watcher)),
      regions_(device.regions(), device.quiescence()) {}

ShmEndpoint::~ShmEndpoint() {
    setup_.reset();
    connections_.for_each([this](ShmConnection& c) {
        if (!c.has_channel()) return;
        send_close(c, Errc::kOk);
        release_peer_memory(c);
    });
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
    ShmConnection* const connection = connections_.find(id);
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
    rings_.mark_dirty(*connection);
    if (out.withheld_bytes() >= kShowBytes) out.publish();
    return Post::kPosted;
}

Post ShmEndpoint::no_room(ShmConnection& connection) {
    post_refused_ = true;
    if (!connection.channel.out.broken()) return Post::kNotNow;
    refuse(connection,
           Error(Errc::kProtocol, "it says that it has read records that were never sent"));
    return Post::kClosed;
}

Post ShmEndpoint::post_immediate(ShmConnection& connection, uint32_t immediate) {
    if (!connection.channel.out.put(RecordKind::kImmediate, immediate)) return no_room(connection);
    rings_.mark_dirty(connection);
    return Post::kPosted;
}

void ShmEndpoint::flush() {
    rings_.flush([this](const ShmConnection& c) { wake(c); });
}

void ShmEndpoint::wake(const ShmConnection& connection) {
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
    if (polls_until_watch_ == 0 || rings_.empty()) {
        const bool changes = connections_.coming() > 0 || connections_.closing() > 0;
        polls_until_watch_ = changes ? kPollsPerWatchComing : kPollsPerWatch;
        watch();
    }
    size_t count = own_.empty() ? 0 : take_own(completions);
    count += rings_.poll(completions.size() - count, connections_.draining() > 0,
                         [&, room = completions.subspan(count)](ShmConnection& c, size_t taken) {
                             return take_from(c, room.subspan(taken));
                         });
    if (!own_.empty()) count += take_own(completions.subspan(count));
    polls_until_watch_ -= std::min<uint32_t>(polls_until_watch_, static_cast<uint32_t>(count) + 1);
    return count;
}

void ShmEndpoint::begin_turn() {
    rings_.give_back();
    if (!released_memory_.empty()) released_memory_.clear();
    if (!released_links_.empty()) released_links_.clear();
    regions_.end_turn();
    if (retired_) {
        retired_ = false;
        rings_.for_each([](ShmConnection& c) { c.peer_regions.unmap_retired(); });
    }
    if (armed_) {
        armed_ = false;
        polls_until_watch_ = 0;
        rings_.set_all_armed(false);
    }
}

size_t ShmEndpoint::take_own(std::span<Completion> completions) {
    size_t count = 0;
    while (count < completions.size() && !own_.empty()) {
        completions[count] = own_.pop();
        const Completion& one = completions[count++];
        if (one.event != Event::kRead && one.event != Event::kWritten) continue;
        if (ShmConnection* const connection = connections_.find(one.connection))
            --connection->operations_open;
    }
    return count;
}

size_t ShmEndpoint::take_from(ShmConnection& connection, std::span<Completion> completions) {
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
            refuse(connection,
                   Error(Errc::kProtocol, "it wrote something that is no record into its ring"));
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
    rings_.lend(connection);
    return count;
}

/// False: the connection has ended.
bool ShmEndpoint::take_record(ShmConnection& connection, const Record& record,
                              Completion& completion) {
    completion = {};
    completion.connection = connection.id;
    const bool offered = connection.state == State::kOffered;
    if (record.kind == RecordKind::kClose) {
        const bool is_orderly = record.value == static_cast<uint32_t>(Errc::kOk);
        connection.peer_ended = !offered && is_orderly;
        finish(connection, offered ? Errc::kRefused : is_orderly ? Errc::kOk : Errc::kPeerLost);
        return false;
    }
    if (offered != (record.kind == RecordKind::kAccept)) {
        refuse(connection,
               Error(Errc::kProtocol,
                     fmt::format("it wrote a record of kind {} that does not belong in this state",
                                 static_cast<uint32_t>(record.kind))));
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
    rings_.set_all_armed(true);
    armed_ = true;
    heavy_fence(device_.has_membarrier());
    // A sender that was answered kNotNow may have room by now, and no event would say so: do not
    // sleep this time.
    const bool something =
        !own_.empty() || connections_.draining() > 0 || post_refused_ || rings_.any_ready();
    post_refused_ = false;
    // The returned descriptor must be readable then. Our own bell makes it so.
    if (something) bell_->ring();
    set_alarm();
    return watcher_.fd();
}

std::string ShmEndpoint::peer_name(ConnectionId id) const {
    const ShmConnection* const connection = connections_.find(id);
    if (connection == nullptr) return "a closed connection";
    return connection->peer_name();
}

}  // namespace weir::transport::shm
