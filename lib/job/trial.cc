// SPDX-License-Identifier: Apache-2.0
#include "lib/job/trial.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "lib/base/clock.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/contact.h"
#include "lib/checkpoint/folder_owner.h"
#include "lib/job/devices.h"
#include "lib/job/host_threads.h"
#include "lib/job/job_variables.h"
#include "lib/job/open_files.h"
#include "lib/job/resume_choice.h"
#include "lib/store/plugins/plugin.h"

namespace weir {
namespace {

using Step = Obstacle::Step;

constexpr uint64_t kChunksReadNs = 5 * kSecond;  // for `resume` auto

uint32_t fewest_ranks(const JobOptions& options) {
    return options.servers + (options.colocate ? 0 : 1);
}

Result<Roles> plan_part(const JobOptions& options, uint32_t rank, uint32_t size) {
    WEIR_ASSIGN(Roles roles, plan_roles(options, rank, size));
    WEIR_TRY(check_thread_count(options, roles));
    return roles;
}

Status check_plugins(const std::vector<std::string>& paths) {
    RuleRegistry rules;
    const auto loaded = load_plugins(paths, rules);
    return loaded ? Status() : of_option("plugins", loaded.error());
}

Status plan_parts(const Meeting& meeting, JobTrial& trial) {
    trial.size = meeting.size.value_or(fewest_ranks(trial.options));
    std::vector<uint32_t> ranks{meeting.rank.value_or(0)};
    if (!meeting.rank && trial.size > 1) ranks.push_back(trial.size - 1);
    for (const uint32_t rank : ranks) {
        WEIR_ASSIGN(Roles roles, plan_part(trial.options, rank, trial.size));
        roles.shape.has_manager = rank == 0;
        trial.parts.push_back(std::move(roles));
    }
    return {};
}

Status choose_checkpoint(checkpoint::Disk& disk, JobTrial& trial) {
    const SteadyClock clock;
    const checkpoint::CheckEnd end{clock, clock.now_ns() + kChunksReadNs};
    return choose_resumed(trial.options, disk, end, trial.checkpoints);
}

Status plan_folders(checkpoint::Disk& disk, JobTrial& trial) {
    WEIR_ASSIGN(trial.checkpoints, plan_checkpoints(trial.options, disk));
    const std::string& folder = trial.checkpoints.options.folder;
    if (folder.empty()) return {};
    WEIR_ASSIGN(trial.folder_owner, checkpoint::owner_of(folder));
    return {};
}

Result<std::string> open_part(const JobTrial& trial, const Roles& roles, const Config& config,
                              const transport::Secret& secret) {
    HostThreads::Counts counts;
    counts.shards = roles.local_servers * trial.options.shards_per_server;
    counts.workers = roles.shape.local_workers;
    WEIR_ASSIGN(const HostThreads threads, HostThreads::of_this_process(config, counts));
    constexpr bool kOthers = true;
    WEIR_ASSIGN(const std::shared_ptr<Devices> devices, Devices::open(config, secret, kOthers));
    WEIR_TRY(reserve_files(trial.options, roles, *devices));
    // Each has a port; so have the lines that keep the process alive, and what tells the manager of its end.
    size_t endpoint_count = counts.shards + counts.workers + 3;
    if (roles.shape.has_manager) endpoint_count += trial.options.managers > 1 ? 2 : 1;
    std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
    while (endpoints.size() < endpoint_count) {
        WEIR_ASSIGN(endpoints.emplace_back(), devices->make_endpoint());
    }
    if (counts.shards != 0)
        WEIR_TRY(devices->make_store_pools(config, threads.plan_stores().nodes));
    if (counts.workers != 0) WEIR_TRY(Devices::worker_pool(devices));
    return devices->names();
}

}  // namespace

JobTrial try_start(const JobOptions& options, const Config& config) {
    JobTrial trial;
    const auto note = [&](Step step, const Status& outcome) {
        if (!outcome) trial.obstacles.push_back({step, outcome.error()});
        return outcome.has_value();
    };
    Result<JobOptions> chosen = with_variables(options, config);
    if (!chosen) {
        trial.obstacles.push_back({Step::kOptions, chosen.error()});
        return trial;
    }
    trial.options = std::move(*chosen);
    (void)note(Step::kPlugins, check_plugins(trial.options.plugins));
    const Result<Meeting> meeting = plan_meeting(config);
    if (!meeting) trial.obstacles.push_back({Step::kMeeting, meeting.error()});
    (void)note(Step::kRoles, plan_parts(meeting ? *meeting : Meeting(), trial));
    const Status place = ContactFile::check_place(trial.options.contact_file);
    if (!place) (void)note(Step::kContactFile, of_option("contact_file", place.error()));
    // Processes that only have workers may not see the folders.
    const bool is_server =
        std::ranges::any_of(trial.parts, [](const Roles& roles) { return roles.shape.is_server; });
    if (!is_server && !trial.parts.empty()) return trial;
    checkpoint::RealDisk disk;
    if (note(Step::kFolders, plan_folders(disk, trial)))
        (void)note(Step::kResume, choose_checkpoint(disk, trial));
    return trial;
}

Result<std::string> try_devices(const JobTrial& trial, const Config& with_prefault,
                                const transport::Secret& secret) {
    Config config = with_prefault;
    config.set_flag("WEIR_PREFAULT", "the trial", "no");
    // Without roles: what a job of one process opens.
    if (trial.parts.empty()) {
        Roles alone;
        return open_part(JobTrial{}, alone, config, secret);
    }
    std::string names;
    for (const Roles& roles : trial.parts) {
        WEIR_ASSIGN(names, open_part(trial, roles, config, secret));
    }
    return names;
}

}  // namespace weir
