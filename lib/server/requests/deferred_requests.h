// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DeferredRequests: pushes and pulls that came before their turn, and are admitted again when
/// something has changed.

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// Sessions bounds what is in all these queues: each request counts against its worker.
///
/// Thread: the shard's
class DeferredRequests {
public:
    /// A decoded header, and a copy of the keys and values in its message, which the sender can no
    /// longer change.
    struct Deferred {
        Deferred(transport::ConnectionId from, const wire::Frame& received);
        Deferred(const Deferred&) = delete;  // the spans would point into the original
        Deferred& operator=(const Deferred&) = delete;
        Deferred(Deferred&&) noexcept = default;
        Deferred& operator=(Deferred&&) noexcept = default;
        ~Deferred() = default;

        transport::ConnectionId connection;
        std::vector<std::byte> body;
        wire::Frame frame;  ///< its spans point into `body`
    };

    void add(transport::ConnectionId from, const wire::Frame& frame) {
        queue_.emplace_back(from, frame);
    }

    /// All of them, in the order in which they came. None is left.
    [[nodiscard]] std::deque<Deferred> take() { return std::exchange(queue_, {}); }

    /// Drops the requests of a connection that is closed.
    void forget(transport::ConnectionId connection) {
        std::erase_if(queue_, [&](const Deferred& d) { return d.connection == connection; });
    }

    [[nodiscard]] bool empty() const noexcept { return queue_.empty(); }

private:
    std::deque<Deferred> queue_;
};

}  // namespace weir
