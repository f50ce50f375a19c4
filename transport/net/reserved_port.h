// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReservedPort: a TCP port of 127.0.0.1 for a program that is yet to listen there.

#include <cstdint>
#include <utility>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::transport {

/// Holds a socket that is bound to the port and never listens. As long as it lives:
/// - The kernel gives the port to nobody who asks for any port, and to no outgoing connection.
/// - listen_on() can listen there, because both sockets have SO_REUSEADDR, and can do so again
///   after the listener was closed. Until then a connection to the port is refused.
class ReservedPort {
public:
    /// Errors: kIo (no descriptor or no port is left)
    [[nodiscard]] static Result<ReservedPort> make();

    [[nodiscard]] uint16_t number() const noexcept { return number_; }

private:
    ReservedPort(Descriptor socket, uint16_t number) noexcept
        : socket_(std::move(socket)), number_(number) {}

    Descriptor socket_;
    uint16_t number_ = 0;
};

}  // namespace weir::transport
