// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir lr`: trains sparse logistic regression, in one process or as one rank of a job.

#include <string>

#include "lib/apps/lr_run.h"
#include "lib/base/config.h"
#include "tools/weir/job_flags.h"

namespace weir::tools {

struct LrFlags {
    JobFlags job;
    apps::LrRunOptions run;
    std::string init;  ///< a model file
    std::string model;
    std::string json;
    std::string plot;
    uint32_t grace_s = 25;  ///< below the KillWait of Slurm, which is 30
};

/// Runs the command and returns the exit code.
int run_lr(LrFlags& flags, Config& config);

}  // namespace weir::tools
