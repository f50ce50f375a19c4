// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TrafficReport: the results of `weir bench traffic`, as a table on stdout, as SVG and as JSON.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir::bench {

/// A training. With `none` also keys of lists that the servers know count, which nobody sends.
struct TrafficRow {
    std::string filters;
    double worker_bytes = 0;  ///< sent by workers: in messages, and read from their memory
    double server_bytes = 0;  ///< sent by servers: in messages, and written to workers' memory
    uint32_t passes = 0;
    double objective = 0;
    double seconds = 0;
    std::vector<double> filtered;  ///< by pass: the share of the features that it left out
};

/// Prints the header at once, each row in add(), and the meaning of the columns in print_legend().
///
/// Thread: one
class TrafficReport {
public:
    TrafficReport(const JobShape& shape, std::string data, double l1);

    /// The first one is what the others are beside.
    void add(const TrafficRow& row);

    /// Call it after the last row.
    void print_legend() const;

    [[nodiscard]] nlohmann::json rows_json() const;

    /// Errors: kIo
    [[nodiscard]] Status write_json(const std::string& path) const;
    [[nodiscard]] Status write_plot(const std::string& path) const;

private:
    /// So many times fewer.
    [[nodiscard]] double workers_save(const TrafficRow& row) const;
    [[nodiscard]] double servers_save(const TrafficRow& row) const;
    [[nodiscard]] std::string plot() const;

    JobShape shape_;
    std::string data_;
    double l1_;
    std::vector<TrafficRow> rows_;
};

}  // namespace weir::bench
