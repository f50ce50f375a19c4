// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Listener: the socket where others connect. While it rests, they wait in the kernel's backlog.

#include <cstdint>
#include <limits>

#include "transport/net/socket.h"
#include "transport/verbs/watcher.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class Listener {
public:
    static constexpr uint64_t kUntilToldNs = std::numeric_limits<uint64_t>::max();

    /// `name` is what `watcher`, which outlives it, calls it.
    /// Errors: kAlreadyExists (port in use), kInvalidArgument, kIo
    [[nodiscard]] static Result<Listener> make(const SocketAddress& address, Watcher& watcher,
                                               uint64_t name);

    /// Accepts nobody until that time, or until go_on().
    void rest(uint64_t until_ns);
    void go_on();

    /// When the rest ends; kUntilToldNs: not by itself, or there is none.
    [[nodiscard]] uint64_t rest_ends_ns() const noexcept { return rest_ends_ns_; }

    /// The next one who waits, or nobody: errno says why.
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
