// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Operations: from a push or pull to the requests that it consists of.

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/worker/calls/call_tasks.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/calls/operation.h"
#include "lib/worker/calls/pushed_iterations.h"
#include "lib/worker/client_options.h"
#include "lib/worker/core/control.h"
#include "lib/worker/filters/client_filters.h"
#include "lib/worker/peers/peers.h"
#include "lib/worker/peers/standing.h"
#include "lib/worker/requests/requests.h"
#include "lib/worker/requests/route.h"
#include "lib/worker/requests/sender.h"

namespace weir {

/// Checks what is asked, finds the route of the keys, and makes a content of each piece. What is wrong
/// ends the call with an error; nothing is sent.
///
/// Invariant: pieces of a table are timed in the order in which they are made, from 1.
///
/// Thread: the client's
class Operations {
public:
    using CallId = Calls::Id;

    Operations(Standing& standing, Peers& peers, Requests& requests, Sender& sender, Calls& calls,
               CallTasks& tasks, Control& control, KnownTables& tables, const RuleRegistry& rules,
               ClientFilters& filters, Memory& memory, ClientCounters& counters)
        : standing_(standing),
          peers_(peers),
          requests_(requests),
          sender_(sender),
          calls_(calls),
          tasks_(tasks),
          control_(control),
          tables_(tables),
          rules_(rules),
          filters_(filters),
          memory_(memory),
          counters_(counters),
          routes_(standing.options().route_cache_bytes) {}

    CallId push(Operation operation);

    CallId pull(Operation operation);

    /// One or more, as one call.
    CallId start(std::vector<Operation> operations);

    /// Pushes what filters have held back: a call for each table. That of tables with iterations goes with the
    /// next part.
    [[nodiscard]] std::vector<CallId> flush();
    /// The worker leaves: says of which tables rows are still held.
    void warn_of_held();

    /// From which iteration of a table on this worker takes part: 1, or for one that joined later
    /// an iteration that no shard had closed; of a table that comes from a checkpoint, that behind its
    /// last one; kNoIteration: in none.
    [[nodiscard]] uint64_t first_iteration(uint32_t table) const noexcept;
    /// The last one that this worker has pushed, or will push when it may.
    [[nodiscard]] uint64_t last_iteration(uint32_t table) const;

    /// Segments have changed their primaries.
    void forget_routes() noexcept { routes_.clear(); }

    [[nodiscard]] RouteCache& routes() noexcept { return routes_; }

private:
    using Some = std::span<const Operation>;

    /// Where the keys of an operation are.
    struct Routed {
        int owner = -1;                ///< the shard to which all of it goes as one request; or
        std::shared_ptr<Route> route;  ///< the pieces
    };

    CallId start(Some operations);
    CallId start_in_order(Some operations);
    [[nodiscard]] bool must_wait(Some operations) const;

    [[nodiscard]] Status set_options(Operation& operation) {
        const CallOptions& its = operation.options;
        if (its.arguments.empty() && its.filters == nullptr && filters_.empty()) [[likely]]
            return {};
        return set_named_options(operation);
    }

    [[nodiscard]] Status set_named_options(Operation& operation);
    [[nodiscard]] Status set_arguments(Operation& operation) const;
    [[nodiscard]] Status check_room(Some operations, std::span<const Routed> routed) const;
    [[nodiscard]] Status select(std::vector<Operation>& operations, std::span<Routed> routed);
    [[nodiscard]] Status select_each(std::vector<Operation>& operations, std::span<Routed> routed);
    [[nodiscard]] Result<std::vector<std::byte>> arguments_of(const Operation& operation) const;
    CallId failed(const Operation& operation, Status why);
    void note_table(CallId call_id, const Operation& operation);
    [[nodiscard]] Status launch(Some operations, CallId& call_id);
    [[nodiscard]] Status launch_with_room(Some operations, CallId& call_id);
    [[nodiscard]] bool launch_routed(Some operations, std::span<Routed> routed, CallId& call_id);
    [[nodiscard]] Result<Routed> find(const Operation& operation);
    void add(CallId call_id, Call& call, const Operation& operation, const Routed& routed);
    void add_routed(CallId call_id, Call& call, const Operation& operation,
                    const std::shared_ptr<Route>& route);
    template <class Fill>
    void add(CallId call_id, Call& call, uint32_t shard, Fill&& fill);
    void fill(Content& content, const Operation& operation);
    void fill(Content& content, const Operation& operation, Piece& piece,
              const std::shared_ptr<Route>& route);
    [[nodiscard]] Result<std::shared_ptr<Route>> route_of(const Operation& operation);
    /// The shard to which all of it goes as one request; -1 if there is no such shard.
    [[nodiscard]] int single_owner(const Operation& operation) const noexcept;
    [[nodiscard]] int single_owner(const PositionMap& positions, KeyRange keys) const noexcept;

    // operation_checks.cc
    [[nodiscard]] Status check(Some operations);
    [[nodiscard]] Status check_once(Some operations) const;
    [[nodiscard]] Status check_values(const Operation& operation) const;
    [[nodiscard]] static Status check_stamps(const Operation& operation);
    [[nodiscard]] Status check_shape(const Operation& operation) const;
    [[nodiscard]] Status check_iteration(const Operation& operation) const;
    [[nodiscard]] static Status check_factors(const Operation& operation);
    [[nodiscard]] static Status check_keys(const Operation& operation);
    [[nodiscard]] Status check_window(const Operation& operation);

    Standing& standing_;
    Peers& peers_;
    Requests& requests_;
    Sender& sender_;
    Calls& calls_;
    CallTasks& tasks_;
    Control& control_;
    KnownTables& tables_;
    const RuleRegistry& rules_;
    ClientFilters& filters_;
    Memory& memory_;
    ClientCounters& counters_;
    RouteCache routes_;
    std::vector<uint64_t> times_;  ///< by table: of the piece that was made last
    std::unordered_map<uint32_t, PushedIterations> pushed_iterations_;  ///< by table
};

}  // namespace weir
