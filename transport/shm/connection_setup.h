// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ConnectionSetup: sets an endpoint's connections up, from the first packet or link until both
/// sides have their rings. HalfOpenPlaces decides how many peers may be half way.

#include <memory>
#include <string>
#include <string_view>

#include "transport/net/half_open.h"
#include "transport/net/listener.h"
#include "transport/shm/connection_table.h"
#include "transport/shm/device.h"
#include "transport/shm/ring_poller.h"

namespace weir::transport::shm {

// The watcher's names for descriptors that are not a connection's; a ConnectionId is never that
// small.
inline constexpr uint64_t kWatchListener = 0;
inline constexpr uint64_t kWatchBell = 1;
inline constexpr uint64_t kWatchAlarm = 2;
/// With the descriptor of a process: it is the peer of one or more connections.
inline constexpr uint64_t kWatchProcess = uint64_t{1} << 63;

/// What a ConnectionSetup reports to its endpoint.
class SetupHost {
public:
    virtual void enter(ShmConnection& c, ShmConnection::State state) = 0;
    /// The connection has its rings: the caller is to know of it.
    virtual void open(ShmConnection& c) = 0;
    /// Ends a connection because of what the peer did, or of what we could not do for it. Frees
    /// it, as finish() does.
    virtual void refuse(ShmConnection& c, const Error& error) = 0;
    virtual void finish(ShmConnection& c, Errc status) = 0;

protected:
    ~SetupHost() = default;
};

/// Thread: the endpoint's. All that the constructor takes by reference outlives it.
class ConnectionSetup {
public:
    /// What belongs to the endpoint or its device.
    struct Surroundings {
        ShmDevice& device;
        Watcher& watcher;
        ShmConnectionTable& connections;
        RingPoller& rings;
        const Clock& clock;
        SetupHost& host;
    };

    ConnectionSetup(const Surroundings& around, const EndpointOptions& options, std::string name,
                    Listener listener, std::shared_ptr<const Doorbell> bell);
    ConnectionSetup(const ConnectionSetup&) = delete;
    ConnectionSetup& operator=(const ConnectionSetup&) = delete;
    /// Refuses the endpoints of this device that wait for an answer.
    ~ConnectionSetup();

    [[nodiscard]] std::string address() const;

    /// Begins a connection. It opens or ends later, or ends at once.
    [[nodiscard]] Result<ConnectionId> connect(std::string_view address);

    /// Takes what endpoints of this device have offered.
    void accept_links();
    /// Accepts the waiting connections of other processes, as long as there are places.
    void accept_sockets();
    /// Takes what the peer has sent in the handshake, and answers.
    void advance(ShmConnection& c);

    /// A connection has entered another state: it may have left its place.
    void update_place(const ShmConnection& c) {
        if (!c.is_unproven() && places_.leave(c.id)) listener_.resume();
    }

    /// Ends what takes too long, and tries again what found no room.
    void check_deadlines(uint64_t now_ns);

    /// When the listener accepts again after a pause; the greatest number: it is not paused, or
    /// until a place is free.
    [[nodiscard]] uint64_t pause_ends_ns() const noexcept { return listener_.pause_ends_ns(); }

    /// The log of what is refused here: peers may try again and again.
    [[nodiscard]] RepeatedLog& refusal_log() noexcept { return places_.log(); }

private:
    using State = ShmConnection::State;

    void dial(ShmConnection& c);
    void dial_again(ShmConnection& c);
    void offer(ShmConnection& c, LinkOffers& to);
    void free_a_place();

    ShmDevice& device_;
    const EndpointOptions& options_;
    const std::string name_;
    Listener listener_;
    Watcher& watcher_;
    const std::shared_ptr<const Doorbell> bell_;
    ShmConnectionTable& connections_;
    RingPoller& rings_;
    const Clock& clock_;
    SetupHost& host_;
    const Self self_;
    const std::shared_ptr<LinkOffers> offers_;
    HalfOpenPlaces places_;
};

}  // namespace weir::transport::shm
