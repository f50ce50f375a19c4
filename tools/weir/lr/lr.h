// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir lr`: trains linear models, in one process, as one rank of a job, or in a job that it joins.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
    std::optional<apps::OnlineSolver> solver;  ///< none: `run` says which, on examples in memory
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

    [[nodiscard]] std::string_view solver_name() const noexcept {
        return solver ? apps::name_of(*solver) : apps::name_of(run.solver.kind);
    }

    /// Returns whether there is one of that name.
    bool take_solver(std::string_view name) noexcept {
        const auto batch = apps::batch_kind_named(name);
        solver = apps::solver_named(name);
        run.solver.kind = batch.value_or(run.solver.kind);
        return solver || batch;
    }
};

/// The output files. Only the worker that writes them checks, before the training, that they can
/// be written: other workers may have other folders.
[[nodiscard]] std::vector<NamedPath> outputs_of(const LrFlags& flags);

/// Runs the command and returns the exit code.
int run_lr(LrFlags& flags, Config& config);

}  // namespace weir::tools
