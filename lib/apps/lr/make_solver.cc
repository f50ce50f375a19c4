// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/make_solver.h"

#include <utility>

#include "lib/apps/lbfgs/solver.h"
#include "lib/apps/lr/lr_solver.h"

namespace weir::apps {
namespace {

template <class Solver>
Result<std::unique_ptr<BatchSolver>> kept(Result<Solver> made) {
    if (!made) return made.error();
    return std::unique_ptr<BatchSolver>(std::make_unique<Solver>(*std::move(made)));
}

}  // namespace

Result<std::unique_ptr<ClientExchange>> make_exchange(Client& client, const std::string& name,
                                                      data::Part place, const LrOptions& options,
                                                      const Filters& filters) {
    if (options.kind == BatchKind::kLbfgs) {
        const TableOptions weights =
            LbfgsTables::weights_options(options.function().width(), filters);
        return ClientExchange::make(client, name, weights, place, filters);
    }
    const uint32_t max_delay = options.kind == BatchKind::kDelayed ? options.tau : 0;
    return ClientExchange::make(client, name, options.l1, place, filters, max_delay);
}

Result<std::unique_ptr<BatchSolver>> make_solver(Client& client, const std::string& name,
                                                 ClientExchange& exchange, const Filters& filters,
                                                 data::Examples&& examples, LrOptions options) {
    if (options.kind == BatchKind::kLbfgs) {
        const LbfgsTables::Shape shape{options.function().width(), options.pairs_max, options.l1,
                                       options.l2};
        WEIR_ASSIGN(LbfgsTables tables,
                    LbfgsTables::make(client, name, exchange.weights(), shape, filters));
        return kept(LbfgsSolver::create(exchange, std::move(tables), std::move(examples),
                                        std::move(options)));
    }
    if (options.kind == BatchKind::kDelayed)
        return kept(DelayedSolver::create(exchange, std::move(examples), std::move(options)));
    return kept(LrSolver::create(exchange, std::move(examples), std::move(options)));
}

Result<std::unique_ptr<BatchSolver>> make_solver(ClientExchange& exchange,
                                                 data::ColumnCache&& cache, LrOptions options,
                                                 const DelayedSolver::InMemory& in_memory) {
    return kept(DelayedSolver::create(exchange, std::move(cache), std::move(options), in_memory));
}

Status drop_tables(Client& client, const std::string& name, bool keeps_weights) {
    WEIR_TRY(LbfgsTables::drop(client, name));
    return ClientExchange::drop(client, name, keeps_weights);
}

}  // namespace weir::apps
