// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/filters/filter_report.h"

#include <cstdio>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/filters/filter_plot.h"
#include "bench/jobs/json.h"
#include "lib/base/json_text.h"
#include "lib/data/output_file.h"

namespace weir::bench {

FilterReport::FilterReport(const JobShape& shape, uint32_t limit_mbit)
    : shape_(shape), limit_mbit_(limit_mbit) {
    fmt::print("# Weir filters: pushes of float32 through filters, beside none; {}, {}\n",
               network(), shape_.launcher);
    fmt::print("# {:<11} {:<9} {:>8} {:<26} {:>9} {:>8} {:>10} {:>10} {:>9}\n", "Call", "Changed",
               "Values B", "Filters", "Calls/s", "Speedup", "Worker B", "Server B", "Error");
    std::fflush(stdout);
}

std::string FilterReport::network() const {
    if (limit_mbit_ == 0) return shape_.transports;
    return fmt::format("{}, {} Mbit/s", shape_.transports, limit_mbit_);
}

void FilterReport::add(const FilterRow& row) {
    rows_.push_back(row);
    fmt::print("{:<13} {:<9} {:>8} {:<26} {:>9.0f} {:>8.2f} {:>10.0f} {:>10.0f} {:>9.2g}\n",
               row.call, row.changed, row.value_bytes, row.filters, row.calls_per_s, row.speedup,
               row.worker_bytes, row.server_bytes, row.error);
    std::fflush(stdout);
}

void FilterReport::print_legend() const {
    fmt::print(
        "# Changed: the share of the rows that is not 0; gradients: as `weir lr` pushes them, with "
        "curvatures.\n"
        "# Speedup: the calls per second beside those without filters, the median of several "
        "parts, "
        "each beside its own.\n"
        "# Worker B, Server B: what the worker and what the servers have sent for a call.\n"
        "# Error: how far the servers' values are from the sums of what was pushed, as a share of "
        "these; what is held back\n#   counts as missing.\n"
        "# An iteration is a push and a pull of all values.\n");
    std::fflush(stdout);
}

Status FilterReport::write_json(const std::string& path) const {
    nlohmann::json rows = nlohmann::json::array();
    for (const FilterRow& row : rows_) {
        rows.push_back({{"call", row.call},
                        {"changed", row.changed},
                        {"value_bytes", row.value_bytes},
                        {"filters", row.filters},
                        {"calls_per_s", row.calls_per_s},
                        {"speedup", row.speedup},
                        {"worker_bytes", row.worker_bytes},
                        {"server_bytes", row.server_bytes},
                        {"error", row.error}});
    }
    nlohmann::json json = bench_json("filters", shape_);
    json["limit_mbit"] = limit_mbit_;
    json["rows"] = std::move(rows);
    return data::write_whole_file(path, json_text(json));
}

Status FilterReport::write_plot(const std::string& path) const {
    return data::write_whole_file(path, plot_filters(rows_, "Filters, over " + network()));
}

}  // namespace weir::bench
