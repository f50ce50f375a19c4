// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Supplies: an endpoint's queues, and what each connection gets of them: a place in the receive
/// and the completion queue, a queue pair, and a ring for what it sends.

#include <optional>
#include <vector>

#include "transport/verbs/capacity.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/hardware.h"
#include "transport/verbs/receive_queue.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class Supplies {
public:
    /// `hardware` outlives it; `owner` is the queues' context in device events. `options` are within
    /// the limits already.
    /// Errors: kNoMemory, kIo
    [[nodiscard]] static Result<Supplies> make(const Hardware& hardware, void* owner,
                                               const EndpointOptions& options);

    /// Gives a connection all that it needs but a peer, and says in its claim what it got.
    /// Errors: kBusy (nothing is left; the text says what to do), kNoMemory, kIo
    [[nodiscard]] Status equip(Connection& c, uint32_t slot);
    /// Takes it back. Nothing is in flight any more. The queue pair goes first, since it could
    /// still read the other things.
    void take_back(Connection& c);

    [[nodiscard]] ibv_cq* completions() const noexcept { return completions_.get(); }

    [[nodiscard]] ibv_comp_channel* channel() const noexcept { return channel_.get(); }

    [[nodiscard]] ReceiveQueue& receives() noexcept { return *receives_; }

private:
    Supplies(const Hardware& hardware, void* owner, const EndpointOptions& options)
        : hardware_(&hardware), owner_(owner), options_(options) {}

    const Hardware* hardware_;
    void* owner_;
    EndpointOptions options_;

    // Declared in the order in which they may go, last first.
    ChannelPtr channel_;
    CqPtr completions_;
    std::optional<ReceiveQueue> receives_;
    std::vector<RegisteredPages> spare_rings_;  ///< of connections that are gone
    Capacity capacity_{0, 0};
    uint32_t granted_ = 0;      ///< sum of the windows of all connections
    uint32_t connections_ = 0;  ///< that have some of it
};

}  // namespace weir::transport::verbs
