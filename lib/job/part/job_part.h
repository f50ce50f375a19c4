// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Job::Part: what a process has of its job. start.cc: how it begins; managers.cc: managers, and the
/// checkpoints that they write and go on from; members.cc: servers and workers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/contact.h"
#include "lib/checkpoint/folder_owner.h"
#include "lib/job/devices.h"
#include "lib/job/host_threads.h"
#include "lib/job/job.h"
#include "lib/job/job_checkpoints.h"
#include "lib/job/managers.h"
#include "lib/job/part/manager_lines.h"
#include "lib/job/part/rendezvous_machine.h"
#include "lib/job/roles.h"
#include "lib/job/serving.h"
#include "lib/manager/manager.h"
#include "lib/node/runtime.h"
#include "lib/server/shard.h"
#include "lib/store/plugins/plugin_list.h"
#include "lib/store/rules/rule_registry.h"

namespace weir {

/// Thread: as Job
class Job::Part {
public:
    Part(const JobOptions& options, const Config& config) : options_(options), config_(config) {}

    ~Part() {
        // Of a job of one process nobody else is there, unless others may join.
        if (has_begun_ && (roles_.shape.size > 1 || may_be_joined_ || joiner_ != 0))
            serving_->end(roles_.shape.rank);
        // Of several managers, others may go on.
        const bool is_over = !serving_ || !serving_->has_manager() || managers_.places().size() < 2;
        if (owner_ != nullptr && is_over) owner_->give_up();
    }

    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    Status begin();
    Status load_rules();
    Status start();
    Status join(const JoinOptions& how);

    [[nodiscard]] const JobShape& shape() const noexcept { return roles_.shape; }

    [[nodiscard]] Result<Client> make_client(uint32_t i);
    [[nodiscard]] Status serve(const std::function<bool()>& wants_to_leave,
                               const std::function<bool()>& must_end);

    [[nodiscard]] Status leave() { return serving_->leave(); }

    [[nodiscard]] Status give_back_work(Client& client) { return serving_->give_back_work(client); }

    [[nodiscard]] bool leads() const { return managers_.leads(); }

private:
    [[nodiscard]] bool has_client(uint32_t i);
    [[nodiscard]] size_t local_shard_count() const;
    [[nodiscard]] Result<HostThreads> threads_of_this_process() const;
    void choose_idle();
    [[nodiscard]] std::vector<uint32_t> place_managers();
    [[nodiscard]] Status warn_of_long_lease() const;
    [[nodiscard]] Status find_managers(Bootstrap& bootstrap, std::span<const uint32_t> ranks,
                                       uint64_t deadline_ns);
    void set_managers(const std::vector<ManagerPlace>& managers);
    Status plan(Bootstrap& bootstrap, uint64_t deadline_ns);
    [[nodiscard]] Result<ManagerOptions> manager_options();
    Status start_manager(ManagerOptions options);
    Status look_for_checkpoints(Bootstrap& bootstrap, uint64_t deadline_ns);
    Status after_first_exchange(Bootstrap& bootstrap, uint64_t deadline_ns);
    Status take_checkpoint(Bootstrap& bootstrap, uint64_t deadline_ns);
    Status keep_folder(Bootstrap& bootstrap, std::span<const uint32_t> manager_ranks);
    Status start_lines();
    void start_rendezvous(std::unique_ptr<boot::OpenRendezvous> rendezvous);
    Status start_shards();
    void start_disk();
    [[nodiscard]] ShardOptions shard_options(const StorePlan& stores, size_t shard);

    JobOptions options_;
    Config config_;
    SteadyClock clock_;
    Roles roles_;
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    PluginList plugins_;  ///< of which it has rules, too
    std::shared_ptr<Devices> devices_;
    Managers managers_;
    IdleOptions idle_;
    HostThreads threads_;
    std::optional<Serving> serving_;  ///< once the managers are known
    bool has_begun_ = false;          ///< start() or join() has come to its end
    bool may_be_joined_ = false;
    std::optional<ShardJoin> join_;  ///< of a server that joins a running job
    uint64_t joiner_ = 0;            ///< of a process that does
    bool has_iterations_ = true;     ///< its workers take part in iterations
    std::mutex clients_mutex_;
    std::set<uint32_t> clients_made_;  ///< guarded by clients_mutex_
    ContactFile contact_file_;
    ManagerLines lines_{clock_};  ///< end after all members of this process
    JobCheckpoints checkpoints_;
    /// Of a process with a manager: the folder for checkpoints is this job's.
    std::shared_ptr<checkpoint::FolderOwner> owner_;
    std::unique_ptr<DiskThread> disk_;     ///< of a process with a server
    std::unique_ptr<Runtime> rendezvous_;  ///< of rank 0, while newcomers may find the job there
    std::unique_ptr<Runtime> runtime_;     // last, because its threads use everything above
};

}  // namespace weir
