// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/paper/paper_report.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/jobs/json.h"
#include "lib/apps/plot_svg.h"
#include "lib/base/json_text.h"
#include "lib/data/output_file.h"

namespace weir::bench {
namespace {

/// When the objective was first so near to `best`; none: it was not.
std::optional<double> seconds_to(const SolverRun& run, double best, double near) {
    for (size_t i = 0; i < run.objectives.size(); ++i) {
        if (run.objectives[i] <= best * (1 + near)) return run.seconds[i];
    }
    return std::nullopt;
}

std::string seconds_text(std::optional<double> seconds) {
    return seconds ? fmt::format("{:.2f}", *seconds) : "-";
}

}  // namespace

PaperReport::PaperReport(const JobShape& shape, std::string data, double l1)
    : shape_(shape), data_(std::move(data)), l1_(l1) {
    fmt::print("# Weir paper: trainings of {}, l1 {}; {}, {}\n", data_, l1_, shape_.transports,
               shape_.launcher);
    std::fflush(stdout);
}

void PaperReport::begin_solvers() {
    fmt::print("# The objective against time\n# {:<10} {:>9} {:>9} {:>9} {:>8} {:>14}\n", "Solver",
               "s to 1 %", "to 0.1 %", "All s", "Points", "Objective");
    std::fflush(stdout);
}

void PaperReport::add(const SolverRun& run) {
    runs_.push_back(run);
}

void PaperReport::end_solvers(double best) {
    best_ = best;
    for (const SolverRun& run : runs_) {
        fmt::print("{:<12} {:>9} {:>9} {:>9.2f} {:>8} {:>14.8g}\n", run.solver,
                   seconds_text(seconds_to(run, best, 0.01)),
                   seconds_text(seconds_to(run, best, kNear)),
                   run.seconds.empty() ? 0 : run.seconds.back(), run.seconds.size(),
                   run.objectives.empty() ? 0 : run.objectives.back());
    }
    std::fflush(stdout);
}

void PaperReport::begin_delays(const std::string& data, const std::string& work) {
    delay_data_ = data;
    work_ = work;
    fmt::print(
        "# Delay: until the objective is within 0.1 % of the optimum; {}; {}\n"
        "# {:>4} {:>9} {:>7} {:>8} {:>10}\n",
        delay_data_, work_, "Tau", "Seconds", "Passes", "Speedup", "Waiting %");
    std::fflush(stdout);
}

void PaperReport::add(const TauRow& row) {
    rows_.push_back(row);
    const std::optional<double> first = rows_.front().seconds;
    const std::string speedup =
        row.seconds && first ? fmt::format("{:.2f}", *first / *row.seconds) : "-";
    fmt::print("{:>6} {:>9} {:>7} {:>8} {:>10.1f}\n", row.tau, seconds_text(row.seconds),
               row.passes, speedup, 100 * row.waiting_share);
    std::fflush(stdout);
}

Status PaperReport::write_plots(const std::string& folder, const TrafficReport& traffic) const {
    const auto path = [&](const char* name) {
        return (std::filesystem::path(folder) / name).string();
    };
    std::vector<apps::PlotCurve> curves;
    for (const SolverRun& run : runs_) {
        apps::PlotCurve& curve = curves.emplace_back();
        curve.name = run.solver;
        for (size_t i = 0; i < run.objectives.size(); ++i)
            curve.points.emplace_back(run.seconds[i], run.objectives[i] / best_ - 1);
    }
    const std::string shape = fmt::format("{}; l1 {}", data_, l1_);
    WEIR_TRY(data::write_whole_file(
        path("objective.svg"),
        apps::plot_curves(curves, "(objective \u2212 best) / best",
                          {"Objective against time, by solver", shape, shape_.transports})));
    std::vector<apps::PlotBar> bars;
    for (const TauRow& row : rows_)
        bars.push_back({fmt::format("{}", row.tau), row.seconds.value_or(0),
                        row.seconds ? fmt::format("{:.1f} % waiting", row.waiting_share * 100)
                                    : "not reached"});
    WEIR_TRY(data::write_whole_file(
        path("delay.svg"),
        apps::plot_bars(bars, "seconds until within 0.1 % of the optimum", "tau",
                        {"Time to the optimum, by the bound on the delay", delay_data_, work_})));
    return traffic.write_plot(path("traffic.svg"));
}

Status PaperReport::write_json(const std::string& path, const TrafficReport& traffic) const {
    nlohmann::json json = bench_json("paper", shape_);
    json["data"] = data_;
    json["l1"] = l1_;
    json["best"] = best_;
    nlohmann::json runs = nlohmann::json::array();
    for (const SolverRun& run : runs_)
        runs.push_back(
            {{"solver", run.solver}, {"seconds", run.seconds}, {"objectives", run.objectives}});
    nlohmann::json rows = nlohmann::json::array();
    for (const TauRow& row : rows_)
        rows.push_back({{"tau", row.tau},
                        {"seconds", row.seconds ? nlohmann::json(*row.seconds) : nullptr},
                        {"passes", row.passes},
                        {"waiting_share", row.waiting_share}});
    json["objective"] = std::move(runs);
    json["delay"] = {{"data", delay_data_}, {"work", work_}, {"rows", std::move(rows)}};
    json["traffic"] = traffic.rows_json();
    return data::write_whole_file(path, json_text(json));
}

}  // namespace weir::bench
