// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ChannelHandshake: how two processes that share the job's secret agree on a channel. What they say
/// under proof (transport/net/handshake.h) are their Terms; memory goes with what follows. Every
/// record is a packet of its own:
///
///     connecting                                   accepting
///     Hello                                  ->
///                                            <-    Hello
///     Terms, proof                           ->
///                                            <-    Terms, proof
///     Ready + memfds (rings, live page)      ->    maps them
///                                            <-    Welcome + memfd of its live page
///
/// Or a refusal instead of an answer; the connecting side may come again where it says that somebody
/// else got the place. The memory is made by the connecting side, and only after the other has
/// proved to know the secret; the accepting side maps it only after the like. Whatever is not as
/// above ends the handshake with an error that says what came.

#include <cstdint>
#include <memory>
#include <optional>

#include "lib/base/result.h"
#include "transport/net/handshake.h"
#include "transport/net/unix_socket.h"
#include "transport/shm/channel.h"
#include "transport/shm/shared_memory.h"

namespace weir::transport::shm {

/// What one side says of itself.
struct Terms {
    uint32_t message_bytes_max = 0;
    uint32_t messages_in_flight = 0;
    uint32_t membarrier = 0;  ///< 1: registered for it, see doorbell.h
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
class ChannelHandshake {
public:
    /// `self` outlives it.
    ChannelHandshake(const Self& self, Side side);

    /// The connecting side's first message. Errors: kBusy
    [[nodiscard]] Status begin(int socket);

    /// Takes what has come.
    /// Errors: kRefused (wrong secret), kProtocol, kPeerLost (the other side went), kNoMemory,
    /// kBusy
    [[nodiscard]] Result<Progress> advance(int socket);

    /// The accepting side's last message to one who has to go. It may be lost.
    void send_away(int socket);

    [[nodiscard]] Agreement take_agreement() { return std::move(agreement_); }

private:
    [[nodiscard]] Result<Progress> take(int socket, const Packet& packet);
    [[nodiscard]] Status take_step(int socket, Handshake::Step step, const Packet& packet);
    [[nodiscard]] Status make_rings(int socket);
    [[nodiscard]] Status map_rings(int socket, const Packet& packet);
    [[nodiscard]] Status take_welcome(const Packet& packet);
    [[nodiscard]] Status agree_on(std::span<const std::byte> theirs);
    [[nodiscard]] size_t fds_expected() const noexcept;
    [[nodiscard]] Status send_output(int socket, std::span<const int> fds = {});
    void refuse(int socket, Errc code, std::string_view text);

    const Self& self_;
    Side side_;
    Handshake handshake_;
    bool said_ = false;  ///< the peer has what it needs to know whether we know the secret
    bool done_ = false;
    Agreement agreement_;
};

}  // namespace weir::transport::shm
