// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/doctor/job_findings.h"

#include <fmt/core.h>

#include "lib/base/counted.h"
#include "lib/bootstrap/secret.h"
#include "lib/job/job_variables.h"
#include "lib/job/trial.h"

namespace weir::tools {
namespace {

using Level = Finding::Level;
using Step = Obstacle::Step;

/// Who exports WEIR_RENDEZVOUS and WEIR_SIZE for all ranks gives each its WEIR_RANK later.
bool lacks_only_rank(const Config& config) {
    return !config.text("WEIR_RENDEZVOUS").empty() && config.text("WEIR_RANK").empty();
}

Finding finding_of(const Obstacle& obstacle, const Config& config) {
    Finding finding{Level::kProblem, "", in_variables(obstacle.why.message(), config, Naming::kAll),
                    ""};
    switch (obstacle.step) {
        case Step::kOptions:
            finding.subject = "variables";
            finding.advice = "correct it, or unset it; `weir help variables` lists all";
            break;
        case Step::kPlugins:
            finding.subject = "plugins";
            finding.advice = "`weir info --plugin FILE` looks at one; see `weir help plugins`";
            break;
        case Step::kMeeting:
            finding.subject = "ranks";
            finding.advice =
                "start ranks by `weir run`, srun --mpi=pmix or mpirun, or set WEIR_RENDEZVOUS, "
                "WEIR_RANK and WEIR_SIZE of each; see `weir help launchers`";
            if (lacks_only_rank(config)) finding.level = Level::kNote;
            break;
        case Step::kRoles:
            finding.subject = "job";
            finding.advice =
                "change one of these variables, or give the program the flag for it, which counts "
                "more; see `weir help jobs`";
            break;
        case Step::kContactFile:
            finding.subject = "contact file";
            finding.advice =
                "set WEIR_CONTACT_FILE to another name, in a folder that can be written, or unset "
                "it";
            break;
        case Step::kFolders:
            finding.subject = "checkpoints";
            finding.advice =
                "set WEIR_CHECKPOINT_DIR to a folder that is there and that all servers can write, "
                "and WEIR_RESUME to one that they can read, or unset them";
            break;
        case Step::kResume:
            finding.subject = "checkpoints";
            finding.advice =
                "`weir checkpoint list DIR` shows what is there; WEIR_RESUME=auto goes on from the "
                "newest whole checkpoint, or from nothing";
            break;
    }
    return finding;
}

Finding shape(const JobTrial& trial) {
    const JobShape& job = trial.parts.front().shape;
    return {
        Level::kGood, "job",
        fmt::format("{}: {} of {}, {}, {}, {}; a program's flags count more than variables",
                    counted(trial.size, "rank"), counted(job.server_count, "server"),
                    counted(trial.options.shards_per_server, "shard"),
                    counted(job.worker_count, "worker"), counted(trial.options.replicas, "backup"),
                    counted(trial.options.managers, "manager")),
        ""};
}

void add_folders(const JobTrial& trial, std::vector<Finding>& findings) {
    const CheckpointOptions& options = trial.checkpoints.options;
    if (!trial.folder_owner.empty()) {
        findings.push_back(
            {Level::kNote, "checkpoints",
             fmt::format("{} is the folder of {}", options.folder, trial.folder_owner),
             "a second job needs a WEIR_CHECKPOINT_DIR of its own"});
    } else if (!options.folder.empty()) {
        findings.push_back({Level::kGood, "checkpoints", options.folder + " can be written", ""});
    }
    if (trial.checkpoints.resume) {
        findings.push_back({Level::kGood, "checkpoints",
                            fmt::format("a job goes on from checkpoint {} of {}",
                                        trial.checkpoints.resume->number, options.resumed_folder),
                            ""});
    }
}

}  // namespace

std::vector<Finding> judge_job(const Config& config, bool has_place) {
    std::vector<Finding> findings;
    const JobTrial trial = try_start({}, config);
    for (const Obstacle& one : trial.obstacles)
        findings.push_back(finding_of(one, config));
    if (!trial.parts.empty()) findings.push_back(shape(trial));
    add_folders(trial, findings);
    if (!has_place) return findings;
    const Result<std::string> opened = try_devices(trial, config, make_secret());
    if (opened) {
        findings.push_back(
            {Level::kGood, "a rank", fmt::format("opens {}, and its memory", *opened), ""});
    } else {
        findings.push_back({Level::kProblem, "a rank",
                            in_variables(opened.error().message(), config, Naming::kAll),
                            opened.code() == Errc::kNoMemory
                                ? "change the variable that is named, or make room; see `weir help "
                                  "memory`"
                                : "change the variable that is named, or unset it; see `weir help "
                                  "transports`"});
    }
    return findings;
}

}  // namespace weir::tools
