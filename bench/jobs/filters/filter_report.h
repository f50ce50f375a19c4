// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FilterReport: the results of `weir bench filters`, as a table on stdout, as SVG and as JSON.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir::bench {

struct FilterRow {
    std::string call;
    std::string changed;
    uint64_t value_bytes = 0;  ///< of a push as it is
    std::string filters;
    double calls_per_s = 0;
    double speedup = 0;       ///< beside none
    double worker_bytes = 0;  ///< sent for a call
    double server_bytes = 0;
    double error = 0;
};

/// Prints the header at once, each row in add(), and the meaning of the columns in print_legend().
///
/// Thread: one
class FilterReport {
public:
    /// `limit_mbit`: of the network; 0: none
    FilterReport(const JobShape& shape, uint32_t limit_mbit);

    void add(const FilterRow& row);

    /// Call it after the last row.
    void print_legend() const;

    /// Errors: kIo
    [[nodiscard]] Status write_json(const std::string& path) const;
    [[nodiscard]] Status write_plot(const std::string& path) const;

private:
    [[nodiscard]] std::string network() const;

    JobShape shape_;
    uint32_t limit_mbit_;
    std::vector<FilterRow> rows_;
};

}  // namespace weir::bench
