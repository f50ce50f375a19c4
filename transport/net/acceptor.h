// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Acceptor: takes the connections that peers begin at an endpoint's TCP port. HalfOpenPlaces
/// decides how many may be on their way through the handshake.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "transport/net/half_open.h"
#include "transport/net/listener.h"
#include "transport/net/socket_address.h"
#include "transport/net/watcher.h"

namespace weir::transport {

/// What an Acceptor needs of its endpoint.
class AcceptorHost {
public:
    /// Whether there is room for another connection.
    [[nodiscard]] virtual bool has_room() const = 0;
    /// A peer has connected. Returns the connection's id, or 0 if it ended at once.
    virtual uint64_t adopt(Descriptor socket) = 0;
    /// Another peer wants the place of this connection: handle what has come from it, and if it
    /// still has proved nothing, end it with HalfOpenPlaces::kRetryText.
    virtual void evict(uint64_t id) = 0;

protected:
    ~AcceptorHost() = default;
};

/// Thread: the endpoint's. What the constructor takes outlives it.
class Acceptor {
public:
    /// `scheme` begins the endpoint's address: "verbs:".
    Acceptor(std::string_view scheme, const Clock& clock, uint64_t handshake_timeout_ns,
             Watcher& watcher, uint64_t watch_name, AcceptorHost& host)
        : scheme_(scheme),
          clock_(clock),
          watcher_(watcher),
          watch_name_(watch_name),
          host_(host),
          places_(clock, kHalfOpenPlacesMax, handshake_timeout_ns) {}

    /// Listens on `address`. If that is no certain address (0.0.0.0), peers reach it at `host`.
    /// Errors:  kAlreadyExists (port in use), kInvalidArgument, kIo
    [[nodiscard]] Status listen(const SocketAddress& address, SocketAddress host);

    /// The address at which peers reach this endpoint.
    [[nodiscard]] const std::string& address() const noexcept { return address_; }

    /// Accepts the waiting connections, as long as there are places.
    void accept_all();

    /// A connection has proved that it knows the secret: it keeps its place until leave().
    void prove(uint64_t id) noexcept { places_.prove(id); }

    /// It is open, or has ended: its place is free.
    void leave(uint64_t id) {
        if (places_.leave(id)) listener_->resume();
    }

    /// How many are on their way through the handshake.
    [[nodiscard]] uint32_t coming() const noexcept { return places_.count(); }

    /// A connection is gone: there may be room for another.
    void note_room() { listener_->resume(); }

    /// When it accepts again after a pause; the greatest number: it is not paused, or until a
    /// place is free.
    [[nodiscard]] uint64_t pause_ends_ns() const noexcept { return listener_->pause_ends_ns(); }

    void check_pause(uint64_t now_ns) {
        if (listener_->pause_ends_ns() <= now_ns) listener_->resume();
    }

    /// Logs a line about a peer that has proved nothing.
    void log_unproven(std::string_view reason, std::string_view line) {
        places_.log().log(LogLevel::kWarning, reason, line);
    }

    /// Call it from time to time: it logs how many such lines were left out.
    void sum_up_log() { places_.log().look(); }

private:
    static constexpr uint64_t kAcceptAgainNs = 100 * kMillisecond;  ///< after a lack of descriptors

    const std::string_view scheme_;
    const Clock& clock_;
    Watcher& watcher_;
    const uint64_t watch_name_;
    AcceptorHost& host_;
    std::optional<Listener> listener_;
    std::string address_;
    HalfOpenPlaces places_;
};

}  // namespace weir::transport
