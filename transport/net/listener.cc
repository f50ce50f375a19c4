// SPDX-License-Identifier: Apache-2.0
#include "transport/net/listener.h"

#include <utility>

#include <sys/socket.h>

namespace weir::transport {

Result<Listener> Listener::make(Descriptor socket, Watcher& watcher, uint64_t name) {
    Listener listener;
    listener.socket_ = std::move(socket);
    listener.watcher_ = &watcher;
    listener.name_ = name;
    WEIR_TRY(watcher.watch(listener.socket_.get(), name, Watcher::For::kInput));
    return listener;
}

void Listener::pause(uint64_t until_ns) {
    // This cannot fail: the descriptor is watched already, and only its events change.
    static_cast<void>(watcher_->watch(socket_.get(), name_, Watcher::For::kNothing));
    paused_ = true;
    pause_ends_ns_ = until_ns;
}

void Listener::resume() {
    if (!paused_) return;
    static_cast<void>(watcher_->watch(socket_.get(), name_, Watcher::For::kInput));
    paused_ = false;
    pause_ends_ns_ = kUntilResumedNs;
}

Descriptor Listener::accept() const {
    return Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

}  // namespace weir::transport
