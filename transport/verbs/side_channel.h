// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SideChannel: the TCP connection beside a queue pair. The two ends prove themselves on it and say
/// goodbye on it; in between it is a sign of life.

#include <cstdint>

#include "lib/base/result.h"
#include "transport/net/socket.h"
#include "transport/verbs/handshake.h"
#include "transport/verbs/watcher.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class SideChannel {
public:
    enum class State : uint8_t {
        kClosed,
        kDialling,  ///< the kernel connects
        kUp,
    };

    enum class Got : uint8_t {
        kSome,     ///< look at handshake()
        kNothing,  ///< more will come
        kEnd,      ///< the peer has closed it
    };

    SideChannel(Side side, const Secret& secret, const Nonce& nonce)
        : side_(side), handshake_(side, secret, nonce) {}

    /// Begins to connect; `name` is what `watcher` calls it.
    /// Errors: kIo
    [[nodiscard]] Status dial(const SocketAddress& to, uint32_t silence_ms_max, Watcher& watcher,
                              uint64_t name);
    /// Takes a connection that somebody else began.
    /// Errors: kIo
    [[nodiscard]] Status adopt(Descriptor fd, uint32_t silence_ms_max, Watcher& watcher,
                               uint64_t name);
    /// Closes it and forgets what was said, to dial again.
    void begin_anew(const Secret& secret, const Nonce& nonce);

    /// To be called first when it is ready: finds out whether dialling has succeeded.
    /// Errors: kPeerLost
    [[nodiscard]] Status look();
    /// Hands what came in to the handshake, a piece at a time.
    [[nodiscard]] Got receive();
    /// Sends what the handshake has to say, and is watched for output as long as some is left.
    /// What the peer no longer takes is no error: receive() will say the same.
    /// Errors: kIo
    [[nodiscard]] Status send();
    /// Sends what goes at once and closes it.
    void close();

    [[nodiscard]] ClaimHandshake& handshake() noexcept { return handshake_; }

    [[nodiscard]] const ClaimHandshake& handshake() const noexcept { return handshake_; }

    [[nodiscard]] State state() const noexcept { return state_; }

    /// Where the other end is.
    [[nodiscard]] SocketAddress peer() const { return SocketAddress::peer(socket_.fd()); }

private:
    Status take(Socket socket, State state, Watcher& watcher, uint64_t name);

    Side side_;
    State state_ = State::kClosed;
    bool wants_output_ = false;  ///< what the watcher watches it for
    uint64_t name_ = 0;
    Watcher* watcher_ = nullptr;
    Socket socket_;
    ClaimHandshake handshake_;
};

}  // namespace weir::transport::verbs
