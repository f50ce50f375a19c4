// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_listener.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include "lib/base/log.h"
#include "lib/bootstrap/rendezvous/socket.h"

namespace weir::boot {

using transport::Handshake;
using For = transport::Watcher::For;

namespace {

constexpr uint64_t kListenerName = 0;  // of the listening sockets in the watcher; ids count from 1
constexpr uint64_t kNoAlarmName = ~uint64_t{0};

}  // namespace

std::string name_of(const RendezvousHello& hello) {
    return hello.role == RendezvousHello::Role::kRank ? fmt::format("rank {}", hello.rank)
                                                      : "the newcomer";
}

Result<std::unique_ptr<RendezvousListener>> RendezvousListener::open(
    const HostPort& at, const std::optional<transport::Secret>& secret, const Clock& clock) {
    WEIR_ASSIGN(std::vector<Descriptor> sockets, tcp_listen(at));
    WEIR_ASSIGN(transport::Watcher watcher, transport::Watcher::make(kNoAlarmName));
    const uint16_t port = tcp_port(sockets.front());
    auto listener = std::unique_ptr<RendezvousListener>(
        new RendezvousListener(secret, clock, std::move(sockets), std::move(watcher)));
    listener->port_ = port;
    return listener;
}

transport::SocketAddress RendezvousListener::reached_at() const {
    for (const Descriptor& socket : sockets_) {
        transport::SocketAddress own = transport::SocketAddress::own(socket.get());
        own.set_port(0);
        if (!own.is_any() && !own.is_loopback() && !own.is_link_local()) return own;
    }
    return {};
}

size_t RendezvousListener::poll(Owner& owner, int wait_ms) {
    watch_all(owner);
    if (wait_ms > 0) {
        pollfd entry{watcher_.fd(), POLLIN, 0};
        (void)::poll(&entry, 1, wait_ms);
    }
    std::array<uint64_t, 32> names;
    const size_t count = watcher_.ready(names);
    bool has_new = false;
    for (const uint64_t name : std::span(names).first(count)) {
        if (name == kListenerName) has_new = true;
        const auto connection = find(name);
        if (connection != connections_.end() && !serve(owner, *connection))
            close(owner, connection);
    }
    if (has_new) {
        for (const Descriptor& socket : sockets_)
            accept_connections(owner, socket);
    }
    drop_late(owner);
    places_.log().look();
    return count;
}

int RendezvousListener::arm(Owner& owner) {
    watch_all(owner);
    return watcher_.fd();
}

void RendezvousListener::watch_all(Owner& owner) {
    // without a place for them, peers wait in the kernel's backlog
    const For wanted = clock_.now_ns() >= places_.next_ns() ? For::kInput : For::kNothing;
    if (watched_ != wanted && std::ranges::all_of(sockets_, [&](const Descriptor& socket) {
            return watcher_.watch(socket.get(), kListenerName, wanted).has_value();
        })) {
        watched_ = wanted;
    }
    for (auto connection = connections_.begin(); connection != connections_.end();)
        connection = watch(*connection) ? std::next(connection) : close(owner, connection);
}

bool RendezvousListener::watch(Connection& connection) {
    const For wanted = connection.link.has_output() ? For::kInputAndOutput : For::kInput;
    if (connection.watched == wanted) return true;
    connection.watched = wanted;
    const Status watched = watcher_.watch(connection.link.fd(), connection.id, wanted);
    if (!watched) {
        const std::string why = watched.error().message();
        warn_repeatable(why, fmt::format("rendezvous: closed the connection from {}: {}",
                                         connection.link.peer(), why));
    }
    return watched.has_value();
}

void RendezvousListener::accept_connections(Owner& owner, const Descriptor& from) {
    while (clock_.now_ns() >= places_.next_ns()) {
        Descriptor fd(::accept4(from.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd) {
            if (errno == EMFILE || errno == ENFILE) {
                warn_repeatable(
                    "descriptors",
                    "rendezvous: out of file descriptors; raise the limit with ulimit -n");
                (void)::poll(nullptr, 0, 10);  // the connection stays in the queue: do not spin
            }
            return;
        }
        if (places_.is_full()) free_a_place(owner);
        Connection& connection =
            connections_.emplace_back(transport::Socket(std::move(fd), kSilenceMsMax), secret_);
        connection.id = ++last_id_;
        places_.take(connection.id);
    }
}

/// Closes the connection that loses its place to the next one.
void RendezvousListener::free_a_place(Owner& owner) {
    const std::optional<uint64_t> evicted = places_.next_evicted();
    const auto connection = evicted ? find(*evicted) : connections_.end();
    if (connection == connections_.end()) return;
    const bool stays = serve(owner, *connection);  // if we were late, its proof may be here
    if (stays && !places_.is_full()) return;
    if (stays && connection->stage == Stage::kHandshake) {
        warn_repeatable(
            transport::HalfOpenPlaces::kEvictedText,
            fmt::format("rendezvous: closed the connection from {}: {}", connection->link.peer(),
                        transport::HalfOpenPlaces::kEvictedText));
        connection->link.handshake().refuse(Errc::kDeadline, transport::HalfOpenPlaces::kRetryText);
        (void)connection->link.flush();
    }
    close(owner, connection);
}

void RendezvousListener::drop_late(Owner& owner) {
    while (const std::optional<uint64_t> late = places_.late()) {
        const auto connection = find(*late);
        warn_repeatable("late",
                        fmt::format("rendezvous: closed the connection from {}: it was not through "
                                    "within {} s",
                                    connection->link.peer(), kHandshakeTimeoutNs / kSecond));
        close(owner, connection);
    }
}

std::list<RendezvousListener::Connection>::iterator RendezvousListener::find(uint64_t id) {
    return std::ranges::find(connections_, id, &Connection::id);
}

bool RendezvousListener::serve(Owner& owner, Connection& connection) {
    Status status = read(owner, connection);
    if (!status && status.code() == Errc::kProtocol && connection.stage == Stage::kHandshake) {
        // It may be another version of Weir, which reads at least this record's version.
        connection.link.handshake().refuse(
            Errc::kRefused, "this is not what the rendezvous of this version of Weir expects");
        (void)connection.link.flush();
    }
    if (status) status = connection.link.flush();
    if (status) return connection.stage != Stage::kLeaving || connection.link.has_output();
    const bool may_end = connection.stage != Stage::kAdmitted || owner.may_end(connection);
    if (status.code() == Errc::kPeerLost && may_end) {
        log(LogLevel::kDebug, "rendezvous: {} left", connection.link.peer());
    } else {
        const std::string why = status.error().message();
        warn_repeatable(why, fmt::format("rendezvous: closed the connection from {}: {}",
                                         connection.link.peer(), why));
    }
    return false;
}

Status RendezvousListener::read(Owner& owner, Connection& connection) {
    if (connection.stage == Stage::kLeaving) return {};
    WEIR_TRY(connection.link.fill());
    while (connection.stage != Stage::kLeaving) {
        WEIR_ASSIGN(const std::optional<transport::RecordView> record, connection.link.next());
        if (!record) break;
        if (!connection.link.handshake().is_open()) {
            WEIR_TRY(shake(owner, connection, *record));
        } else {
            WEIR_ASSIGN(const RendezvousMessage message, decode_message(*record));
            WEIR_TRY(owner.take(connection, message));
        }
    }
    return {};
}

Status RendezvousListener::shake(Owner& owner, Connection& connection,
                                 const transport::RecordView& record) {
    Handshake& handshake = connection.link.handshake();
    const Result<Handshake::Step> step = handshake.take(record);
    const auto hello = RendezvousHello::decode(handshake.peer_payload());
    if (hello) connection.hello = *hello;
    if (step.code() == Errc::kRefused && !handshake.was_refused() && hello) {
        refuse_unproven(owner, connection);
        return {};
    }
    WEIR_TRY(step);
    if (*step != Handshake::Step::kProven) return {};
    if (!hello) return Error(Errc::kProtocol, "a handshake without a rank number");
    if (hello->secured != secret_.has_value()) {
        refuse_unproven(owner, connection);
        return {};
    }
    if (const Status allowed = owner.check(*hello); !allowed) {
        refuse(owner, connection, std::string(allowed.error().text()));
        return {};
    }
    connection.stage = Stage::kAdmitted;
    connection.link.trust();
    handshake.send_payload({});
    owner.admitted(connection);
    return {};
}

void RendezvousListener::refuse_unproven(Owner& owner, Connection& connection) {
    const bool is_rank = connection.hello.role == RendezvousHello::Role::kRank;
    const char* const advice = is_rank ? "give the same WEIR_SECRET_FILE to all ranks"
                                       : "use the WEIR_SECRET_FILE of the job";
    const std::string who = name_of(connection.hello);
    if (connection.hello.secured == secret_.has_value()) {
        refuse(owner, connection,
               fmt::format("{} has another secret than rank 0: {}", who, advice));
    } else if (secret_) {
        refuse(owner, connection, fmt::format("{} has no secret, rank 0 has: {}", who, advice));
    } else {
        refuse(owner, connection,
               fmt::format("{} has a secret, rank 0 has none: {}", who,
                           is_rank ? advice : "unset WEIR_SECRET_FILE"));
    }
}

void RendezvousListener::refuse(Owner& owner, Connection& connection, const std::string& reason) {
    warn_repeatable(reason,
                    fmt::format("rendezvous: refused {}: {}", connection.link.peer(), reason));
    owner.refused(reason);
    connection.link.handshake().refuse(Errc::kRefused, reason);
    connection.stage = Stage::kLeaving;
}

std::list<RendezvousListener::Connection>::iterator RendezvousListener::close(
    Owner& owner, std::list<Connection>::iterator connection) {
    places_.leave(connection->id);
    watcher_.forget(connection->link.fd());
    if (connection->stage == Stage::kAdmitted) owner.ended(*connection);
    return connections_.erase(connection);
}

void RendezvousListener::close_admitted() {
    std::erase_if(connections_, [&](Connection& connection) {
        if (connection.stage != Stage::kAdmitted) return false;
        places_.leave(connection.id);
        watcher_.forget(connection.link.fd());
        return true;
    });
}

bool RendezvousListener::has_output() {
    return std::ranges::any_of(connections_, [](Connection& one) { return one.link.has_output(); });
}

void RendezvousListener::warn_repeatable(std::string_view reason, std::string_view line) {
    places_.log().log(LogLevel::kWarning, reason, line);
}

}  // namespace weir::boot
