// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/delay_report.h"

#include <cstdio>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/json.h"
#include "lib/apps/plot_svg.h"
#include "lib/base/json_text.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

std::string name_of(const DelayRow& row) {
    return row.tau ? fmt::format("{}", *row.tau) : "eventual";
}

}  // namespace

DelayReport::DelayReport(std::string what, const JobShape& shape)
    : what_(std::move(what)), shape_(shape) {
    fmt::print("# Weir delay: {}; {}, {}\n", what_, shape_.transports, shape_.launcher);
    fmt::print("# {:>8} {:>13} {:>8} {:>10} {:>15} {:>14}\n", "Tau", "Iterations/s", "Speedup",
               "Waiting %", "Staleness mean", "Staleness max");
    std::fflush(stdout);
}

void DelayReport::add(const DelayRow& row) {
    rows_.push_back(row);
    fmt::print("{:>10} {:>13.1f} {:>8.2f} {:>10.1f} {:>15.2f} {:>14}\n", name_of(row),
               row.iterations_per_s, row.iterations_per_s / rows_.front().iterations_per_s,
               row.waiting_share * 100, row.staleness_mean, row.staleness_max);
    std::fflush(stdout);
}

void DelayReport::print_legend() const {
    fmt::print(
        "# Tau: iteration t begins when all iterations up to t - tau - 1 are finished.\n"
        "# Speedup: iterations per second, compared with the first row.\n"
        "# Waiting %: of the workers' time, in waiting for pushes and pulls.\n"
        "# Staleness: of the iterations before its own, how many are not in the values that a "
        "worker pulled.\n");
    std::fflush(stdout);
}

Status DelayReport::write_json(const std::string& path) const {
    nlohmann::json rows = nlohmann::json::array();
    for (const DelayRow& row : rows_) {
        rows.push_back({{"tau", row.tau ? static_cast<int64_t>(*row.tau) : -1},
                        {"iterations_per_s", row.iterations_per_s},
                        {"waiting_share", row.waiting_share},
                        {"staleness_mean", row.staleness_mean},
                        {"staleness_max", row.staleness_max}});
    }
    nlohmann::json json = bench_json("delay", shape_);
    json["work"] = what_;
    json["rows"] = std::move(rows);
    return data::write_whole_file(path, json_text(json));
}

Status DelayReport::write_plot(const std::string& path) const {
    std::vector<apps::PlotBar> bars;
    for (const DelayRow& row : rows_) {
        bars.push_back({name_of(row), row.iterations_per_s,
                        fmt::format("{:.0f} % waiting", row.waiting_share * 100)});
    }
    return data::write_whole_file(path,
                                  apps::plot_bars(bars, "iterations per second", "tau",
                                                  {"Bounded delay: iterations per second", what_}));
}

}  // namespace weir::bench
