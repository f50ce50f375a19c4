// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Listener: the socket that an endpoint's peers connect to. While it rests, they wait in the
/// kernel's backlog.

#include <cstdint>
#include <limits>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "transport/net/watcher.h"

namespace weir::transport {

/// Thread: the endpoint's.
class Listener {
public:
    static constexpr uint64_t kUntilToldNs = std::numeric_limits<uint64_t>::max();

    /// `socket` listens; `name` is the watcher's name for it. `watcher` outlives the Listener.
    /// Errors: kIo
    [[nodiscard]] static Result<Listener> make(Descriptor socket, Watcher& watcher, uint64_t name);

    /// Accepts no connection until that time, or until go_on().
    void rest(uint64_t until_ns);
    void go_on();

    /// When the rest ends; kUntilToldNs: only by go_on(), or it does not rest.
    [[nodiscard]] uint64_t rest_ends_ns() const noexcept { return rest_ends_ns_; }

    /// The next waiting connection. If there is none, an empty descriptor; errno says why.
    [[nodiscard]] Descriptor accept() const;

    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

private:
    Descriptor socket_;
    Watcher* watcher_ = nullptr;
    uint64_t name_ = 0;
    bool rests_ = false;
    uint64_t rest_ends_ns_ = kUntilToldNs;
};

}  // namespace weir::transport
