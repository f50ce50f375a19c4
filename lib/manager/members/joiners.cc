// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/joiners.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace weir {
namespace {

template <class Joiner>
std::optional<Joiner> take_ticket(std::vector<Joiner>& joiners, uint64_t ticket) {
    const auto at = std::ranges::find(joiners, ticket, &Joiner::ticket);
    if (at == joiners.end()) return std::nullopt;
    Joiner taken = std::move(*at);
    joiners.erase(at);
    return taken;
}

Status check_joining_shard(const JoinMessage& message) {
    if (message.shard_count == 0 || message.shard_count > Joiners::kShardsMax ||
        message.number >= message.shard_count || message.address.empty()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("shard {} of {} at '{}' cannot be a shard of a server that joins",
                                 message.number, message.shard_count, message.address));
    }
    return {};
}

}  // namespace

Result<const Joiners::Server*> Joiners::add_shard(ConnectionId connection,
                                                  const JoinMessage& message, uint64_t now_ns) {
    WEIR_TRY(check_joining_shard(message));
    auto at = std::ranges::find(servers_, message.joiner, &Server::joiner);
    if (at == servers_.end()) {
        if (servers_.size() == kServersMax) {
            return Error(Errc::kBusy, fmt::format("{} servers are joining this job already; try "
                                                  "again in a while",
                                                  kServersMax));
        }
        Server& server = servers_.emplace_back();
        server.ticket = ++last_ticket_;
        server.joiner = message.joiner;
        server.since_ns = now_ns;
        server.pool_bytes = message.pool_bytes;
        server.host_name = message.host_name;
        server.is = {next_rank_++, message.host, message.weight, {}};
        server.is.addresses.resize(message.shard_count);
        server.shards.resize(message.shard_count);
        at = servers_.end() - 1;
    }
    if (at->shards.size() != message.shard_count || at->is.weight != message.weight ||
        at->is.host != message.host || at->shards[message.number] != 0) {
        return Error(Errc::kAlreadyExists,
                     fmt::format("shard {} of the joining server at rank {} has asked already, or "
                                 "is not of one server with the others",
                                 message.number, at->is.rank));
    }
    at->shards[message.number] = connection;
    at->is.addresses[message.number] = message.address;
    at->is_complete = std::ranges::find(at->shards, ConnectionId{0}) == at->shards.end();
    return at->is_complete ? &*at : nullptr;
}

Result<Joiners::Worker> Joiners::add_worker(ConnectionId connection, const JoinMessage& message) {
    if (workers_.size() == kWorkersMax) {
        return Error(Errc::kBusy, fmt::format("{} workers are joining this job already; try again "
                                              "in a while",
                                              kWorkersMax));
    }
    workers_.push_back({++last_ticket_, connection, next_rank_++, message.has_iterations});
    return workers_.back();
}

std::optional<Joiners::Server> Joiners::take_server(uint64_t ticket) {
    return take_ticket(servers_, ticket);
}

std::optional<Joiners::Worker> Joiners::take_worker(uint64_t ticket) {
    return take_ticket(workers_, ticket);
}

void Joiners::mark_known(uint64_t ticket) {
    const auto at = std::ranges::find(servers_, ticket, &Server::ticket);
    if (at != servers_.end()) at->is_known = true;
}

uint64_t Joiners::ticket_of(ConnectionId connection) const {
    for (const Server& server : servers_) {
        if (std::ranges::find(server.shards, connection) != server.shards.end())
            return server.ticket;
    }
    const auto worker = std::ranges::find(workers_, connection, &Worker::connection);
    return worker == workers_.end() ? 0 : worker->ticket;
}

const Joiners::Server* Joiners::incomplete_since(uint64_t since_ns) const {
    const auto at = std::ranges::find_if(servers_, [&](const Server& server) {
        return !server.is_complete && server.since_ns < since_ns;
    });
    return at == servers_.end() ? nullptr : &*at;
}

}  // namespace weir
