// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/endpoint.h"

#include <algorithm>
#include <array>

#include "transport/tcp/limits.h"

namespace weir::transport::tcp {

namespace {

EndpointOptions clamped(EndpointOptions options) {
    options.message_bytes_max =
        std::clamp(options.message_bytes_max, kMessageBytesMin, kMessageBytesMost);
    options.messages_in_flight = std::max(options.messages_in_flight, 1U);
    options.connections_max = std::clamp(options.connections_max, 1U, kConnectionsMost);
    return options;
}

}  // namespace

TcpEndpoint::TcpEndpoint(TcpDevice& device, const EndpointOptions& options, Watcher watcher)
    : device_(device),
      options_(clamped(options)),
      regions_(device.regions()),
      watcher_(std::move(watcher)),
      acceptor_(kScheme, device.clock(), device.options().handshake_ms_max * kMillisecond, watcher_,
                kWatchListener, *this),
      last_id_(kFirstConnection) {}

Result<std::unique_ptr<TcpEndpoint>> TcpEndpoint::make(TcpDevice& device,
                                                       const EndpointOptions& options,
                                                       const SocketAddress& address) {
    WEIR_ASSIGN(Watcher watcher, Watcher::make(kWatchAlarm));
    std::unique_ptr<TcpEndpoint> endpoint(new TcpEndpoint(device, options, std::move(watcher)));
    WEIR_TRY(endpoint->acceptor_.listen(address, device.reached_at()));
    return endpoint;
}

TcpEndpoint::~TcpEndpoint() {
    close_everything();
}

Capabilities TcpEndpoint::capabilities() const {
    Capabilities can;
    can.maps_memory = false;
    can.reaches_other_hosts = true;
    can.message_bytes_max = options_.message_bytes_max;
    can.operations_max = kOperationsMost;
    can.copied_bytes_max = options_.message_bytes_max;
    can.flush_is_a_call = true;
    return can;
}

TcpConnection* TcpEndpoint::find(ConnectionId id) const noexcept {
    const auto found = connections_.find(id);
    return found == connections_.end() ? nullptr : found->second.get();
}

TcpConnection* TcpEndpoint::find_open(ConnectionId id) const noexcept {
    TcpConnection* const c = find(id);
    return c != nullptr && c->state == State::kOpen ? c : nullptr;
}

std::string TcpEndpoint::peer_name(ConnectionId connection) const {
    const TcpConnection* const c = find(connection);
    return c != nullptr ? c->peer_name : "closed connection";
}

size_t TcpEndpoint::output_bytes_max() const noexcept {
    return std::max<size_t>(options_.message_bytes_max + kHeadBytesMax,
                            options_.messages_in_flight * kOutputBytesPerMessage);
}

void TcpEndpoint::flush_later(TcpConnection& c) {
    if (c.is_in_flush_list) return;
    c.is_in_flush_list = true;
    flush_list_.push_back(&c);
}

Post TcpEndpoint::send(ConnectionId connection, std::span<const std::span<const std::byte>> parts) {
    TcpConnection* const c = find_open(connection);
    if (c == nullptr) return Post::kClosed;
    size_t bytes = 0;
    for (const std::span<const std::byte> part : parts)
        bytes += part.size();
    if (bytes > options_.message_bytes_max) return Post::kInvalid;
    if (c->output.copied_bytes() + kHeadBytes + bytes > output_bytes_max()) return Post::kNotNow;
    c->output.add({FrameType::kMessage, static_cast<uint32_t>(bytes), {}});
    for (const std::span<const std::byte> part : parts)
        c->output.add(part);
    c->output.add_padding(bytes);
    ++counters_.messages_sent;
    counters_.bytes_sent += bytes;
    if (c->output.copied_bytes() >= kOutputBytesPerSend) {
        send_output(*c);
    } else {
        flush_later(*c);
    }
    return Post::kPosted;
}

Result<RemoteSpan> TcpEndpoint::expose(ConnectionId connection, std::span<const std::byte> memory) {
    if (find_open(connection) == nullptr) {
        return Error(Errc::kPeerLost, "tcp: cannot expose memory: the connection is closed");
    }
    return regions_.expose(memory, "tcp");
}

Post TcpEndpoint::read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
                       uint64_t context) {
    TcpConnection* const c = find_open(connection);
    if (c == nullptr) return Post::kClosed;
    if (into.size() != from.length_bytes) return Post::kInvalid;
    if (!into.empty() && regions_.find(into, Access::kLocal) == nullptr) return Post::kInvalid;
    if (c->operations.is_full() || c->output.copied_bytes() > output_bytes_max()) {
        return Post::kNotNow;
    }
    c->output.add({FrameType::kRead, 0, from});
    c->operations.push({Event::kRead, context, into});
    ++counters_.reads;
    counters_.bytes_received += into.size();
    flush_later(*c);
    return Post::kPosted;
}

