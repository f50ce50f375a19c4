// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long a connection may stay open before its peer has proved that it knows the secret.
///
/// A peer on a busy machine may be slow, so it gets as long as a connecting side waits. But
/// places are few, and connections that never prove anything could hold them all that time. So
/// when all places are taken and a new connection wants one, the oldest unproven connection is
/// closed after a small part of that time. A peer that is closed for this reason is told so, and
/// connects again.

#include <algorithm>
#include <cstdint>

#include "lib/base/clock.h"

namespace weir::transport {

/// How long a connection attempt lasts unless the caller says otherwise: the default of
/// WEIR_JOIN_TIMEOUT_S.
inline constexpr uint64_t kHandshakeTimeoutNs = 30 * kSecond;

/// The age at which an unproven connection is closed if its place is wanted. With 64 places, some
/// 2000 silent connections that are made again at once delay a peer, but do not keep it out.
[[nodiscard]] constexpr uint64_t wanted_place_ns(uint64_t handshake_timeout_ns) noexcept {
    return std::min(handshake_timeout_ns / 32, kSecond);
}

}  // namespace weir::transport
