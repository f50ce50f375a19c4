// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous_server.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include "lib/base/log.h"

namespace weir::boot {

using transport::Handshake;

namespace {

constexpr uint64_t kTellIntervalNs = 500 * kMillisecond;
constexpr size_t kRefusalsMax = 4;

}  // namespace

RendezvousServer::RendezvousServer(RendezvousOptions options, const Clock& clock,
                                   Descriptor listener)
    : clock_(clock),
      options_(std::move(options)),
      listener_(std::move(listener)),
      ranks_(options_.size) {
    ranks_[0].host = options_.host_id;
}

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::open(RendezvousOptions options,
                                                                 const Clock& clock) {
    WEIR_ASSIGN(Descriptor listener, tcp_listen(options.at));
    options.at.port = tcp_port(listener);  // the one that the kernel chose, if 0 was asked for
    if (!options.secret) {
        log(LogLevel::kWarning,
            "rendezvous on {} without a secret: any {} can join this job{}; give all ranks the "
            "same WEIR_SECRET_FILE (make one with: umask 077; head -c 32 /dev/urandom | base64 > "
            "FILE)",
            options.at.text(),
            is_loopback(options.at.host) ? "process of this host"
                                         : "process that can connect to this address",
            is_loopback(options.at.host) ? ""
                                         : ", and any program that can read the network traffic "
                                           "learns the secret that rank 0 hands out");
    }
    return std::unique_ptr<RendezvousServer>(
        new RendezvousServer(std::move(options), clock, std::move(listener)));
}

Status RendezvousServer::put(std::string_view key, std::string_view value) {
    WEIR_TRY(check_entry(key, value));
    ranks_[0].entries.emplace_back(key, value);
    return {};
}

Result<std::string> RendezvousServer::get(uint32_t rank, std::string_view key) {
    const auto found = values_.find({rank, std::string(key)});
    if (found == values_.end()) {
        return Error(Errc::kNotFound, fmt::format("rank {} published no {}", rank, key));
    }
    return found->second;
}

Status RendezvousServer::finish() {
    over_ = true;
    connections_.clear();
    listener_.reset();
    return {};
}

Status RendezvousServer::exchange(uint64_t deadline_ns) {
    if (over_) return Error(Errc::kCancelled, "rendezvous: used after finish() or after an error");
    ranks_[0].committed = true;
    while (!missing().empty()) {
        if (!lost_.empty()) return fail(Errc::kPeerLost, lost_);
        if (clock_.now_ns() >= deadline_ns) return fail(Errc::kDeadline, missing_text());
        poll_once(deadline_ns);
        tell_waiting();
    }
    release();
    flush_all(deadline_ns);
    return {};
}

void RendezvousServer::poll_once(uint64_t deadline_ns) {
    std::vector<pollfd> entries;
    // without a place for them, peers wait in the kernel's backlog
    const bool has_place = clock_.now_ns() >= places_.next_ns();
    entries.push_back({listener_.get(), static_cast<short>(has_place ? POLLIN : 0), 0});
    for (Connection& connection : connections_) {
        const short events = connection.stage == Stage::kLeaving ? 0 : POLLIN;
        entries.push_back(
            {connection.link.fd(),
             static_cast<short>(events | (connection.link.has_output() ? POLLOUT : 0)), 0});
    }
    if (::poll(entries.data(), entries.size(), poll_slice_ms(clock_, deadline_ns)) > 0) {
        auto connection = connections_.begin();
        for (size_t i = 1; i < entries.size(); ++i) {
            const auto here = connection++;
            if (entries[i].revents != 0 && !serve(*here, entries[i].revents)) {
                close(*here);
                connections_.erase(here);
            }
        }
        if (entries[0].revents != 0) accept_connections();
    }
    drop_late();
    places_.log().look();
}

void RendezvousServer::accept_connections() {
    while (clock_.now_ns() >= places_.next_ns()) {
        Descriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd) {
            if (errno == EMFILE || errno == ENFILE) {
                warn_repeatable(
                    "descriptors",
                    "rendezvous: out of file descriptors; raise the limit with ulimit -n");
                (void)::poll(nullptr, 0, 10);  // the connection stays in the queue: do not spin
            }
            return;
        }
        if (places_.is_full()) free_a_place();
        Connection& connection = connections_.emplace_back(
            transport::Socket(std::move(fd), kSilenceMsMax), options_.secret);
        connection.id = ++last_id_;
        places_.take(connection.id);
    }
}

