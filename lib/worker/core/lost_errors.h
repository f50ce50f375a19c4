// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LostErrors: errors of calls that nobody asks for.

#include <set>
#include <string>

#include "lib/base/result.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/known_tables.h"
#include "lib/worker/client_options.h"
#include "lib/worker/peers/standing.h"

namespace weir {

/// Counts them, and logs one for each table and kind of error: every further call says the same.
///
/// Thread: the client's
class LostErrors {
public:
    LostErrors(const Standing& standing, Calls& calls, const KnownTables& tables,
               ClientCounters& counters)
        : standing_(standing), calls_(calls), tables_(tables), counters_(counters) {}

    /// Nobody will ask for the outcome of the call, which has ended.
    void lose_outcome(Calls::Id call);
    /// The same for an error that was taken.
    void lose(const Error& error);

private:
    const Standing& standing_;
    Calls& calls_;
    const KnownTables& tables_;
    ClientCounters& counters_;
    std::set<std::string> logged_;
};

}  // namespace weir