Post TcpEndpoint::write(ConnectionId connection, std::span<const std::byte> from,
                        const RemoteSpan& to, uint64_t context) {
    return post_write(connection, from, {FrameType::kWrite, 0, to}, context);
}

Post TcpEndpoint::write_immediate(ConnectionId connection, std::span<const std::byte> from,
                                  const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    return post_write(connection, from, {FrameType::kWriteImmediate, immediate, to}, context);
}

Post TcpEndpoint::post_write(ConnectionId id, std::span<const std::byte> from, Frame frame,
                             uint64_t context) {
    TcpConnection* const c = find_open(id);
    if (c == nullptr) return Post::kClosed;
    if (from.size() != frame.span.length_bytes) return Post::kInvalid;
    if (!from.empty() && regions_.find(from, Access::kLocal) == nullptr) return Post::kInvalid;
    if (c->operations.is_full() || c->output.copied_bytes() > output_bytes_max()) {
        return Post::kNotNow;
    }
    c->output.add(frame);
    c->output.add_own(from);
    c->operations.push({Event::kWritten, context, {}});
    ++counters_.writes;
    counters_.bytes_sent += from.size();
    flush_later(*c);
    return Post::kPosted;
}

void TcpEndpoint::flush() {
    // send_output() may end a connection, which stays in the table until the end of a poll.
    for (size_t i = 0; i < flush_list_.size(); ++i) {
        flush_list_[i]->is_in_flush_list = false;
        send_output(*flush_list_[i]);
    }
    flush_list_.clear();
}

size_t TcpEndpoint::poll(std::span<Completion> completions) {
    if (connections_.empty() && delivery_.empty()) {
        if (polls_until_watch_ > 0) {
            --polls_until_watch_;
            return 0;
        }
        polls_until_watch_ = kIdlePollsPerWatch;
    }
    for (const ConnectionId id : lending_) {
        find(id)->is_lent = false;  // it is not released while it is lent
    }
    lending_.clear();
    room_ = completions.size();
    flush();
    for (const ConnectionId id : std::exchange(unused_, {})) {
        TcpConnection* const c = find(id);
        if (c == nullptr) continue;
        c->has_unused_input = false;
        use_input(*c);
    }
    watch_sockets();
    check_deadlines();
    flush();
    release_ended();
    const size_t count = std::min(completions.size(), delivery_.size());
    for (size_t i = 0; i < count; ++i) {
        completions[i] = delivery_.front();
        delivery_.pop_front();
    }
    return count;
}

void TcpEndpoint::watch_sockets() {
    const bool is_few = !busy_.empty() && busy_.size() <= kBusyConnectionsMost;
    if (is_few && ++busy_polls_ < kBusyPollsPerWatch) {
        for (const ConnectionId id : busy_) {  // serve() adds none that is busy
            if (TcpConnection* const c = find(id)) serve(*c);
        }
        return;
    }
    busy_polls_ = 0;
    for (const ConnectionId id : std::exchange(busy_, {})) {
        if (TcpConnection* const c = find(id)) c->is_busy = false;
    }
    std::array<uint64_t, 32> ready;
    const size_t count = watcher_.ready(ready);
    for (size_t i = 0; i < count; ++i) {
        if (ready[i] == kWatchListener) {
            acceptor_.accept_all();
        } else if (TcpConnection* const c = find(ready[i])) {
            serve(*c);
        }
    }
    acceptor_.sum_up_log();
}

void TcpEndpoint::serve(TcpConnection& c) {
    if (c.state == State::kEnded) return;
    if (c.is_coming()) meet(c);
    if (c.is_coming() || c.state == State::kEnded) return;
    if (c.is_blocked) {
        c.is_blocked = false;
        send_output(c);
    }
    if (c.state != State::kEnded) receive(c);
}

int TcpEndpoint::arm() {
    flush();
    polls_until_watch_ = 0;
    uint64_t wake_ns = acceptor_.pause_ends_ns();
    const bool now = !unused_.empty() || !delivery_.empty() || !ended_.empty();
    if (deadlines_ > 0) {
        for (const auto& [id, c] : connections_) {
            if (c->deadline_ns != 0) wake_ns = std::min(wake_ns, c->deadline_ns);
        }
    }
    if (now) {
        watcher_.set_alarm(0);
    } else if (wake_ns != Listener::kUntilResumedNs) {
        const uint64_t now_ns = device_.clock().now_ns();
        watcher_.set_alarm(wake_ns > now_ns ? wake_ns - now_ns : 0);
    }
    return watcher_.fd();
}

void TcpEndpoint::add_completion(const TcpConnection& c, Event event, Errc status,
                                 uint64_t context) {
    Completion completion;
    completion.event = event;
    completion.status = status;
    completion.connection = c.id;
    completion.context = context;
    delivery_.push_back(completion);
}

}  // namespace weir::transport::tcp
