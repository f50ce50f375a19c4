// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/job/host_spread.h"
#include "lib/job/manager_settings.h"
#include "lib/job/part/job_part.h"
#include "lib/job/resume_choice.h"
#include "lib/job/unique_number.h"

namespace weir {
namespace {

constexpr std::string_view kChoiceKey = "weir-resume";
constexpr std::string_view kOwnerKey = "weir-owner";
constexpr std::string_view kProcessKey = "weir-process";
/// Of the time in which all ranks must have come, what rank 0 may take to look for damage.
constexpr uint64_t kCheckShare = 3;

/// What the only manager begins with, as this rank has it.
Status add_settings_of_rank_0(const JobOptions& options, const Config& config,
                              ManagerSettings& settings) {
    const std::string& folder = options.checkpoint_folder;
    WEIR_ASSIGN(const std::string to,
                folder.empty() ? Result<std::string>("none") : absolute_folder(folder));
    WEIR_ASSIGN(const uint64_t lease_ms, config.number("WEIR_LEASE_MS"));
    settings.add_of_rank_0("`replicas`", std::to_string(options.replicas));
    settings.add_of_rank_0("`on_worker_loss`", std::string(to_string(options.on_worker_loss)));
    settings.add_of_rank_0("`checkpoint_folder`", to);
    settings.add_of_rank_0("WEIR_LEASE_MS", fmt::format("{} ms", lease_ms));
    return {};
}

}  // namespace

/// Where they are to be; once the hosts of all ranks are known.
std::vector<uint32_t> Job::Part::place_managers() {
    const std::span<const std::string> hosts(threads_.hosts());
    const auto server_ranks = roles_.shape.size == 1 ? 1 : options_.servers;
    std::vector<uint32_t> ranks =
        choose_manager_ranks(hosts.first(server_ranks), options_.managers);
    threads_.add_managers(ranks);
    managers_.set_ranks(ranks, roles_.shape.rank);
    roles_.shape.has_manager = managers_.is_here();
    if (roles_.shape.rank != 0) return ranks;
    for (const std::string& warning :
         spread_warnings(hosts, server_ranks, ranks, options_.replicas))
        log(LogLevel::kWarning, "{}", warning);
    return ranks;
}

/// Publishes that of this process, starts it, and learns where the others are.
Status Job::Part::find_managers(Bootstrap& bootstrap, std::span<const uint32_t> ranks,
                                uint64_t deadline_ns) {
    ManagerOptions manager;
    if (managers_.is_here()) {
        WEIR_ASSIGN(manager, manager_options());
        WEIR_TRY(managers_.publish(bootstrap, *devices_, lines_.process()));
    }
    const bool is_one_of_several = managers_.is_here() && ranks.size() > 1;
    ManagerSettings settings =
        is_one_of_several ? ManagerSettings(ranks, manager) : ManagerSettings(ranks);
    if (ranks.size() == 1) WEIR_TRY(add_settings_of_rank_0(options_, config_, settings));
    WEIR_TRY(settings.publish(bootstrap));
    WEIR_TRY(bootstrap.exchange(deadline_ns));
    if (Status same = ManagerSettings::compare(bootstrap); !same) {
        (void)bootstrap.finish();
        return same;
    }
    WEIR_TRY(managers_.find(bootstrap));
    set_managers(managers_.places());
    return managers_.is_here() ? start_manager(std::move(manager)) : Status();
}

/// Before anything of this process connects to them.
void Job::Part::set_managers(const std::vector<ManagerPlace>& managers) {
    lines_.set_managers(managers);
    ServingOptions options;
    options.first_server = roles_.first_server;
    options.local_servers = roles_.local_servers;
    options.joiner = joiner_;
    options.managers = managers;
    options.is_being_stopped = options_.is_being_stopped;
    serving_.emplace(std::move(options), *devices_, managers_, clock_);
}

/// But for the disk.
Result<ManagerOptions> Job::Part::manager_options() {
    ManagerOptions options;
    options.server_count = options_.servers;
    options.shards_per_server = options_.shards_per_server;
    options.worker_count = roles_.shape.worker_count;
    options.server_ranks = roles_.server_ranks;
    options.worker_ranks = roles_.worker_ranks;
    WEIR_ASSIGN(const uint64_t timeout_s, config_.number("WEIR_JOIN_TIMEOUT_S"));
    options.join_timeout_ns = timeout_s * kSecond;
    options.on_worker_loss = options_.on_worker_loss;
    options.work_lease_ns = static_cast<uint64_t>(options_.work_lease.count());
    options.replicas = options_.replicas;
    WEIR_ASSIGN(const uint64_t lease_ms, config_.number("WEIR_LEASE_MS"));
    options.lease_ns = lease_ms * kMillisecond;
    options.is_being_stopped = options_.is_being_stopped;
    options.checkpoints = checkpoints_.options;
    if (owner_ != nullptr)
        options.checkpoints.may_write = [owner = owner_] { return owner->check(); };
    options.resume = std::move(checkpoints_.resume);
    options.plugins = plugins_;
    options.rules = &rules_;
    return options;
}

Status Job::Part::start_manager(ManagerOptions options) {
    start_disk();
    options.checkpoints.disk = disk_->queue();
    WEIR_ASSIGN(std::unique_ptr<StateMachine> manager,
                managers_.make(std::move(options), clock_, lines_.manager_life()));
    serving_->set_manager(runtime_->run(std::move(manager)));
    return {};
}

/// A folder that servers do not see ends all of them at once. Rank 0, which is a server, chooses the checkpoint
/// that the job goes on from, and the others get its choice with the next exchange.
Status Job::Part::look_for_checkpoints(Bootstrap& bootstrap, uint64_t deadline_ns) {
    if (!roles_.shape.is_server) return {};
    checkpoint::RealDisk disk;
    WEIR_ASSIGN(checkpoints_, plan_checkpoints(options_, disk));
    const std::string& folder = checkpoints_.options.folder;
    if (!folder.empty())
        WEIR_TRY(bootstrap.put(kProcessKey, checkpoint::OwnerProcess::here().encode()));
    if (roles_.shape.rank != 0) return {};
    if (!folder.empty()) {
        // The other ranks wait until the deadline, and are to hear of an error.
        const uint64_t before_ns = clock_.now_ns();
        const std::chrono::nanoseconds at_most((deadline_ns - std::min(before_ns, deadline_ns)) /
                                               2);
        WEIR_ASSIGN(owner_, checkpoint::FolderOwner::take(folder, make_unique_number(), at_most));
        WEIR_TRY(bootstrap.put(kOwnerKey, fmt::format("{:x}", owner_->job())));
    }
    const uint64_t now_ns = clock_.now_ns();
    const uint64_t left_ns = deadline_ns - std::min(now_ns, deadline_ns);
    const checkpoint::CheckEnd end{clock_, now_ns + left_ns / kCheckShare};
    WEIR_TRY(choose_resumed(options_, disk, end, checkpoints_));
    if (checkpoints_.resume) {
        log(LogLevel::kInfo, "the job goes on from checkpoint {} of {}",
            checkpoints_.resume->number, checkpoints_.options.resumed_folder);
    }
    return bootstrap.put(kChoiceKey, text_of_choice(options_, checkpoints_));
}

/// After that exchange.
Status Job::Part::take_checkpoint(Bootstrap& bootstrap, uint64_t deadline_ns) {
    if (!roles_.shape.is_server || roles_.shape.rank == 0) return {};
    WEIR_ASSIGN(const std::string choice, bootstrap.get(0, kChoiceKey));
    const uint64_t now_ns = clock_.now_ns();
    // The other ranks wait until the deadline, and are to hear of an error.
    const uint64_t left_ns = deadline_ns - std::min(now_ns, deadline_ns);
    const SearchEnd end{clock_, now_ns + left_ns / 2};
    checkpoint::RealDisk disk;
    return take_choice(choice, options_, disk, end, checkpoints_);
}

/// Of several managers, the processes of all keep it. After the exchange of what look_for_checkpoints() has put.
Status Job::Part::keep_folder(Bootstrap& bootstrap, std::span<const uint32_t> manager_ranks) {
    const std::string& folder = checkpoints_.options.folder;
    if (folder.empty() || manager_ranks.size() < 2 || !managers_.is_here()) return {};
    if (owner_ == nullptr) {
        const Result<std::string> text = bootstrap.get(0, kOwnerKey);
        if (!text) return {};  // rank 0 has no folder, which ends this job soon
        uint64_t job = 0;
        (void)std::from_chars(text->data(), text->data() + text->size(), job, 16);
        owner_ = std::make_shared<checkpoint::FolderOwner>(folder, job);
        return {};
    }
    std::vector<checkpoint::OwnerProcess> processes;
    for (const uint32_t rank : manager_ranks) {
        const Result<std::string> text = bootstrap.get(rank, kProcessKey);
        if (!text) return {};
        WEIR_ASSIGN(checkpoint::OwnerProcess process, checkpoint::OwnerProcess::decode(*text));
        processes.push_back(std::move(process));
    }
    return owner_->set_processes(processes);
}

}  // namespace weir
