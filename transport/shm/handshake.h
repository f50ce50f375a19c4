// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Handshake: how two processes that share the job's secret agree on a channel.
///
///     connecting                                   accepting
///     Hello {nonce}                          ->
///                                            <-    Challenge {nonce, terms, proof}
///     Join {terms, shape, proof} + memfds    ->    maps the channel and the live page
///                                            <-    Welcome + memfd of its live page
///
/// Or Later instead of an answer, where somebody else gets the place: the connecting side may come
/// again. What each begins with ends in a digit: the version of these words and of the rings. The
/// memory is made by the connecting side, and only after the other has proved to know
/// the secret; the accepting side maps it only after the like. Whatever is not as above ends the
/// handshake with an error that says what came.

#include <cstdint>
#include <optional>

#include "lib/base/result.h"
#include "transport/net/secret.h"
#include "transport/net/unix_socket.h"
#include "transport/shm/channel.h"
#include "transport/shm/shared_memory.h"

namespace weir::transport::shm {

/// What one side says of itself.
struct Terms {
    uint32_t message_bytes_max = 0;
    uint32_t messages_in_flight = 0;
    uint32_t membarrier = 0;  ///< 1: registered for it, see doorbell.h
    uint32_t zero = 0;
};

/// What both sides have in the end.
struct Agreement {
    Mapping memory;
    Mapping live_page;  ///< the peer's
    ChannelShape shape;
    Channel channel;
    bool asymmetric = false;  ///< for light_fence()
};

/// Our part in every handshake of an endpoint.
struct Self {
    Secret secret;
    Terms terms;
    int live_page_fd = -1;
};

/// How far a handshake has come.
enum class Progress : uint8_t {
    kWaiting,  ///< for more from the other side
    kDone,     ///< take_agreement() has it
    kLater,    ///< the other side has no place: to be begun again, with another socket
};

/// Thread: the endpoint's. Never blocks.
class Handshake {
public:
    Handshake(const Self& self, Side side);

    /// The connecting side's first message. Errors: kBusy
    [[nodiscard]] Status begin(int socket);

    /// Takes what has come.
    /// Errors: kRefused (wrong secret), kProtocol, kPeerLost (the other side went), kNoMemory,
    /// kBusy
    [[nodiscard]] Result<Progress> advance(int socket);

    /// The accepting side's last message to one who has to go. It may be lost.
    static void send_away(int socket);

    [[nodiscard]] Agreement take_agreement() { return std::move(agreement_); }

private:
    enum class Waiting : uint8_t { kForHello, kForChallenge, kForJoin, kForWelcome, kForNothing };

    [[nodiscard]] Status take(int socket, Packet& packet);
    [[nodiscard]] Status take_hello(int socket, const Packet& packet);
    [[nodiscard]] Status take_challenge(int socket, const Packet& packet);
    [[nodiscard]] Status take_join(int socket, const Packet& packet);
    [[nodiscard]] Status take_welcome(const Packet& packet);
    [[nodiscard]] Status agree_on(const Terms& theirs);

    const Self& self_;
    Side side_;
    Waiting waiting_;
    Nonce connecting_nonce_{};
    Nonce accepting_nonce_{};
    Agreement agreement_;
};

}  // namespace weir::transport::shm