/// Closes the connection that loses its place to the next one.
void RendezvousServer::free_a_place() {
    const std::optional<uint64_t> evicted = places_.next_evicted();
    const auto connection = evicted ? find(*evicted) : connections_.end();
    if (connection == connections_.end()) return;
    const bool stays = serve(*connection, POLLIN);  // if we were late, its proof may be here
    if (stays && connection->stage == Stage::kJoined) return;
    if (stays && connection->stage == Stage::kHandshake) {
        warn_repeatable(
            transport::HalfOpenPlaces::kEvictedText,
            fmt::format("rendezvous: closed the connection from {}: {}", connection->link.peer(),
                        transport::HalfOpenPlaces::kEvictedText));
        connection->link.handshake().refuse(Errc::kDeadline, transport::HalfOpenPlaces::kRetryText);
        (void)connection->link.flush();
    }
    close(*connection);
    connections_.erase(connection);
}

void RendezvousServer::drop_late() {
    while (const std::optional<uint64_t> late = places_.late()) {
        const auto connection = find(*late);
        warn_repeatable("late",
                        fmt::format("rendezvous: closed the connection from {}: the handshake took "
                                    "longer than {} s",
                                    connection->link.peer(), kHandshakeTimeoutNs / kSecond));
        close(*connection);
        connections_.erase(connection);
    }
}

std::list<RendezvousServer::Connection>::iterator RendezvousServer::find(uint64_t id) {
    return std::ranges::find(connections_, id, &Connection::id);
}

bool RendezvousServer::serve(Connection& connection, short events) {
    Status status;
    if ((events & ~POLLOUT) != 0 && connection.stage != Stage::kLeaving) {
        status = connection.link.fill();
        while (status && connection.stage != Stage::kLeaving) {
            auto record = connection.link.next();
            if (!record) {
                status = std::move(record).error();
            } else if (!record->has_value()) {
                break;
            } else {
                status = handle(connection, **record);
            }
        }
    }
    if (status) status = connection.link.flush();
    if (status) return connection.stage != Stage::kLeaving || connection.link.has_output();
    const bool expected = connection.stage != Stage::kJoined || round_ > 1;
    if (status.code() == Errc::kPeerLost && expected) {
        log(LogLevel::kDebug, "rendezvous: {} left", connection.link.peer());
    } else {
        const std::string why = status.error().message();
        warn_repeatable(why, fmt::format("rendezvous: closed the connection from {}: {}",
                                         connection.link.peer(), why));
    }
    return false;
}

Status RendezvousServer::handle(Connection& connection, const transport::RecordView& record) {
    if (!connection.link.handshake().is_open()) return shake(connection, record);
    WEIR_ASSIGN(const RendezvousMessage message, decode_message(record));
    if (message.kind == RendezvousKind::kEntry) return take_entry(connection, message);
    RankState& state = ranks_[connection.hello.rank];
    if (message.kind == RendezvousKind::kCommit && message.round == round_ && !state.committed) {
        state.committed = true;
        return {};
    }
    return Error(Errc::kProtocol, "a rendezvous message that is not expected now");
}

Status RendezvousServer::shake(Connection& connection, const transport::RecordView& record) {
    Handshake& handshake = connection.link.handshake();
    const Result<Handshake::Step> step = handshake.take(record);
    const auto hello = RendezvousHello::decode(handshake.peer_payload());
    if (hello) connection.hello = *hello;
    if (step.code() == Errc::kRefused && !handshake.was_refused() && hello) {
        refuse_unproven(connection);
        return {};
    }
    WEIR_TRY(step);
    if (*step != Handshake::Step::kProven) return {};
    if (!hello) return Error(Errc::kProtocol, "a handshake without a rank number");
    return admit(connection);
}

void RendezvousServer::refuse_unproven(Connection& connection) {
    constexpr const char* kAdvice = "give the same WEIR_SECRET_FILE to all ranks";
    const uint32_t rank = connection.hello.rank;
    if (connection.hello.secured == options_.secret.has_value()) {
        refuse(connection,
               fmt::format("rank {} has another secret than rank 0: {}", rank, kAdvice));
    } else if (options_.secret) {
        refuse(connection, fmt::format("rank {} has no secret, rank 0 has: {}", rank, kAdvice));
    } else {
        refuse(connection, fmt::format("rank {} has a secret, rank 0 has none: {}", rank, kAdvice));
    }
}

Status RendezvousServer::admit(Connection& connection) {
    const RendezvousHello& hello = connection.hello;
    if (hello.secured != options_.secret.has_value()) {
        refuse_unproven(connection);
    } else if (hello.size != options_.size) {
        refuse(connection,
               fmt::format("rank {} was started with size {}, rank 0 with size {}: give the "
                           "same --size to all ranks",
                           hello.rank, hello.size, options_.size));
    } else if (hello.rank == 0 || hello.rank >= options_.size) {
        refuse(connection, fmt::format("rank {} is not a rank of this job: its other ranks are 1 "
                                       "to {}; check --rank and --size",
                                       hello.rank, options_.size - 1));
    } else if (const Connection* const other = ranks_[hello.rank].connection; other != nullptr) {
        refuse(connection,
               fmt::format("rank {} has joined already, from {}: give each process its own --rank",
                           hello.rank, other->link.peer()));
    } else if (!ranks_[hello.rank].host.empty() && round_ > 1) {
        refuse(connection, fmt::format("rank {} cannot join again: it left after the first "
                                       "exchange; start all ranks again",
                                       hello.rank));
    } else {
        connection.stage = Stage::kJoined;
        places_.leave(connection.id);
        connection.link.trust();
        ranks_[hello.rank].connection = &connection;
        ranks_[hello.rank].host = hello.host;
        connection.link.handshake().send_payload({});
    }
    return {};
}

