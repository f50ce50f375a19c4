// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Meeting: sets connections up, from the first packet on the side channel until the queue pairs
/// are up. Afterwards it takes what the peer sends on the side channel.

#include <optional>
#include <string>

#include "transport/verbs/cm_way.h"
#include "transport/verbs/connection_table.h"
#include "transport/verbs/device.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/listener.h"
#include "transport/verbs/supplies.h"
#include "transport/verbs/watcher.h"

namespace weir::transport::verbs {

/// What a Meeting reports to its endpoint. None of these functions frees a connection.
class MeetingHost {
public:
    virtual void enter(Connection& c, Connection::State state) = 0;
    virtual void fail(Connection& c, Errc reason, std::string_view why) = 0;
    /// Both queue pairs are up.
    virtual void open(Connection& c) = 0;
    /// The peer ends the connection, on which it has sent so many messages.
    virtual void take_goodbye(Connection& c, uint64_t messages) = 0;
    /// The peer has closed the side channel of a connection that was open.
    virtual void take_hang_up(Connection& c) = 0;

protected:
    ~MeetingHost() = default;
};

/// Thread: the endpoint's. All that the constructor takes outlives it.
class Meeting {
public:
    Meeting(const VerbsDevice& device, const EndpointOptions& options, Watcher& watcher,
            Supplies& supplies, ConnectionTable& connections, EndpointCounters& counters,
            MeetingHost& host)
        : device_(device),
          options_(options),
          watcher_(watcher),
          supplies_(supplies),
          connections_(connections),
          counters_(counters),
          host_(host),
          cm_(device, watcher, kWatchCm) {}

    /// Errors: kAlreadyExists (port in use), kInvalidArgument, kIo
    [[nodiscard]] Status listen(const SocketAddress& address);

    /// The address at which peers reach this endpoint.
    [[nodiscard]] const std::string& address() const noexcept { return address_; }

    /// Begins a connection. It opens or fails later, or fails at once.
    Connection& begin(const SocketAddress& to);
    /// Accepts the waiting connections, as long as there are places.
    void accept_all();
    /// Handles what has happened on the side channel of a connection.
    void serve(Connection& c);
    /// Sends the handshake's output.
    void say(Connection& c);
    void take_cm_events();

    /// A connection that a peer began is open now, or ends: its place is free.
    void give_up_place();

    /// A connection is gone: there may be room for another.
    void note_room() { listener_->go_on(); }

    /// When the listener accepts again after a rest; the greatest number: it does not rest, or
    /// rests until a place is free.
    [[nodiscard]] uint64_t rest_ends_ns() const noexcept { return listener_->rest_ends_ns(); }

    void check_rest(uint64_t now_ns);

    /// Frees what librdmacm holds for a connection, whose queue pair must still exist.
    void forget(const Connection& c) { cm_.forget(c); }

private:
    using State = Connection::State;

    [[nodiscard]] Connection* oldest_stranger() const noexcept;
    [[nodiscard]] uint64_t next_place_ns() const noexcept;
    void show_out_oldest();
    void dial(Connection& c);
    void advance_handshake(Connection& c);
    Status take_step(Connection& c, ClaimHandshake::Step step);
    Status equip(Connection& c);
    [[nodiscard]] Status check_peer(const Connection& c) const;
    Status take_proof(Connection& c);
    void take_cm_request(const CmEvent& request);
    static void note_up(Connection& c);
    void refuse(Connection& c, const Error& error);

    const VerbsDevice& device_;
    const EndpointOptions& options_;
    Watcher& watcher_;
    Supplies& supplies_;
    ConnectionTable& connections_;
    EndpointCounters& counters_;
    MeetingHost& host_;
    CmWay cm_;
    std::optional<Listener> listener_;
    std::string address_;
    uint32_t half_open_ = 0;  ///< accepted and not open yet
};

}  // namespace weir::transport::verbs
