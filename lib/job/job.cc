// SPDX-License-Identifier: Apache-2.0
#include "lib/job/job.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "lib/base/config.h"
#include "lib/base/fnv.h"
#include "lib/base/log.h"
#include "lib/base/machine/os_limits.h"
#include "lib/base/machine/topology.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/contact.h"
#include "lib/bootstrap/find_contact.h"
#include "lib/bootstrap/identity.h"
#include "lib/bootstrap/reached_at.h"
#include "lib/bootstrap/rendezvous/rendezvous.h"
#include "lib/checkpoint/folder_owner.h"
#include "lib/job/devices.h"
#include "lib/job/host_spread.h"
#include "lib/job/host_threads.h"
#include "lib/job/job_checkpoints.h"
#include "lib/job/job_variables.h"
#include "lib/job/manager_lines.h"
#include "lib/job/manager_settings.h"
#include "lib/job/managers.h"
#include "lib/job/open_files.h"
#include "lib/job/rendezvous_machine.h"
#include "lib/job/resume_choice.h"
#include "lib/job/roles.h"
#include "lib/job/serving.h"
#include "lib/job/unique_number.h"
#include "lib/manager/manager.h"
#include "lib/node/runtime.h"
#include "lib/server/shard.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/worker/client_state.h"

namespace weir {
namespace {

constexpr std::string_view kChoiceKey = "weir-resume";
constexpr std::string_view kOwnerKey = "weir-owner";
constexpr std::string_view kProcessKey = "weir-process";
/// Of the time in which all ranks must have come, what rank 0 may take to look for damage.
constexpr uint64_t kCheckShare = 3;
constexpr uint64_t kSpareFiles = 4096;  // for processes that join later, and the program itself
constexpr size_t kShardsPerCpu = 16;    // beyond this, a warning is logged

Result<IdleOptions> idle_options(const Config& config) {
    IdleOptions idle;
    WEIR_ASSIGN(const uint64_t spin_us, config.number("WEIR_SPIN_US"));
    idle.spin_ns = spin_us * kMicrosecond;
    return idle;
}

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
    [[nodiscard]] size_t local_shard_count() const;
    [[nodiscard]] Result<HostThreads> threads_of_this_process() const;
    void choose_idle();
    [[nodiscard]] std::vector<uint32_t> place_managers();
    [[nodiscard]] Status warn_of_long_lease() const;
    [[nodiscard]] Status reserve_files() const;
    [[nodiscard]] Status find_managers(Bootstrap& bootstrap, std::span<const uint32_t> ranks,
                                       uint64_t deadline_ns);
    void set_managers(const std::vector<ManagerPlace>& managers);
    Status plan(Bootstrap& bootstrap, uint64_t deadline_ns);
    [[nodiscard]] Result<ManagerOptions> manager_options();
    Status start_manager(ManagerOptions options);
    Status look_for_checkpoints(Bootstrap& bootstrap, uint64_t deadline_ns);
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
    ContactFile contact_file_;
    ManagerLines lines_{clock_};  ///< end after all members of this process
    JobCheckpoints checkpoints_;
    /// Of a process with a manager: the folder for checkpoints is this job's.
    std::shared_ptr<checkpoint::FolderOwner> owner_;
    std::unique_ptr<DiskThread> disk_;     ///< of a process with a server
    std::unique_ptr<Runtime> rendezvous_;  ///< of rank 0, while newcomers may find the job there
    std::unique_ptr<Runtime> runtime_;     // last, because its threads use everything above
};

/// What a process does before anything else for a job.
Status Job::Part::begin() {
    open_standard_streams();
    config_.warn_of_unknown();
    WEIR_TRY(reserve_open_files(0, kSpareFiles));  // rank 0 has a connection of each rank soon
    return config_.check();
}

Status Job::Part::start() {
    WEIR_TRY(begin());
    WEIR_ASSIGN(options_, with_variables(std::move(options_), config_));
    if (options_.add_rules) options_.add_rules(rules_);
    WEIR_ASSIGN(const std::unique_ptr<Bootstrap> bootstrap, detect_bootstrap(config_, clock_));
    WEIR_ASSIGN(const uint64_t deadline_ns, join_deadline_ns(config_, clock_));
    if (Status planned = plan(*bootstrap, deadline_ns); !planned) {
        (void)bootstrap->finish();  // else the launcher ends the job and the error is lost
        return planned;
    }
    roles_.shape.launcher = bootstrap->name();
    WEIR_ASSIGN(idle_, idle_options(config_));
    // Exchange the secret first, because every endpoint needs it, and the hosts, which say where managers are;
    // then the managers' addresses.
    WEIR_ASSIGN(threads_, threads_of_this_process());
    WEIR_TRY(threads_.publish(*bootstrap));
    WEIR_TRY(publish_addresses(*bootstrap));
    WEIR_ASSIGN(const JobIdentity identity,
                exchange_identity(*bootstrap, "", deadline_ns,
                                  std::string(config_.text("WEIR_SECRET_FILE"))));
    if (Status taken = take_checkpoint(*bootstrap, deadline_ns); !taken) {
        (void)bootstrap->finish();
        return taken;
    }
    may_be_joined_ = !options_.contact_file.empty() || !config_.text("WEIR_RENDEZVOUS").empty();
    WEIR_ASSIGN(const transport::SocketAddress reached_at, address_for_others(*bootstrap));
    WEIR_ASSIGN(devices_, Devices::open(config_, identity.secret,
                                        bootstrap->size() > 1 || may_be_joined_, reached_at));
    roles_.shape.transports = devices_->names();
    runtime_ = std::make_unique<Runtime>(idle_);
    WEIR_TRY(threads_.find_ranks(*bootstrap));
    WEIR_ASSIGN(roles_.shape.server_cpus, threads_.cpus_of_rank_0(*bootstrap));
    const std::vector<uint32_t> manager_ranks = place_managers();
    WEIR_TRY(keep_folder(*bootstrap, manager_ranks));
    WEIR_TRY(warn_of_long_lease());
    WEIR_TRY(reserve_files());
    choose_idle();
    WEIR_TRY(find_managers(*bootstrap, manager_ranks, deadline_ns));
    const Contact contact{Managers::join(managers_.places()), identity.secret};
    WEIR_ASSIGN(std::unique_ptr<boot::OpenRendezvous> rendezvous, bootstrap->stay_open(contact));
    if (rendezvous) start_rendezvous(std::move(rendezvous));
    threads_.choose_cpus_of_shards();
    WEIR_TRY(start_lines());
    WEIR_TRY(start_shards());
    has_begun_ = true;
    if (options_.contact_file.empty()) return {};
    const auto writer =
        roles_.shape.rank == 0 ? ContactFile::Writer::kRank0 : ContactFile::Writer::kOtherRank;
    WEIR_ASSIGN(contact_file_, ContactFile::write(options_.contact_file, contact, writer));
    return {};
}

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

/// Calls that wait for a server that is out of reach would end before others take over from it.
Status Job::Part::warn_of_long_lease() const {
    WEIR_ASSIGN(const uint64_t lease_ms, config_.number("WEIR_LEASE_MS"));
    WEIR_ASSIGN(const uint64_t deadline_ms, config_.number("WEIR_DEADLINE_MS"));
    if (roles_.shape.rank != 0 || options_.replicas == 0 || 3 * lease_ms <= deadline_ms) return {};
    log(LogLevel::kWarning,
        "WEIR_LEASE_MS={} is more than a third of WEIR_DEADLINE_MS={}: when a server is out of "
        "reach, calls may end with an error before others take over from it; shorten the lease, or "
        "lengthen the deadline",
        lease_ms, deadline_ms);
    return {};
}

/// Once it is known where managers are, and before this process opens much.
Status Job::Part::reserve_files() const {
    OpenFilesPlan plan;
    plan.replicas = options_.replicas;
    plan.shards_per_server = options_.shards_per_server;
    plan.managers = options_.managers;
    plan.transports = devices_->count();
    plan.maps_memory = devices_->has_shm();
    return reserve_open_files(needed_open_files(roles_, plan), kSpareFiles);
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

/// What this process does, and whether it can.
Status Job::Part::plan(Bootstrap& bootstrap, uint64_t deadline_ns) {
    WEIR_ASSIGN(Roles roles, plan_roles(options_, bootstrap.rank(), bootstrap.size()));
    WEIR_TRY(check_thread_count(options_, roles));
    WEIR_TRY(ContactFile::check_place(options_.contact_file));
    roles_ = std::move(roles);
    return look_for_checkpoints(bootstrap, deadline_ns);
}

Status Job::Part::join(const JoinOptions& how) {
    WEIR_TRY(begin());
    if (how.shards == 0 && how.workers == 0)
        return Error(Errc::kInvalidArgument, "a process joins a job with shards, workers or both");
    WEIR_ASSIGN(const Contact contact, find_contact(how.contact, config_, clock_));
    options_ = {.servers = 1, .shards_per_server = how.shards, .workers = how.workers};
    options_.add_rules = how.add_rules;
    if (options_.add_rules) options_.add_rules(rules_);
    roles_.local_servers = how.shards == 0 ? 0 : 1;
    roles_.shape.is_server = how.shards != 0;
    roles_.shape.local_workers = how.workers;
    roles_.shape.worker_count = 0;
    roles_.shape.server_count = 0;
    roles_.shape.launcher = "join";
    WEIR_TRY(check_thread_count(options_, roles_));
    WEIR_ASSIGN(idle_, idle_options(config_));
    WEIR_ASSIGN(const std::vector<ManagerPlace> managers, Managers::split(contact.manager_address));
    WEIR_ASSIGN(devices_, Devices::open(config_, contact.secret, true,
                                        address_towards(managers.front().address)));
    roles_.shape.transports = devices_->names();
    runtime_ = std::make_unique<Runtime>(idle_);
    joiner_ = make_unique_number();
    set_managers(managers);
    has_iterations_ = how.has_iterations;
    if (how.shards != 0)
        join_ = ShardJoin{joiner_, how.shards, how.weight, Devices::store_room_bytes()};
    WEIR_ASSIGN(threads_, threads_of_this_process());
    choose_idle();
    threads_.choose_cpus_of_shards();
    WEIR_TRY(start_lines());
    WEIR_TRY(start_shards());
    has_begun_ = true;
    return {};
}

size_t Job::Part::local_shard_count() const {
    return size_t{roles_.local_servers} * options_.shards_per_server;
}

Result<HostThreads> Job::Part::threads_of_this_process() const {
    HostThreads::Counts counts;
    counts.shards = static_cast<uint32_t>(local_shard_count());
    counts.workers = roles_.shape.local_workers;
    return HostThreads::of_this_process(config_, counts);
}

/// Where threads share CPUs, a thread that spins only delays the others. (Idle itself finds out
/// whether threads of other programs want the CPU.)
void Job::Part::choose_idle() {
    if (idle_.spin_ns == 0 || !threads_.share_cpus()) return;
    idle_.spin_ns = 0;
    runtime_->set_idle(idle_);
    log(LogLevel::kDebug,
        "the job's threads share the CPUs of this host: waiting threads do not spin");
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

Status Job::Part::start_lines() {
    WEIR_TRY(lines_.start_life_line(*devices_));
    return lines_.start_lease_line(*devices_, local_shard_count() > 0);
}

/// Its thread sleeps until somebody connects.
void Job::Part::start_rendezvous(std::unique_ptr<boot::OpenRendezvous> rendezvous) {
    rendezvous_ = std::make_unique<Runtime>(IdleOptions{.spin_ns = 0, .yield_ns = 0});
    (void)rendezvous_->run(std::make_unique<RendezvousMachine>(std::move(rendezvous)));
}

Status Job::Part::start_shards() {
    if (local_shard_count() == 0) return {};
    if (disk_ == nullptr) start_disk();
    if (const size_t cpus = allowed_cpus().size(); local_shard_count() > kShardsPerCpu * cpus) {
        log(LogLevel::kWarning,
            "the {} shards of this process, each a thread, share {} CPUs, which is slow; use fewer "
            "shards",
            local_shard_count(), cpus);
    }
    const StorePlan stores = threads_.plan_stores();
    WEIR_TRY(devices_->make_store_pools(config_, stores.nodes));
    for (size_t shard = 0; shard < local_shard_count(); ++shard) {
        WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
        auto machine =
            std::make_unique<Shard>(shard_options(stores, shard), std::move(endpoint), clock_,
                                    devices_->store_memory(stores.pool_of_shard[shard]), rules_);
        serving_->add_shard(runtime_->run(std::move(machine), threads_.cpu_of_shard(shard)));
    }
    return {};
}

void Job::Part::start_disk() {
    disk_ = std::make_unique<DiskThread>(join_ ? "this server"
                                               : fmt::format("rank {}", roles_.shape.rank));
}

/// `shard`: of this process, from 0.
ShardOptions Job::Part::shard_options(const StorePlan& stores, size_t shard) {
    ShardOptions options;
    options.number =
        roles_.first_server * options_.shards_per_server + static_cast<uint32_t>(shard);
    options.rank = roles_.shape.rank;
    const std::string host = boot::this_host_id();
    options.host = fnv1a(host);
    options.host_name = boot::host_name(host);
    options.manager_address = lines_.address();
    options.link = lines_.make_link();
    options.join = join_;
    options.lease = lines_.lease();
    options.disk = disk_->queue();
    options.checkpoint_folder = checkpoints_.options.folder;
    options.lending.memory = &devices_->lent_memory();
    const size_t pool = stores.pool_of_shard[shard];
    options.list_cache_bytes = devices_->store_cache_bytes(pool) /
                               static_cast<size_t>(std::ranges::count(stores.pool_of_shard, pool));
    return options;
}

Result<Client> Job::Part::make_client(uint32_t i) {
    if (i >= roles_.shape.local_workers) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("this process has {} workers, numbered from 0, and no worker {}",
                                 roles_.shape.local_workers, i));
    }
    ClientCoreOptions options;
    options.worker = roles_.shape.first_worker + i;
    options.rank = roles_.shape.rank;
    options.joiner = joiner_;
    options.has_iterations = has_iterations_;
    options.manager_address = lines_.address();
    options.link = lines_.make_link();
    if (!options_.checkpoint_folder.empty()) {
        WEIR_ASSIGN(options.checkpoint_folder, absolute_folder(options_.checkpoint_folder));
    }
    WEIR_ASSIGN(const uint64_t timeout_s, config_.number("WEIR_JOIN_TIMEOUT_S"));
    options.join_timeout_ns = (timeout_s + 5) * kSecond;  // the manager can name missing ranks
    WEIR_ASSIGN(const uint64_t deadline_ms, config_.number("WEIR_DEADLINE_MS"));
    options.deadline_ns = deadline_ms * kMillisecond;
    WEIR_ASSIGN(options.eager_bytes, config_.number("WEIR_EAGER_BYTES"));
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
    WEIR_ASSIGN(std::shared_ptr<Memory> pool, Devices::worker_pool(devices_));
    options.route_cache_bytes = devices_->worker_cache_bytes() / roles_.shape.local_workers;
    auto core = std::make_unique<ClientCore>(std::move(options), std::move(endpoint), clock_, *pool,
                                             rules_);
    auto state = std::make_shared<ClientState>(std::move(core), std::move(pool),
                                               Devices::registrar(devices_), idle_);
    WEIR_TRY(state->join());
    return Client(std::move(state));
}

Status Job::Part::serve(const std::function<bool()>& wants_to_leave,
                        const std::function<bool()>& must_end) {
    Status outcome = serving_->serve(wants_to_leave, must_end);
    if (!serving_->has_manager()) rendezvous_.reset();  // the job is over
    return outcome;
}

Job::Job(std::unique_ptr<Part> part) : part_(std::move(part)) {}

Job::~Job() = default;

Result<std::unique_ptr<Job>> Job::start(const JobOptions& options, const Config& config) {
    auto part = std::make_unique<Part>(options, config);
    WEIR_TRY(part->start());
    return std::unique_ptr<Job>(new Job(std::move(part)));
}

Result<std::unique_ptr<Job>> Job::start(const JobOptions& options) {
    return start(options, Config::of_process());
}

Result<std::unique_ptr<Job>> Job::join(const JoinOptions& options, const Config& config) {
    auto part = std::make_unique<Part>(JobOptions{}, config);
    WEIR_TRY(part->join(options));
    return std::unique_ptr<Job>(new Job(std::move(part)));
}

Result<std::unique_ptr<Job>> Job::join(const JoinOptions& options) {
    return join(options, Config::of_process());
}

const JobShape& Job::shape() const noexcept {
    return part_->shape();
}

Result<Client> Job::make_client(uint32_t i) {
    return part_->make_client(i);
}

Status Job::serve() {
    return part_->serve({}, {});
}

Status Job::serve(const std::function<bool()>& wants_to_leave,
                  const std::function<bool()>& must_end) {
    return part_->serve(wants_to_leave, must_end);
}

Status Job::leave() {
    return part_->leave();
}

Status Job::give_back_work(Client& client) {
    return part_->give_back_work(client);
}

bool Job::leads() const {
    return part_->leads();
}

}  // namespace weir
