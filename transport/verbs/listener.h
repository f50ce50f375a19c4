// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Listener: the socket that peers connect to. While it rests, they wait in the kernel's backlog.

#include <cstdint>
#include <limits>

#include "transport/net/socket.h"
#include "transport/verbs/watcher.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class Listener {
public:
    static constexpr uint64_t kUntilToldNs = std::numeric_limits<uint64_t>::max();

    /// `name` is the watcher's name for the socket. `watcher` outlives it.
    /// Errors: kAlreadyExists (port in use), kInvalidArgument, kIo
    [[nodiscard]] static Result<Listener> make(const SocketAddress& address, Watcher& watcher,
                                               uint64_t name);

    /// Accepts no connection until that time, or until go_on().
    void rest(uint64_t until_ns);
    void go_on();

    /// When the rest ends; kUntilToldNs: only by go_on(), or it does not rest.
    [[nodiscard]] uint64_t rest_ends_ns() const noexcept { return rest_ends_ns_; }

    /// The next waiting connection. If there is none, an empty descriptor; errno says why.
    [[nodiscard]] Descriptor accept() const;

    [[nodiscard]] SocketAddress address() const { return SocketAddress::own(socket_.get()); }

private:
    Descriptor socket_;
    Watcher* watcher_ = nullptr;
    uint64_t name_ = 0;
    bool rests_ = false;
    uint64_t rest_ends_ns_ = kUntilToldNs;
};

}  // namespace weir::transport::verbs
