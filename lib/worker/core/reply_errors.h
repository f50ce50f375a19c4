// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ReplyErrors: from what a shard or the manager refuses to a text that says what to do.

#include "lib/base/result.h"
#include "lib/wire/frame.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/request.h"

namespace weir {

/// Thread: the client's
class ReplyErrors {
public:
    /// What a server says that does not know a function.
    [[nodiscard]] static std::string unknown_function(std::string_view who,
                                                      std::string_view function);

    ReplyErrors(const Standing& standing, const Peers& peers, const KnownTables& tables)
        : standing_(standing), peers_(peers), tables_(tables) {}

    /// Of a reply whose status is not kOk. What is about a table names it; that a worker or server is
    /// lost is not.
    [[nodiscard]] Error error_of(const ClientRequest& request, const wire::Frame& reply) const;

private:
    [[nodiscard]] bool is_collective(const ClientRequest& request) const;
    [[nodiscard]] Error describe(const ClientRequest& request, const wire::Frame& reply) const;
    [[nodiscard]] Error describe_piece(const ClientRequest& request,
                                       const wire::Frame& reply) const;
    [[nodiscard]] static Error refused_call(const FunctionEntry& function, std::string_view who,
                                            Errc status);
    [[nodiscard]] Error failed_iteration(const ClientRequest& request,
                                         const wire::Frame& reply) const;

    const Standing& standing_;
    const Peers& peers_;
    const KnownTables& tables_;
};

}  // namespace weir
