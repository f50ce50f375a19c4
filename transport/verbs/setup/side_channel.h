// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SideChannel: the TCP connection beside a queue pair. On it, the two sides prove that they know
/// the secret, and send a Bye at the end. In between it shows whether the peer is alive.

#include <cstdint>

#include "lib/base/result.h"
#include "transport/net/socket.h"
#include "transport/net/watcher.h"
#include "transport/verbs/setup/handshake.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class SideChannel {
public:
    enum class State : uint8_t {
        kClosed,
        kDialing,  ///< connect() is under way
        kUp,
    };

    using Got = Socket::Got;  ///< kSome: handshake() has new bytes

    SideChannel(Side side, const Secret& secret, const Nonce& nonce)
        : side_(side), handshake_(side, secret, nonce) {}

    /// Begins to connect. `name` is the watcher's name for the socket.
    /// Errors: kIo
    [[nodiscard]] Status dial(const SocketAddress& to, uint32_t silence_ms_max, Watcher& watcher,
                              uint64_t name);
    /// Takes a connection that a peer began.
    /// Errors: kIo
    [[nodiscard]] Status adopt(Descriptor fd, uint32_t silence_ms_max, Watcher& watcher,
                               uint64_t name);
    /// Closes the connection and forgets the handshake, so that dial() can begin again.
    void reset(const Secret& secret, const Nonce& nonce);

    /// Call it first when the socket is ready: it finds out whether connecting has succeeded.
    /// Errors: kPeerLost
    [[nodiscard]] Status finish_connect();
    /// Passes bytes that came in to the handshake, a piece at a time.
    [[nodiscard]] Got receive();
    /// Sends the handshake's output. The socket is watched for output as long as some is left. It
    /// is no error if the peer takes no more: receive() will report that.
    /// Errors: kIo
    [[nodiscard]] Status send();
    /// Sends what can be sent at once, and closes the connection.
    void close();
    /// Closes the connection so that the peer does not take it for the end of this process.
    void break_off();

    [[nodiscard]] ClaimHandshake& handshake() noexcept { return handshake_; }

    [[nodiscard]] State state() const noexcept { return state_; }

    /// The address of the peer's end.
    [[nodiscard]] SocketAddress peer() const { return SocketAddress::peer(socket_.fd()); }

private:
    Status take(Socket socket, State state, Watcher& watcher, uint64_t name);

    Side side_;
    State state_ = State::kClosed;
    bool wants_output_ = false;  ///< whether the watcher watches it for output
    uint64_t name_ = 0;
    Watcher* watcher_ = nullptr;
    Socket socket_;
    ClaimHandshake handshake_;
};

}  // namespace weir::transport::verbs
