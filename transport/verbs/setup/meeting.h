// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Meeting: sets connections up, from the first packet on the side channel until the queue pairs
/// are up. Afterwards it takes what the peer sends on the side channel.

#include "transport/net/acceptor.h"
#include "transport/net/watcher.h"
#include "transport/verbs/connection_table.h"
#include "transport/verbs/device.h"
#include "transport/verbs/endpoint_limits.h"
#include "transport/verbs/setup/cm_way.h"
#include "transport/verbs/supplies.h"

namespace weir::transport::verbs {

/// What a Meeting reports to its endpoint. None of these functions frees a connection.
class MeetingHost {
public:
    virtual void enter(VerbsConnection& c, VerbsConnection::State state) = 0;
    virtual void fail(VerbsConnection& c, Errc reason, std::string_view why) = 0;
    /// Both queue pairs are up.
    virtual void open(VerbsConnection& c) = 0;
    /// The peer ends the connection, on which it has sent so many messages.
    virtual void take_bye(VerbsConnection& c, uint64_t messages) = 0;
    /// The peer has closed the side channel of a connection that was open.
    virtual void take_peer_close(VerbsConnection& c) = 0;

protected:
    ~MeetingHost() = default;
};

/// Thread: the endpoint's. All that the constructor takes outlives it.
class Meeting final : private AcceptorHost {
public:
    Meeting(const VerbsDevice& device, const EndpointOptions& options, Watcher& watcher,
            Supplies& supplies, VerbsConnectionTable& connections, EndpointCounters& counters,
            MeetingHost& host)
        : device_(device),
          options_(options),
          watcher_(watcher),
          supplies_(supplies),
          connections_(connections),
          counters_(counters),
          host_(host),
          cm_(device, watcher, kWatchCm),
          acceptor_(kScheme, device.clock(), device.options().handshake_ms_max * kMillisecond,
                    watcher, kWatchListener, *this) {}

    /// Errors: kAlreadyExists (port in use), kInvalidArgument, kIo
    [[nodiscard]] Status listen(const SocketAddress& address) {
        return acceptor_.listen(address, device_.hardware().local);
    }

    [[nodiscard]] Acceptor& acceptor() noexcept { return acceptor_; }

    [[nodiscard]] const Acceptor& acceptor() const noexcept { return acceptor_; }

    /// Begins a connection. It opens or fails later, or fails at once.
    VerbsConnection& begin(const SocketAddress& to);
    /// Handles what has happened on the side channel of a connection.
    void serve(VerbsConnection& c);
    /// Sends the handshake's output.
    void send_output(VerbsConnection& c);
    void take_cm_events();

    /// A connection that a peer began has entered another state: it may have proved itself, or
    /// its place is free.
    void update_place(const VerbsConnection& c);

    /// Frees what librdmacm holds for a connection, whose queue pair must still exist.
    void forget(const VerbsConnection& c) { cm_.forget(c); }

private:
    using State = VerbsConnection::State;

    [[nodiscard]] bool has_room() const override { return !connections_.is_full(); }

    [[nodiscard]] uint64_t adopt(Descriptor socket) override;
    void evict(uint64_t id) override;
    void dial(VerbsConnection& c);
    void advance_handshake(VerbsConnection& c);
    Status take_step(VerbsConnection& c, ClaimHandshake::Step step);
    Status equip(VerbsConnection& c);
    [[nodiscard]] Status check_peer(const VerbsConnection& c) const;
    Status take_proof(VerbsConnection& c);
    void take_cm_request(const CmEvent& request);
    static void note_up(VerbsConnection& c);
    void refuse(VerbsConnection& c, const Error& error);

    const VerbsDevice& device_;
    const EndpointOptions& options_;
    Watcher& watcher_;
    Supplies& supplies_;
    VerbsConnectionTable& connections_;
    EndpointCounters& counters_;
    MeetingHost& host_;
    CmWay cm_;
    Acceptor acceptor_;
};

}  // namespace weir::transport::verbs
