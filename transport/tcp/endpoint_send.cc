// SPDX-License-Identifier: Apache-2.0
/// \file
/// TcpEndpoint: from a connection's output to its socket.

#include <array>
#include <shared_mutex>

#include "transport/tcp/endpoint.h"
#include "transport/tcp/limits.h"

namespace weir::transport::tcp {

/// Answers the writes that have ended.
void TcpEndpoint::add_written(TcpConnection& c) {
    if (c.writes_done > 0) c.output.add({FrameType::kWritten, c.writes_done, {}});
    c.writes_done = 0;
}

void TcpEndpoint::send_output(TcpConnection& c) {
    if (c.is_coming() || c.state == State::kEnded || c.is_blocked) return;
    add_written(c);
    while (!c.output.empty()) {
        std::array<iovec, kPartsPerSend> parts;
        const size_t count = c.output.next(parts);
        size_t wanted = 0;
        for (size_t i = 0; i < count; ++i)
            wanted += parts[i].iov_len;
        std::shared_lock<std::shared_mutex> exposed_stays;
        if (c.output.exposed_parts() > 0) {
            exposed_stays = std::shared_lock(device_.in_use());
            bool all_exposed = true;
            c.output.for_each(count, [&](const Output::Part& part) {
                if (part.memory != Output::Memory::kExposed || part.bytes == 0) return;
                const RemoteSpan rest{reinterpret_cast<uint64_t>(part.at), part.bytes, part.key};
                if (regions_.find_remote(rest, Access::kRemoteRead) == nullptr) all_exposed = false;
            });
            if (!all_exposed) {
                exposed_stays.unlock();
                fail(c, Errc::kRefused, "what it reads was deregistered meanwhile");
                return;
            }
        }
        const std::optional<size_t> sent = c.socket.send_some(std::span(parts).first(count));
        if (exposed_stays.owns_lock()) exposed_stays.unlock();
        ++counters_.doorbells;
        if (!sent) {
            take_end(c);
            return;
        }
        c.output.sent(*sent);
        if (*sent < wanted) {
            set_blocked(c, true);
            return;
        }
    }
    set_blocked(c, false);
    advance_close(c);
}

void TcpEndpoint::send_handshake(TcpConnection& c) {
    if (c.state == State::kDialing) return;
    // If the connection has ended, receiving reports it.
    if (!c.socket.send(c.handshake.output())) return;
    set_blocked(c, !c.handshake.output().empty());
}

/// Watches the socket for output only while the kernel takes no more.
void TcpEndpoint::set_blocked(TcpConnection& c, bool blocked) {
    c.is_blocked = blocked;
    if (c.is_watched_for_output == blocked) return;
    c.is_watched_for_output = blocked;
    const Status watched = watcher_.watch(
        c.socket.fd(), c.id, blocked ? Watcher::For::kInputAndOutput : Watcher::For::kInput);
    if (!watched) fail(c, watched.code(), watched.error().message());
}

}  // namespace weir::transport::tcp
