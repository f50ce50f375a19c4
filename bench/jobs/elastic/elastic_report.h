// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ElasticReport: the results of `weir bench elastic`, as a table on stdout and as JSON.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir::bench {

struct ElasticRow {
    std::string_view push;  ///< what is pushed
    std::string_view when;
    uint64_t pushes = 0;
    double p50_us = 0;
    double p99_us = 0;
    double max_us = 0;
    double p99_ratio = 0;  ///< to that of the usual pushes; 0: there were none
};

struct ElasticTotals {
    uint32_t rounds = 0;
    uint64_t acknowledged = 0;  ///< pushes of the first worker
    uint64_t wrong_values = 0;
    double join_seconds = 0;  ///< median
    double leave_seconds = 0;
    double loss_seconds = 0;  ///< 0: none was killed
};

/// Thread: one.
class ElasticReport {
public:
    /// `what`: the work, in words.
    ElasticReport(std::string what, const JobShape& shape);

    void add(const ElasticRow& row);
    /// Call it after the last row.
    void set_totals(const ElasticTotals& totals);

    /// Errors: kIo
    [[nodiscard]] Status write_json(const std::string& path) const;

private:
    std::string what_;
    JobShape shape_;
    std::vector<ElasticRow> rows_;
    ElasticTotals totals_;
};

}  // namespace weir::bench
