// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DelayReport: the results of `weir bench delay`, as a table on stdout, as SVG and as JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir::bench {

struct DelayRow {
    std::optional<uint64_t> tau;  ///< none: eventual
    double iterations_per_s = 0;
    double waiting_share = 0;  ///< of the workers' time
    double staleness_mean = 0;
    uint64_t staleness_max = 0;
};

/// Prints the header at once, each row in add(), and the meaning of the columns in
/// print_legend().
/// Thread: one.
class DelayReport {
public:
    /// `what`: the work and the slowdown, in words.
    DelayReport(std::string what, const JobShape& shape);

    void add(const DelayRow& row);

    /// Call it after the last row.
    void print_legend() const;

    /// Errors: kIo
    [[nodiscard]] Status write_json(const std::string& path) const;
    [[nodiscard]] Status write_plot(const std::string& path) const;

private:
    std::string what_;
    JobShape shape_;
    std::vector<DelayRow> rows_;
};

}  // namespace weir::bench
