// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Capacity: how much of an endpoint's shared queues each connection gets. The receive queue then
/// cannot run dry and the completion queue cannot overflow, whatever the peers do.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "transport/credits.h"

namespace weir::transport::verbs {

/// What one connection holds.
struct Grant {
    uint32_t window = 0;      ///< receive requests: how many messages the peer may send
    uint32_t send_depth = 0;  ///< send requests in flight
};

/// The first connections get what they want. When little is left, a connection gets at most a
/// fixed part of that. Many more then fit, each of them slower, before one is refused.
class Capacity {
public:
    static constexpr uint32_t kSendDepthMin = 24;
    static constexpr uint32_t kPartOfRest = 32;

    /// `receives`: entries of the receive queue from which windows are granted. `sends`: entries
    /// of the completion queue that are not for receives; it must hold a completion for
    /// everything in flight.
    Capacity(uint32_t receives, uint32_t sends) noexcept : receives_(receives), sends_(sends) {}

    [[nodiscard]] std::optional<Grant> admit(const Grant& wanted) noexcept {
        const Grant grant{
            std::min(wanted.window, std::max(receives_ / kPartOfRest, Credits::kWindowMin)),
            std::min(wanted.send_depth, std::max(sends_ / kPartOfRest, kSendDepthMin))};
        if (grant.window > receives_ || grant.send_depth > sends_) return std::nullopt;
        receives_ -= grant.window;
        sends_ -= grant.send_depth;
        return grant;
    }

    void release(const Grant& grant) noexcept {
        receives_ += grant.window;
        sends_ += grant.send_depth;
    }

    [[nodiscard]] uint32_t receives_free() const noexcept { return receives_; }

private:
    uint32_t receives_;
    uint32_t sends_;
};

}  // namespace weir::transport::verbs
