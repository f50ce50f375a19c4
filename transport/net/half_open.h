// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long somebody who has connected, and has not proved yet to know the secret, keeps a place.
///
/// A peer on a busy machine may be slow, so it has as long as whoever connects waits. But places
/// are few, and strangers could fill them for as long: where all are taken and somebody waits for
/// one, the oldest stranger goes after a small part of that. A peer that is told so comes again.

#include <algorithm>
#include <cstdint>

#include "lib/base/clock.h"

namespace weir::transport {

/// How long a connection attempt lasts where nobody says otherwise: WEIR_JOIN_TIMEOUT_S's default.
inline constexpr uint64_t kHandshakeTimeoutNs = 30 * kSecond;

/// After how long a stranger goes whose place is wanted. With 64 places, some 2000 strangers that
/// say nothing and come again at once delay a peer, but do not outlast it.
[[nodiscard]] constexpr uint64_t wanted_place_ns(uint64_t handshake_timeout_ns) noexcept {
    return std::min(handshake_timeout_ns / 32, kSecond);
}

}  // namespace weir::transport
