// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Queue pairs: makes them, and takes them through their states.

#include <infiniband/verbs.h>

#include "lib/base/result.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/hardware.h"
#include "transport/verbs/setup/handshake.h"

namespace weir::transport::verbs {

struct QueuePairOptions {
    void* owner = nullptr;  ///< its context in asynchronous events
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr;
    uint32_t send_depth = 0;
};

/// Makes a queue pair in state INIT.
/// Errors: kNoMemory (the device has no more), kIo
[[nodiscard]] Result<QpPtr> make_queue_pair(const Hardware& hardware,
                                            const QueuePairOptions& options);

/// The route to the peer. RoCE always needs the global header. InfiniBand needs it only between
/// subnets, where the port demands it, or for a traffic class.
[[nodiscard]] ibv_ah_attr route_to(const Hardware& hardware, const Claim& peer) noexcept;

/// Describes a queue pair of ours; the caller fills in the window and the message size.
[[nodiscard]] Claim describe(const Hardware& hardware, const ibv_qp& qp, uint32_t packet_number);

/// Credits prevent receiver-not-ready, except when another peer of the same endpoint ignores its
/// credits and empties the shared receive queue. The endpoint's next poll ends that. The other
/// peers therefore wait 82 ms (code 26) and try again six times, half a second in all. Endless
/// retries (7) would hide a peer that never polls.
inline constexpr uint8_t kNotReadyTimer = 26;
inline constexpr uint8_t kNotReadyRetries = 6;

struct RetryOptions {
    uint8_t timeout = 14;
    uint8_t count = 7;
};

/// Takes the queue pair to RTR and RTS, connected to the peer.
/// Errors: kIo
[[nodiscard]] Status bring_up(const Hardware& hardware, ibv_qp* qp, const Claim& own,
                              const Claim& peer, const RetryOptions& retry);

/// Takes the queue pair to ERR: everything in flight is flushed.
void break_off(ibv_qp* qp) noexcept;

/// READs that we can serve at a time on one queue pair.
[[nodiscard]] uint8_t read_depth(const Hardware& hardware) noexcept;
/// READs that we may have in flight at a time towards that peer.
[[nodiscard]] uint8_t initiator_depth(const Hardware& hardware, const Claim& peer) noexcept;

}  // namespace weir::transport::verbs
