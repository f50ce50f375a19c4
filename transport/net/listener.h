// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Listener: the socket that an endpoint's peers connect to. While it is paused, they wait in the
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
    static constexpr uint64_t kUntilResumedNs = std::numeric_limits<uint64_t>::max();

    /// `socket` listens; `name` is the watcher's name for it. `watcher` outlives the Listener.
    /// Errors: kIo
    [[nodiscard]] static Result<Listener> make(Descriptor socket, Watcher& watcher, uint64_t name);

    /// Accepts no connection until that time, or until resume().
    void pause(uint64_t until_ns);
    void resume();

    /// When the pause ends; kUntilResumedNs: only by resume(), or it is not paused.
    [[nodiscard]] uint64_t pause_ends_ns() const noexcept { return pause_ends_ns_; }

    /// The next waiting connection. If there is none, an empty descriptor; errno says why.
    [[nodiscard]] Descriptor accept() const;

    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

private:
    Descriptor socket_;
    Watcher* watcher_ = nullptr;
    uint64_t name_ = 0;
    bool paused_ = false;
    uint64_t pause_ends_ns_ = kUntilResumedNs;
};

}  // namespace weir::transport
