// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous_server.h"

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/bootstrap/rendezvous/open_rendezvous.h"
#include "lib/bootstrap/rendezvous/socket.h"

namespace weir::boot {

using transport::SocketAddress;

namespace {

constexpr uint64_t kTellIntervalNs = 500 * kMillisecond;
constexpr size_t kRefusalsMax = 4;

}  // namespace

RendezvousServer::RendezvousServer(RendezvousOptions options, const Clock& clock,
                                   std::unique_ptr<RendezvousListener> listener)
    : clock_(clock),
      options_(std::move(options)),
      listener_(std::move(listener)),
      ranks_(options_.size) {}

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::open(RendezvousOptions options,
                                                                 const Clock& clock) {
    WEIR_ASSIGN(auto listener, RendezvousListener::open(options.at, options.secret, clock));
    options.at.port = listener->port();
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
    std::unique_ptr<RendezvousServer> server(
        new RendezvousServer(std::move(options), clock, std::move(listener)));
    server->met_at_ = server->listener_->reached_at();
    return server;
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
    listener_.reset();
    return {};
}

Result<std::unique_ptr<OpenRendezvous>> RendezvousServer::stay_open(const Contact& contact) {
    if (!listener_) return std::unique_ptr<OpenRendezvous>();
    listener_->close_admitted();
    return std::make_unique<OpenRendezvous>(std::move(listener_), options_.secret.has_value(),
                                            contact);
}

Status RendezvousServer::exchange(uint64_t deadline_ns) {
    if (!listener_)
        return Error(Errc::kCancelled, "rendezvous: used after finish() or after an error");
    ranks_[0].committed = true;
    while (!missing().empty()) {
        if (!lost_.empty()) return fail(Errc::kPeerLost, lost_);
        if (clock_.now_ns() >= deadline_ns) return fail(Errc::kDeadline, missing_text());
        listener_->poll(*this, poll_slice_ms(clock_, deadline_ns));
        tell_waiting();
    }
    release();
    flush_all(deadline_ns);
    return {};
}

Status RendezvousServer::check(const RendezvousHello& hello) {
    const auto refused = [](const std::string& why) { return Error(Errc::kRefused, why); };
    if (hello.role != RendezvousHello::Role::kRank) {
        return refused("the job has not begun yet: not all of its ranks are here; try again");
    }
    if (hello.size != options_.size) {
        return refused(
            fmt::format("rank {} was started with size {}, rank 0 with size {}: give the "
                        "same --size to all ranks",
                        hello.rank, hello.size, options_.size));
    }
    if (hello.rank == 0 || hello.rank >= options_.size) {
        return refused(
            fmt::format("rank {} is not a rank of this job: its other ranks are 1 "
                        "to {}; check --rank and --size",
                        hello.rank, options_.size - 1));
    }
    const RankState& state = ranks_[hello.rank];
    if (state.connection != nullptr) {
        return refused(
            fmt::format("rank {} has joined already, from {}: give each process its own --rank",
                        hello.rank, state.connection->link.peer()));
    }
    if (round_ > 1) {
        return refused(
            fmt::format("rank {} cannot join again: it left after the first "
                        "exchange; start all ranks again",
                        hello.rank));
    }
    return {};
}

void RendezvousServer::admitted(Connection& connection) {
    listener_->keep(connection);
    ranks_[connection.hello.rank].connection = &connection;
    const SocketAddress own = connection.link.own_address();
    const bool is_of_here = own.is_loopback() || own.same_host(connection.link.peer_address());
    if (has_met_others_ || is_of_here || own.is_link_local()) return;
    has_met_others_ = true;
    met_at_ = own;
    met_at_.set_port(0);
}

Status RendezvousServer::take(Connection& connection, const RendezvousMessage& message) {
    if (message.kind == RendezvousKind::kEntry) return take_entry(connection, message);
    RankState& state = ranks_[connection.hello.rank];
    if (message.kind == RendezvousKind::kCommit && message.round == round_ && !state.committed) {
        state.committed = true;
        return {};
    }
    return Error(Errc::kProtocol, "a rendezvous message that is not expected now");
}

Status RendezvousServer::take_entry(const Connection& connection, const RendezvousMessage& entry) {
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

bool RendezvousServer::may_end(const Connection& /*connection*/) const {
    return round_ > 1;
}

void RendezvousServer::ended(const Connection& connection) {
    ranks_[connection.hello.rank] = {};
    if (round_ > 1) {
        lost_ = fmt::format("rank {} ({}) left after the first exchange", connection.hello.rank,
                            connection.link.peer());
    }
}

void RendezvousServer::refused(const std::string& reason) {
    if (refusals_.size() < kRefusalsMax) refusals_.push_back(reason);
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
    for (RankState& state : ranks_) {
        if (state.connection != nullptr) {
            if (!bytes->empty()) state.connection->link.queue(bytes);
            state.connection->link.queue({.kind = RendezvousKind::kRelease, .round = round_});
        }
        state.committed = false;
        state.entries.clear();
        state.entry_bytes = 0;
    }
    ++round_;
}

void RendezvousServer::flush_all(uint64_t deadline_ns) {
    while (listener_->has_output() && clock_.now_ns() < deadline_ns)
        listener_->poll(*this, poll_slice_ms(clock_, deadline_ns));
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
