// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Joiners: the servers and workers that ask to join a running job, until they are admitted or
/// turned away. The shards of a server ask one by one; they are put together here.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/ring/plan.h"
#include "lib/wire/messages.h"
#include "transport/transport.h"

namespace weir {

/// Thread: the manager's
class Joiners {
public:
    using ConnectionId = transport::ConnectionId;

    /// Limits of what may wait at a time; more are turned away.
    static constexpr size_t kServersMax = 64;
    static constexpr size_t kWorkersMax = 1024;
    static constexpr uint32_t kShardsMax = 1024;  ///< of one server

    struct Server {
        uint64_t ticket = 0;
        uint64_t joiner = 0;  ///< the number by which its shards find together
        uint64_t since_ns = 0;
        uint64_t pool_bytes = 0;
        std::string host_name;
        NewServer is;                      ///< `addresses` by place
        std::vector<ConnectionId> shards;  ///< by place; 0: has not asked yet
        bool is_complete = false;          ///< all shards have asked
        bool is_known = false;             ///< Membership has been told of it
    };

    struct Worker {
        uint64_t ticket = 0;
        ConnectionId connection = 0;
        uint32_t rank = 0;
        bool has_iterations = true;
    };

    /// `next_rank`: of the next process that joins.
    explicit Joiners(uint32_t next_rank) noexcept : next_rank_(next_rank) {}

    /// A shard asks. The server is returned once all its shards have; valid until the next call.
    ///
    /// Errors: for the shard, why it cannot join; nothing was taken
    [[nodiscard]] Result<const Server*> add_shard(ConnectionId connection,
                                                  const JoinMessage& message, uint64_t now_ns);

    /// A worker asks.
    [[nodiscard]] Result<Worker> add_worker(ConnectionId connection, const JoinMessage& message);

    /// It is admitted or turned away: it is not waiting any more. Nothing if there is none.
    [[nodiscard]] std::optional<Server> take_server(uint64_t ticket);
    [[nodiscard]] std::optional<Worker> take_worker(uint64_t ticket);

    /// Membership has been told of this server.
    void mark_known(uint64_t ticket);

    /// The one to which the connection belongs. 0: none.
    [[nodiscard]] uint64_t ticket_of(ConnectionId connection) const;

    /// A server of which some shards have asked, but not all, and that before `since_ns`.
    [[nodiscard]] const Server* incomplete_since(uint64_t since_ns) const;

    [[nodiscard]] const std::vector<Server>& servers() const noexcept { return servers_; }

    [[nodiscard]] const std::vector<Worker>& workers() const noexcept { return workers_; }

private:
    uint64_t last_ticket_ = 0;
    uint32_t next_rank_;
    std::vector<Server> servers_;
    std::vector<Worker> workers_;
};

}  // namespace weir
