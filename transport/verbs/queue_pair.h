// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Queue pairs: making one, and taking it through its states.

#include <infiniband/verbs.h>

#include "lib/base/result.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/handshake.h"
#include "transport/verbs/hardware.h"

namespace weir::transport::verbs {

struct QueuePairOptions {
    void* owner = nullptr;  ///< its context in device events
    ibv_cq* cq = nullptr;
    ibv_srq* srq = nullptr;
    uint32_t send_depth = 0;
};

/// A queue pair in state INIT.
/// Errors: kNoMemory (the device has no more), kIo
[[nodiscard]] Result<QpPtr> make_queue_pair(const Hardware& hardware,
                                            const QueuePairOptions& options);

/// The way to the peer. RoCE always needs the global header; InfiniBand only between subnets, where
/// the port demands it, or for a traffic class.
[[nodiscard]] ibv_ah_attr route_to(const Hardware& hardware, const Claim& peer) noexcept;

/// What we say of a queue pair of ours; the window and message size are the caller's to fill in.
[[nodiscard]] Claim describe(const Hardware& hardware, const ibv_qp& qp, uint32_t packet_number);

/// Credits keep receiver-not-ready from happening, except when another peer of the same endpoint
/// ignores its own and empties the shared receive queue. That ends with the endpoint's next poll,
/// so the others wait 82 ms (code 26) and try again six times: half a second in all. For ever (7)
/// would hide a peer that never polls.
inline constexpr uint8_t kNotReadyTimer = 26;
inline constexpr uint8_t kNotReadyRetries = 6;

struct RetryOptions {
    uint8_t timeout = 14;
    uint8_t count = 7;
};

/// Takes it to RTR and RTS towards the peer.
/// Errors: kIo
[[nodiscard]] Status bring_up(const Hardware& hardware, ibv_qp* qp, const Claim& own,
                              const Claim& peer, const RetryOptions& retry);

/// Takes it to ERR: everything in flight is flushed.
void break_off(ibv_qp* qp) noexcept;

/// READs that we can serve at once on one queue pair.
[[nodiscard]] uint8_t read_depth(const Hardware& hardware) noexcept;
/// READs that we may have in flight at once towards that peer.
[[nodiscard]] uint8_t initiator_depth(const Hardware& hardware, const Claim& peer) noexcept;

}  // namespace weir::transport::verbs
