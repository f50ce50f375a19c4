// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RendezvousListener: the port of the rendezvous. It accepts connections and brings them through
/// the handshake; its owner decides who is let in, and what follows then.

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/host_port.h"
#include "lib/bootstrap/rendezvous/rendezvous_link.h"
#include "transport/net/half_open.h"
#include "transport/net/watcher.h"

namespace weir::boot {

/// Thread: one at a time
class RendezvousListener {
public:
    /// How many connections may be open that the owner does not keep; see HalfOpenPlaces.
    static constexpr uint32_t kUnkeptMax = transport::kHalfOpenPlacesMax;
    static constexpr uint64_t kHandshakeTimeoutNs = 5 * kSecond;

    enum class Stage : uint8_t {
        kHandshake,  ///< in the handshake
        kAdmitted,   ///< its peer was let in
        kLeaving,    ///< refused; closed once the reason is sent
    };

    struct Connection {
        Connection(transport::Socket socket, const std::optional<transport::Secret>& secret)
            : link(std::move(socket), transport::Side::kAccepting, secret) {}

        RendezvousLink link;
        uint64_t id = 0;
        Stage stage = Stage::kHandshake;
        RendezvousHello hello;
        std::optional<transport::Watcher::For> watched = {};
    };

    class Owner {
    public:
        virtual ~Owner() = default;

        /// The peer has proved that it knows the secret. Errors: why it is not let in; it is told.
        [[nodiscard]] virtual Status check(const RendezvousHello& hello) = 0;
        /// It has been let in: what is queued now goes out behind the handshake.
        virtual void admitted(Connection& connection) = 0;
        /// A peer that was let in sends something. Errors: why the connection is closed
        [[nodiscard]] virtual Status take(Connection& connection,
                                          const RendezvousMessage& message) = 0;
        /// Whether a peer that was let in may close its connection now; if not, that is logged.
        [[nodiscard]] virtual bool may_end(const Connection& connection) const = 0;
        /// The connection of a peer that was let in has ended, whoever closed it.
        virtual void ended(const Connection& connection) = 0;
        /// A peer was refused. `reason` is for people.
        virtual void refused(const std::string& reason) = 0;
    };

    /// Errors:  those of tcp_listen()
    [[nodiscard]] static Result<std::unique_ptr<RendezvousListener>> open(
        const HostPort& at, const std::optional<transport::Secret>& secret, const Clock& clock);

    /// The port it listens on: the port asked for, or the one that the kernel chose for 0.
    [[nodiscard]] uint16_t port() const noexcept { return port_; }

    /// An address that it listens on and other hosts may reach; unset: there is none, or it listens
    /// on all addresses.
    [[nodiscard]] transport::SocketAddress reached_at() const;

    /// Waits at most so long until there is something to do, and does it. Returns 0 if there was
    /// nothing.
    size_t poll(Owner& owner, int wait_ms);

    /// A descriptor that becomes readable when poll() has something to do, deadlines aside.
    [[nodiscard]] int arm(Owner& owner);

    /// The connection stays as long as its peer likes: it needs no place any more.
    void keep(const Connection& connection) { places_.leave(connection.id); }

    /// Closes the connections of peers that were let in, without telling the owner.
    void close_admitted();

    [[nodiscard]] bool has_output();

private:
    RendezvousListener(const std::optional<transport::Secret>& secret, const Clock& clock,
                       std::vector<Descriptor> sockets, transport::Watcher watcher)
        : clock_(clock),
          secret_(secret),
          sockets_(std::move(sockets)),
          watcher_(std::move(watcher)) {}

    void watch_all(Owner& owner);
    [[nodiscard]] bool watch(Connection& connection);
    void accept_connections(Owner& owner, const Descriptor& from);
    void drop_late(Owner& owner);
    void free_a_place(Owner& owner);
    [[nodiscard]] std::list<Connection>::iterator find(uint64_t id);
    /// Reads and writes; false if the connection is to be closed.
    bool serve(Owner& owner, Connection& connection);
    [[nodiscard]] Status read(Owner& owner, Connection& connection);
    [[nodiscard]] Status shake(Owner& owner, Connection& connection,
                               const transport::RecordView& record);
    void refuse_unproven(Owner& owner, Connection& connection);
    void refuse(Owner& owner, Connection& connection, const std::string& reason);
    std::list<Connection>::iterator close(Owner& owner, std::list<Connection>::iterator connection);
    /// Logs a line that peers can cause any number of times: a connection that was closed or could
    /// not be accepted. Later lines of the same `reason` are counted and summed up.
    void warn_repeatable(std::string_view reason, std::string_view line);

    const Clock& clock_;
    std::optional<transport::Secret> secret_;
    std::vector<Descriptor> sockets_;  ///< one of each address
    uint16_t port_ = 0;
    transport::Watcher watcher_;
    std::optional<transport::Watcher::For> watched_;  ///< what sockets_ are watched for
    std::list<Connection> connections_;
    uint64_t last_id_ = 0;  ///< of a connection
    transport::HalfOpenPlaces places_{clock_, kUnkeptMax, kHandshakeTimeoutNs};
};

/// "rank 3", or "the newcomer"; for messages to people.
[[nodiscard]] std::string name_of(const RendezvousHello& hello);

}  // namespace weir::boot
