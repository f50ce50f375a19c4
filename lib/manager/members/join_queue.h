// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JoinQueue: the servers and workers that have asked Membership to join, and are not admitted yet.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/ring/plan.h"
#include "lib/ring/view.h"

namespace weir {

struct NewWorker {
    uint32_t rank = 0;
    bool has_iterations = true;  ///< false: it takes part in no iteration of any table
};

/// In the order in which they asked. A ticket is the caller's name for one of them.
///
/// Thread: one
class JoinQueue {
public:
    struct Server {
        uint64_t ticket;
        NewServer server;
    };

    struct Worker {
        uint64_t ticket;
        NewWorker worker;
    };

    /// For a job as in `view`.
    /// Errors: those of Membership::join_server()
    [[nodiscard]] Status add_server(const View& view, uint64_t ticket, const NewServer& server);
    /// It may take part in iterations of `table_count` tables.
    /// Errors: those of Membership::join_worker()
    [[nodiscard]] Status add_worker(const View& view, size_t table_count, uint64_t ticket,
                                    const NewWorker& worker);
    /// Nothing happens if it is not in the queue.
    void withdraw(uint64_t ticket);

    [[nodiscard]] bool has_workers() const noexcept { return !workers_.empty(); }

    /// Whether one of the workers takes part in iterations.
    [[nodiscard]] bool wants_iterations() const;

    /// All of them, which are in the queue no more.
    [[nodiscard]] std::vector<Server> take_servers() { return std::exchange(servers_, {}); }

    [[nodiscard]] std::vector<Worker> take_workers() { return std::exchange(workers_, {}); }

private:
    [[nodiscard]] bool has_ticket(uint64_t ticket) const;
    [[nodiscard]] bool is_address_taken(const View& view, const std::string& address) const;

    std::vector<Server> servers_;
    std::vector<Worker> workers_;
};

}  // namespace weir
