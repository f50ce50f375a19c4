// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FactorizationReport: the results of `weir bench factorization`, as a table on stdout and as JSON.

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir::bench {

/// What one round has measured, or the medians of several.
struct FactorizationRound {
    double pull_keys_per_s = 0;  ///< of a server, as `weir bench lookup` measures it
    double push_keys_per_s = 0;
    double loop = 0;     ///< samples per second, as all that follow: one thread, sample by sample
    double batched = 0;  ///< one thread, batch by batch, as a worker does it
    double core = 0;  ///< one core looks up and changes the rows of the batches, without messages

    struct Variant {
        double samples_per_s = 0;
        double limit = 0;  ///< of the server's core, by the two rates
        double ratio = 0;
        double of_core = 0;
        double of_batched = 0;
        double error = 0;  ///< root of the mean square, in the end
    };

    Variant alone;     ///< each worker's pushes change the tables at once
    Variant together;  ///< those of all workers in an iteration do, once
};

struct FactorizationRows {
    double of_one = 0;  ///< that a sample pulls and pushes
    double of_all = 0;  ///< that the rule changes where the pushes of all workers are summed first
};

class FactorizationReport {
public:
    FactorizationReport(const JobShape& shape, FactorizationRows rows);

    void add(const FactorizationRound& round) { rounds_.push_back(round); }

    /// Call it after the last round.
    void print() const;
    /// Errors: kIo
    [[nodiscard]] Status write_json(const std::string& path) const;

private:
    [[nodiscard]] FactorizationRound medians() const;

    JobShape shape_;
    FactorizationRows rows_;
    std::vector<FactorizationRound> rounds_;
};

}  // namespace weir::bench