Status RendezvousServer::take_entry(Connection& connection, const RendezvousMessage& entry) {
    RankState& state = ranks_[connection.hello.rank];
    if (entry.rank != connection.hello.rank || state.committed) {
        return Error(Errc::kProtocol, "a rendezvous message that is not expected now");
    }
    WEIR_TRY(check_entry(entry.key, entry.text));
    state.entry_bytes += entry.key.size() + entry.text.size();
    if (state.entry_bytes > kRoundBytesMax) {
        return Error(Errc::kOutOfRange, fmt::format("rank {} put more than {} bytes",
                                                    connection.hello.rank, kRoundBytesMax));
    }
    state.entries.emplace_back(entry.key, entry.text);
    return {};
}

void RendezvousServer::refuse(Connection& connection, const std::string& reason) {
    warn_repeatable(reason,
                    fmt::format("rendezvous: refused {}: {}", connection.link.peer(), reason));
    if (refusals_.size() < kRefusalsMax) refusals_.push_back(reason);
    connection.link.handshake().refuse(Errc::kRefused, reason);
    connection.stage = Stage::kLeaving;
}

void RendezvousServer::close(Connection& connection) {
    places_.leave(connection.id);
    if (connection.stage != Stage::kJoined) return;
    RankState& state = ranks_[connection.hello.rank];
    state = RankState{.host = std::move(state.host)};
    if (round_ > 1) {
        lost_ = fmt::format("rank {} ({}) left after the first exchange", connection.hello.rank,
                            connection.link.peer());
    }
}

void RendezvousServer::warn_repeatable(std::string_view reason, std::string_view line) {
    places_.log().log(LogLevel::kWarning, reason, line);
}

std::vector<uint32_t> RendezvousServer::missing() const {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        if (!ranks_[rank].committed) ranks.push_back(rank);
    }
    return ranks;
}

std::string RendezvousServer::missing_text() const {
    std::string text = fmt::format(
        "{} of {} did not connect to {} in time: start them with the same --rendezvous and --size, "
        "or "
        "raise WEIR_JOIN_TIMEOUT_S",
        rank_list(missing()), options_.size, options_.at.text());
    for (const std::string& refusal : refusals_)
        text += fmt::format("; refused: {}", refusal);
    return text;
}

void RendezvousServer::tell_waiting() {
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns < tell_at_ns_) return;
    tell_at_ns_ = now_ns + kTellIntervalNs;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(
        encode({.kind = RendezvousKind::kWaiting, .text = missing_text()}));
    for (const RankState& state : ranks_) {
        if (state.committed && state.connection != nullptr &&
            !state.connection->link.has_output()) {
            state.connection->link.queue(bytes);
        }
    }
}

void RendezvousServer::release() {
    std::vector<std::byte> all;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        for (auto& [key, value] : ranks_[rank].entries) {
            const std::vector<std::byte> entry =
                encode({.kind = RendezvousKind::kEntry, .rank = rank, .key = key, .text = value});
            all.insert(all.end(), entry.begin(), entry.end());
            values_[{rank, std::move(key)}] = std::move(value);
        }
    }
    const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(all));
    std::map<std::string, uint32_t> ranks_on_host;
    for (RankState& state : ranks_) {
        const uint32_t local_rank = ranks_on_host[state.host]++;
        if (state.connection != nullptr) {
            if (!bytes->empty()) state.connection->link.queue(bytes);
            state.connection->link.queue(
                {.kind = RendezvousKind::kRelease, .round = round_, .local_rank = local_rank});
        }
        state.committed = false;
        state.entries.clear();
        state.entry_bytes = 0;
    }
    ++round_;
}

void RendezvousServer::flush_all(uint64_t deadline_ns) {
    const auto busy = [](Connection& connection) { return connection.link.has_output(); };
    while (std::any_of(connections_.begin(), connections_.end(), busy) &&
           clock_.now_ns() < deadline_ns) {
        poll_once(deadline_ns);
    }
}

Error RendezvousServer::fail(Errc code, const std::string& reason) {
    for (const RankState& state : ranks_) {
        if (state.connection == nullptr) continue;
        state.connection->link.queue({.kind = RendezvousKind::kFailed, .text = reason});
    }
    flush_all(clock_.now_ns() + kTellIntervalNs);
    (void)finish();
    return {code, fmt::format("rendezvous: {}", reason)};
}

}  // namespace weir::boot
