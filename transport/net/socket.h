// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Socket: a non-blocking TCP stream that notices when its peer goes silent; and listening.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "transport/net/socket_address.h"

namespace weir::transport {

/// Most connections that wait in the kernel until the listener polls.
inline constexpr int kBacklog = 1024;

/// Listens on `address`.
/// Errors:  kAlreadyExists (port in use), kInvalidArgument (not an address of this machine), kIo
[[nodiscard]] Result<Descriptor> listen_on(const SocketAddress& address);

/// A stream to a peer. Thread: one.
class Socket {
public:
    enum class Got : uint8_t {
        kSome,
        kNothing,
        kEnd,    ///< the peer, or the kernel of a peer that has ended, closed the stream
        kBroken  ///< by a reset or a timeout: nobody knows what became of the peer
    };

    Socket() = default;

    /// Takes over an accepted socket. The connection ends if the peer's host answers nothing for
    /// `silence_ms_max`.
    Socket(Descriptor fd, uint32_t silence_ms_max);
    /// Begins to connect; it is connected once it is writable and failure() is 0.
    /// Errors: kIo
    [[nodiscard]] static Result<Socket> connect(const SocketAddress& to, uint32_t silence_ms_max);

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

    /// The errno that ended the connection, or 0.
    [[nodiscard]] int failure() const noexcept;
    /// Sends what the kernel takes at once and returns the number of bytes; nullopt if the
    /// connection has ended.
    [[nodiscard]] std::optional<size_t> send_some(std::span<const std::byte> bytes) const;
    /// As send_some(), from several places, in one call to the kernel.
    [[nodiscard]] std::optional<size_t> send_some(std::span<iovec> parts) const;
    /// Sends what the kernel takes at once and removes it from the front. False if the connection
    /// has ended.
    [[nodiscard]] bool send(std::vector<std::byte>& bytes);
    /// Reads into the front of `into` and stores the number of bytes in `count`.
    [[nodiscard]] Got receive(std::span<std::byte> into, size_t& count);
    /// As receive(), into several places, in order.
    [[nodiscard]] Got receive(std::span<iovec> into, size_t& count);

    void close() noexcept { fd_.reset(); }

    /// Ends the stream so that the peer gets kBroken and not kEnd: this process lives on. What is on
    /// its way may get lost.
    void reset() noexcept;

private:
    void tune(uint32_t silence_ms_max) const;

    Descriptor fd_;
};

}  // namespace weir::transport
