// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ChannelHandshake: how two processes that share the job's secret agree on a channel. The data
/// that each side proves (transport/net/handshake.h) are its Terms; the memory follows. Every
/// record is one packet:
///
///     connecting                                   accepting
///     Hello                                  ->
///                                            <-    Hello
///     Terms, proof                           ->
///                                            <-    Terms, proof
///     Ready + memfds (rings, live page)      ->    maps them
///                                            <-    Welcome + memfd of its live page
///
/// Either side may send a refusal instead of an answer. The connecting side tries again if the
/// refusal says that its place was given away. The connecting side makes the memory only after
/// the peer has proved to know the secret; the accepting side maps it only after the same proof.
/// Anything else ends the handshake with an error that says what came.

#include <cstdint>

#include "lib/base/result.h"
#include "transport/net/handshake.h"
#include "transport/net/unix_socket.h"
#include "transport/shm/channel.h"
#include "transport/shm/memory/shared_memory.h"

namespace weir::transport::shm {

/// What one side says about itself.
struct Terms {
    uint32_t message_bytes_max = 0;
    uint32_t messages_in_flight = 0;
    uint32_t membarrier = 0;  ///< 1: registered for it, see doorbell.h
};

/// What both sides hold at the end.
struct Agreement {
    Mapping memory;
    Mapping live_page;  ///< the peer's
    ChannelShape shape;
    Channel channel;
    bool asymmetric = false;  ///< for light_fence()
};

/// Our side of every handshake of an endpoint.
struct Self {
    Secret secret;
    Terms terms;
    int live_page_fd = -1;
};

/// How far a handshake has come.
enum class Progress : uint8_t {
    kWaiting,  ///< for the peer
    kDone,     ///< take_agreement() returns the result
    kLater,    ///< the peer has no place: begin again, with another socket
};

/// Thread: the endpoint's. Never blocks.
class ChannelHandshake {
public:
    /// `self` outlives it.
    ChannelHandshake(const Self& self, Side side);

    /// Sends the connecting side's first message. Errors: kBusy
    [[nodiscard]] Status begin(int socket);

    /// Takes the packets that have arrived, and answers them.
    /// Errors: kRefused (wrong secret), kProtocol, kPeerLost (the peer left), kNoMemory, kBusy
    [[nodiscard]] Result<Progress> advance(int socket);

    /// Accepting: tells a peer that loses its place to connect again. Its last message, which may
    /// be lost.
    void refuse_for_now(int socket);

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
    bool proof_sent_ = false;  ///< a peer that ends from now on has refused us
    bool done_ = false;
    Agreement agreement_;
};

}  // namespace weir::transport::shm
