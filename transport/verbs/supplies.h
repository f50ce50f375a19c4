// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Supplies: an endpoint's queues, and each connection's part of them: entries of the receive
/// queue and of the completion queue, a queue pair, and a ring for messages to send.

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
    /// `hardware` outlives it. `owner` is the queues' context in asynchronous events. `options`
    /// are clamped already.
    /// Errors: kNoMemory, kIo
    [[nodiscard]] static Result<Supplies> make(const Hardware& hardware, void* owner,
                                               const EndpointOptions& options);

    /// Gives a connection everything that it needs on this side, and describes it in its claim.
    /// Errors: kBusy (nothing is left; the text says what to do), kNoMemory, kIo
    [[nodiscard]] Status equip(VerbsConnection& c, uint32_t slot);
    /// Takes it back. Nothing may be in flight any more. The queue pair is destroyed first, since
    /// it could still read the send ring.
    void take_back(VerbsConnection& c);

    [[nodiscard]] ibv_cq* completions() const noexcept { return completions_.get(); }

    [[nodiscard]] ibv_comp_channel* channel() const noexcept { return channel_.get(); }

    [[nodiscard]] ReceiveQueue& receives() noexcept { return *receives_; }

private:
    Supplies(const Hardware& hardware, void* owner, const EndpointOptions& options)
        : hardware_(&hardware), owner_(owner), options_(options) {}

    const Hardware* hardware_;
    void* owner_;
    EndpointOptions options_;

    // Declared so that they are destroyed in the right order, the last one first.
    ChannelPtr channel_;
    CqPtr completions_;
    std::optional<ReceiveQueue> receives_;
    std::vector<RegisteredPages> spare_rings_;  ///< of connections that have ended
    Capacity capacity_{0, 0};
    uint32_t granted_ = 0;      ///< sum of all connections' windows
    uint32_t connections_ = 0;  ///< that hold a grant
};

}  // namespace weir::transport::verbs
