// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// make_exchange, make_solver: what one worker needs to train on examples that it holds, as LrOptions::kind says.

#include <memory>
#include <string>

#include "lib/apps/lr/batch_solver.h"
#include "lib/apps/lr/client_exchange.h"
#include "lib/apps/lr/delayed_solver.h"
#include "lib/apps/lr/lr_types.h"
#include "lib/base/result.h"
#include "lib/data/cache/column_cache.h"
#include "lib/data/examples.h"
#include "lib/data/file_share.h"
#include "lib/filter/filters.h"
#include "lib/weir.h"

namespace weir::apps {

/// As ClientExchange::make(). All workers call it.
/// Errors: kAlreadyExists if another worker has made it with other options
[[nodiscard]] Result<std::unique_ptr<ClientExchange>> make_exchange(Client& client,
                                                                    const std::string& name,
                                                                    data::Part place,
                                                                    const LrOptions& options,
                                                                    const Filters& filters);

/// `name`, `filters`: of the exchange. A collective. Borrows client and exchange.
[[nodiscard]] Result<std::unique_ptr<BatchSolver>> make_solver(
    Client& client, const std::string& name, ClientExchange& exchange, const Filters& filters,
    data::Examples&& examples, LrOptions options);

/// The same of kDelayed, with examples on disk. Errors: those of DelayedSolver::create()
[[nodiscard]] Result<std::unique_ptr<BatchSolver>> make_solver(
    ClientExchange& exchange, data::ColumnCache&& cache, LrOptions options,
    const DelayedSolver::InMemory& in_memory);

/// The tables of an exchange and its solver that no worker uses any more, whatever the solver; `keeps_weights`: but that
/// of weights.
/// Errors: those of Client::drop_table
[[nodiscard]] Status drop_tables(Client& client, const std::string& name, bool keeps_weights);

}  // namespace weir::apps
