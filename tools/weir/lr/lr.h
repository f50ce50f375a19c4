// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir lr`: trains linear models, in one process, as one rank of a job, or in a job that it joins.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/apps/lr/lr_run.h"
#include "lib/apps/online/online_run.h"
#include "lib/base/config.h"
#include "tools/weir/job_flags.h"
#include "tools/weir/paths.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {

struct LrFlags {
    JobFlags job;
    /// None: block steps on examples in memory, as `run` says.
    std::optional<apps::OnlineSolver> solver;
    apps::LrRunOptions run;
    apps::OnlineOptions online;
    std::string init;  ///< a model file
    std::string model;
    std::string json;
    std::string plot;
    uint32_t grace_s = kGraceSeconds;
    std::string join;  ///< as JoinOptions::contact; empty: it starts with the job

    /// Of a job that is joined: its shape when it began.
    struct Began {
        uint32_t ranks = 0;
        uint32_t servers = 0;
        uint32_t workers = 0;
    } began;

    [[nodiscard]] bool joins() const noexcept { return !join.empty(); }

    [[nodiscard]] bool is_online() const noexcept { return solver.has_value(); }
};

/// The output files. Only the worker that writes them checks, before the training, that they can
/// be written: other workers may have other folders.
[[nodiscard]] std::vector<NamedPath> outputs_of(const LrFlags& flags);

/// Runs the command and returns the exit code.
int run_lr(LrFlags& flags, Config& config);

}  // namespace weir::tools
