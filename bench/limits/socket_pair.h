// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SocketPair: a TCP connection on loopback without anything of Weir, for the limits of `tcp`.

#include <array>
#include <cstddef>
#include <span>

#include <sys/uio.h>

#include "lib/base/descriptor.h"

namespace weir::bench {

/// Both ends of a connection, which sends small messages at once (TCP_NODELAY).
class SocketPair {
public:
    SocketPair() noexcept;

    /// False if the kernel gave no connection; errno says why.
    [[nodiscard]] bool valid() const noexcept { return ends_[0] && ends_[1]; }

    [[nodiscard]] int fd(int side) const noexcept { return ends_[static_cast<size_t>(side)].get(); }

private:
    std::array<Descriptor, 2> ends_;
};

/// Sends all bytes, in as many parts as the kernel takes; does not sleep meanwhile. False if the connection is broken.
[[nodiscard]] bool send_all(int fd, std::span<const std::byte> bytes) noexcept;

/// As above, from several places; changes `parts`.
[[nodiscard]] bool send_all(int fd, std::span<iovec> parts) noexcept;

/// Waits, without sleeping, until the whole of `bytes` has come. False if the connection is broken.
[[nodiscard]] bool receive_all(int fd, std::span<std::byte> bytes) noexcept;

}  // namespace weir::bench
