// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Socket: a non-blocking TCP stream, set so that a silent peer is noticed; and how to listen.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "transport/net/socket_address.h"

namespace weir::transport {

/// Connections that wait in the kernel until the listener polls.
inline constexpr int kBacklog = 1024;

/// Errors: kAlreadyExists (port in use), kInvalidArgument (not an address of this machine), kIo
[[nodiscard]] Result<Descriptor> listen_on(const SocketAddress& address);

/// A stream to a peer. Thread: one.
class Socket {
public:
    enum class Got : uint8_t { kSome, kNothing, kEnd };

    Socket() = default;

    /// Takes an accepted socket.
    Socket(Descriptor fd, uint32_t silence_ms_max);
    /// Begins to connect; it is connected once it is writable and failure() is 0.
    /// Errors: kIo
    [[nodiscard]] static Result<Socket> connect(const SocketAddress& to, uint32_t silence_ms_max);

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

    /// The errno that ended it, or 0.
    [[nodiscard]] int failure() const noexcept;
    /// Sends what goes; returns how much, or nothing if the connection is gone.
    [[nodiscard]] std::optional<size_t> send_some(std::span<const std::byte> bytes) const;
    /// Sends what goes and takes it off the front. False: the connection is gone.
    [[nodiscard]] bool send(std::vector<std::byte>& bytes);
    /// Reads into the front of `into` and says how much in `count`.
    [[nodiscard]] Got receive(std::span<std::byte> into, size_t& count);

    void close() noexcept { fd_.reset(); }

private:
    void tune(uint32_t silence_ms_max) const;

    Descriptor fd_;
};

}  // namespace weir::transport
