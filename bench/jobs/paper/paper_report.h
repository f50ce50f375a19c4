// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PaperReport: the results of `weir bench paper`, as tables on stdout, as SVG and as JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/jobs/traffic/traffic_report.h"
#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir::bench {

/// The objective of a training as it goes on.
struct SolverRun {
    std::string solver;
    std::vector<double> seconds;
    std::vector<double> objectives;
};

/// Trainings with one delay, while workers are slowed by turns.
struct TauRow {
    uint32_t tau = 0;
    std::optional<double>
        seconds{};        ///< until the objective was within kNear of the optimum; none: it was not
    uint32_t passes = 0;  ///< until then
    double waiting_share = 0;  ///< of the workers' time
};

/// Thread: one
class PaperReport {
public:
    static constexpr double kNear = 1e-3;

    PaperReport(const JobShape& shape, std::string data, double l1);

    void begin_solvers();
    void add(const SolverRun& run);
    /// Once all have been added: `best` is the least objective that any of them has reached.
    void end_solvers(double best);

    void begin_delays(const std::string& data, const std::string& work);
    void add(const TauRow& row);

    /// `folder`: gets objective.svg, delay.svg and traffic.svg. Errors: kIo
    [[nodiscard]] Status write_plots(const std::string& folder, const TrafficReport& traffic) const;
    [[nodiscard]] Status write_json(const std::string& path, const TrafficReport& traffic) const;

private:
    JobShape shape_;
    std::string data_;
    double l1_;
    double best_ = 0;
    std::string delay_data_;
    std::string work_;
    std::vector<SolverRun> runs_;
    std::vector<TauRow> rows_;
};

}  // namespace weir::bench
