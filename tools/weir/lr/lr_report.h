// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The results of `weir lr`: a summary for people, and the output files.

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lib/apps/lr/lr_run.h"
#include "lib/apps/plot_svg.h"
#include "lib/job/job.h"
#include "tools/weir/lr/lr.h"

namespace weir::tools {

/// Greater gaps are not printed: a bound of more than a tenth of the objective tells the user
/// nothing.
inline constexpr double kTellingGap = 0.1;

/// A share as text: "2.8 %" for 0.028.
[[nodiscard]] std::string percent(double share);

/// A share that may be near 1 as text: "92.5 %" for 0.9253.
[[nodiscard]] std::string share_text(double share);

/// Null for an empty text.
[[nodiscard]] nlohmann::json or_null(const std::string& text);

/// What happened in the job, for JSON and for a plot.
[[nodiscard]] nlohmann::json events_json(const std::vector<TrainingEvent>& events);
[[nodiscard]] std::vector<apps::PlotMark> marks_of(const std::vector<TrainingEvent>& events);

/// The names of files in a title: "a.svm", "a.svm and 3 more files".
[[nodiscard]] std::string titled_files(const std::vector<std::string>& paths);

/// The greatest memory that this process has had.
[[nodiscard]] uint64_t peak_bytes();

/// What a training leaves, whatever the solver. It borrows.
struct Results {
    const std::vector<std::string>& warnings;
    const apps::Model& model;
    std::function<std::string()> json;
    std::function<std::string()> plot;
};

/// Says the warnings, prints the summary and writes the files. The summary goes to stderr if one of the files is
/// standard output.
/// Errors: kIo
[[nodiscard]] Status write_results(const LrFlags& flags, const Results& results,
                                   const std::function<void(std::FILE*)>& print_summary);

/// Writes those files again that tell what happened in the job, because more has. What is not replaced, such as
/// standard output, stays as it is.
/// Errors: kIo
[[nodiscard]] Status rewrite_events(const LrFlags& flags, const Results& results);

/// write_results() and rewrite_events() of examples in memory.
[[nodiscard]] Status report(const LrFlags& flags, const apps::LrRun& run, const JobShape& shape);
[[nodiscard]] Status report_events(const LrFlags& flags, const apps::LrRun& run,
                                   const JobShape& shape);

}  // namespace weir::tools
