// SPDX-License-Identifier: Apache-2.0
#include "lib/job/job.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

#include <fmt/core.h>

#include "lib/base/config.h"
#include "lib/base/fnv.h"
#include "lib/base/log.h"
#include "lib/base/sys_file.h"
#include "lib/base/topology.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/contact.h"
#include "lib/bootstrap/find_contact.h"
#include "lib/bootstrap/identity.h"
#include "lib/bootstrap/rendezvous.h"
#include "lib/bootstrap/secret.h"
#include "lib/job/devices.h"
#include "lib/job/job_checkpoints.h"
#include "lib/job/manager_settings.h"
#include "lib/job/managers.h"
#include "lib/job/pinning.h"
#include "lib/job/rendezvous_machine.h"
#include "lib/job/roles.h"
#include "lib/node/lease_line.h"
#include "lib/node/life_line.h"
#include "lib/node/manager.h"
#include "lib/node/operator.h"
#include "lib/node/runtime.h"
#include "lib/ring/view_data.h"
#include "lib/server/shard.h"
#include "lib/store/rule_registry.h"
#include "lib/worker/client_state.h"

extern char** environ;  // NOLINT: POSIX's

namespace weir {
namespace {

/// Whether the ring has room for all shards.
Status check_shard_count(const JobOptions& options) {
    const uint64_t shards = uint64_t{options.servers} * options.shards_per_server;
    if (shards <= ViewLimits::kShardsMax) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format("--servers {} with --shards {}: {} shards are more than the {} that a "
                    "job may have; use fewer",
                    options.servers, options.shards_per_server, shards, ViewLimits::kShardsMax));
}

constexpr std::chrono::milliseconds kLookForSignals(100);
/// After the end of a process's servers: one of several managers may be needed for longer.
constexpr std::chrono::seconds kLookForManager(5);
constexpr uint64_t kAskToLeaveNs = 3 * kSecond;      // then it looks whether there is time left
constexpr uint64_t kAskWhatItHoldsNs = 2 * kSecond;  // there is none
constexpr uint64_t kLifeLineNs = 10 * kSecond;       // for the manager to answer on a life line
constexpr std::string_view kThreadsKey = "weir-threads";
constexpr size_t kShardsPerCpu = 16;  // beyond this, a warning is logged
/// Beyond this, a job does not start: each thread polls, and passes would take minutes instead of
/// milliseconds.
constexpr size_t kThreadsPerCpuMax = 100;

/// Refuses more threads than this process's CPUs can serve.
Status check_thread_count(const JobOptions& options, const Roles& roles) {
    const size_t shards = size_t{roles.local_servers} * options.shards_per_server;
    const size_t workers = roles.shape.local_workers;
    const size_t cpus = allowed_cpus().size();
    if (shards + workers <= kThreadsPerCpuMax * cpus) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format("{} threads of shards and {} of workers in one process are more than {} for "
                    "each of its {} CPUs; use fewer --shards, --servers or --workers, or more "
                    "processes",
                    shards, workers, kThreadsPerCpuMax, cpus));
}

/// Whether a server that wants to leave asks again soon: it is still joining, or the manager has not
/// answered, or has too much to answer.
bool may_ask_again(Errc answer) {
    return answer == Errc::kNotFound || answer == Errc::kBusy || answer == Errc::kDeadline ||
           answer == Errc::kPeerLost;
}

Result<IdleOptions> idle_options(const Config& config) {
    IdleOptions idle;
    WEIR_ASSIGN(const uint64_t spin_us, config.number("WEIR_SPIN_US"));
    idle.spin_ns = spin_us * kMicrosecond;
    return idle;
}

/// A random number that is not 0: nobody else has it.
uint64_t make_number() {
    const transport::Secret bytes = make_secret();
    uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number | 1;
}

}  // namespace

class Job::Part {
public:
    Part(const JobOptions& options, const Config& config) : options_(options), config_(config) {}

    Status start();
    Status join(const JoinOptions& how);

    [[nodiscard]] const JobShape& shape() const noexcept { return roles_.shape; }

    [[nodiscard]] Result<Client> make_client(uint32_t i);
    void run_workers(const std::function<void(uint32_t)>& work);
    [[nodiscard]] Status serve(const std::function<bool()>& wants_to_leave,
                               const std::function<bool()>& must_end);
    [[nodiscard]] Status leave(uint64_t timeout_ns = 10 * kSecond);
    [[nodiscard]] Status give_back_work(Client& client);

    [[nodiscard]] bool leads() const { return managers_.leads(); }

private:
    [[nodiscard]] Status let_another_lead();
    void ask_to_leave(const std::future<Status>& ended);
    [[nodiscard]] Error did_not_leave();
    [[nodiscard]] std::string what_it_holds();
    [[nodiscard]] Status end_before_the_job(Status outcome);
    [[nodiscard]] size_t local_shard_count() const;
    Status find_threads_of_this_process();
    Status publish_threads(Bootstrap& bootstrap);
    Status find_server_cpus(Bootstrap& bootstrap);
    Status find_ranks_of_host(Bootstrap& bootstrap);
    void choose_idle();
    Status choose_cpus_of_shards();
    void set_managers(const std::vector<std::string>& addresses);
    Status plan(uint32_t rank, uint32_t size);
    [[nodiscard]] Result<ManagerOptions> manager_options();
    Status start_manager(ManagerOptions options);
    Status look_for_checkpoints();
    Status start_life_line();
    Status start_lease_line();
    [[nodiscard]] LinkIdentity make_link() const;
    void start_rendezvous(std::unique_ptr<boot::OpenRendezvous> rendezvous);
    Status start_shards();

    JobOptions options_;
    Config config_;
    SteadyClock clock_;
    Roles roles_;
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    std::shared_ptr<Devices> devices_;
    Managers managers_;
    std::string manager_address_;  ///< of several, all: Managers::join()
    IdleOptions idle_;
    std::vector<RankThreads> here_;  ///< the ranks of this host, in the order of their numbers
    size_t self_ = 0;                ///< this rank in `here_`
    std::vector<NumaNode> nodes_;    ///< of this machine, if shards may be pinned
    std::vector<int> shard_cpus_;    ///< of the local shards; none: they are not pinned
    std::vector<std::future<Status>> shards_ended_;
    std::future<Status> manager_ended_;  ///< that of this process, if it has one
    std::optional<ShardJoin> join_;      ///< of a server that joins a running job
    uint64_t joiner_ = 0;                ///< of a process that does
    bool has_iterations_ = true;         ///< its workers take part in iterations
    bool has_asked_to_leave_ = false;    ///< and was answered
    std::string why_it_stays_;           ///< the last answer; empty: it leaves
    ContactFile contact_file_;
    uint64_t process_ = make_number();  ///< of its life line
    std::shared_ptr<ManagerLife> manager_life_ = std::make_shared<ManagerLife>();
    std::shared_ptr<ServerLease> lease_ = std::make_shared<ServerLease>();  ///< of its server
    std::unique_ptr<Runtime> life_line_;   ///< ends after all members of this process
    std::unique_ptr<Runtime> lease_line_;  ///< of a process with a server
    JobCheckpoints checkpoints_;
    std::unique_ptr<DiskThread> disk_;     ///< of a process with a server
    std::unique_ptr<Runtime> rendezvous_;  ///< of rank 0, while newcomers may find the job there
    std::unique_ptr<Runtime> runtime_;     // last, because its threads use everything above
};

Status Job::Part::start() {
    WEIR_TRY(config_.check());
    if (options_.add_rules) options_.add_rules(rules_);
    WEIR_ASSIGN(const std::unique_ptr<Bootstrap> bootstrap, detect_bootstrap(config_, clock_));
    WEIR_ASSIGN(const uint64_t deadline_ns, join_deadline_ns(config_, clock_));
    if (Status planned = plan(bootstrap->rank(), bootstrap->size()); !planned) {
        (void)bootstrap->finish();  // else the launcher ends the job and the error is lost
        return planned;
    }
    roles_.shape.launcher = bootstrap->name();
    WEIR_ASSIGN(idle_, idle_options(config_));
    // Exchange the secret first, because every endpoint needs it; then the manager's address.
    WEIR_ASSIGN(const JobIdentity identity,
                exchange_identity(*bootstrap, "", deadline_ns,
                                  std::string(config_.text("WEIR_SECRET_FILE"))));
    const bool others_may_join =
        !options_.contact_file.empty() || !config_.text("WEIR_RENDEZVOUS").empty();
    WEIR_ASSIGN(devices_,
                Devices::open(config_, identity.secret, bootstrap->size() > 1 || others_may_join));
    roles_.shape.transports = devices_->names();
    runtime_ = std::make_unique<Runtime>(idle_);
    WEIR_TRY(publish_threads(*bootstrap));
    choose_idle();  // as far as this process knows yet: for the manager
    const bool has_manager = Managers::is_at(identity.rank, options_.managers);
    ManagerOptions manager;
    if (has_manager) {
        WEIR_ASSIGN(manager, manager_options());
        WEIR_TRY(managers_.publish(*bootstrap, *devices_, options_.managers, process_));
    }
    const bool is_one_of_several = has_manager && options_.managers > 1;
    const ManagerSettings settings = is_one_of_several ? ManagerSettings(options_.managers, manager)
                                                       : ManagerSettings(options_.managers);
    WEIR_TRY(settings.publish(*bootstrap));
    WEIR_TRY(bootstrap->exchange(deadline_ns));
    if (Status same = ManagerSettings::compare(*bootstrap); !same) {
        (void)bootstrap->finish();
        return same;
    }
    WEIR_TRY(managers_.find(*bootstrap, options_.managers));
    set_managers(managers_.addresses());
    if (has_manager) WEIR_TRY(start_manager(std::move(manager)));
    WEIR_TRY(find_server_cpus(*bootstrap));
    WEIR_TRY(find_ranks_of_host(*bootstrap));
    const Contact contact{manager_address_, identity.secret};
    WEIR_ASSIGN(std::unique_ptr<boot::OpenRendezvous> rendezvous, bootstrap->stay_open(contact));
    if (rendezvous) start_rendezvous(std::move(rendezvous));
    choose_idle();
    WEIR_TRY(choose_cpus_of_shards());
    WEIR_TRY(start_life_line());
    WEIR_TRY(start_shards());
    if (options_.contact_file.empty()) return {};
    const auto writer =
        roles_.shape.rank == 0 ? ContactFile::Writer::kRank0 : ContactFile::Writer::kOtherRank;
    WEIR_ASSIGN(contact_file_, ContactFile::write(options_.contact_file, contact, writer));
    return {};
}

/// What this process does, and whether it can.
Status Job::Part::plan(uint32_t rank, uint32_t size) {
    WEIR_ASSIGN(Roles roles, plan_roles(options_, rank, size));
    WEIR_TRY(check_shard_count(options_));
    WEIR_TRY(check_thread_count(options_, roles));
    WEIR_TRY(ContactFile::check_place(options_.contact_file));
    roles_ = std::move(roles);
    return look_for_checkpoints();
}

Status Job::Part::join(const JoinOptions& how) {
    WEIR_TRY(config_.check());
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
    WEIR_ASSIGN(devices_, Devices::open(config_, contact.secret, true));
    roles_.shape.transports = devices_->names();
    runtime_ = std::make_unique<Runtime>(idle_);
    set_managers(Managers::split(contact.manager_address));
    joiner_ = make_number();
    has_iterations_ = how.has_iterations;
    if (how.shards != 0)
        join_ = ShardJoin{joiner_, how.shards, how.weight, Devices::store_room_bytes()};
    WEIR_TRY(find_threads_of_this_process());
    choose_idle();
    WEIR_TRY(choose_cpus_of_shards());
    WEIR_TRY(start_life_line());
    return start_shards();
}

size_t Job::Part::local_shard_count() const {
    return size_t{roles_.local_servers} * options_.shards_per_server;
}

Status Job::Part::publish_threads(Bootstrap& bootstrap) {
    WEIR_TRY(find_threads_of_this_process());
    return bootstrap.put(kThreadsKey, here_[0].encode());
}

Status Job::Part::find_threads_of_this_process() {
    RankThreads mine;
    mine.host = boot::this_host_id();
    mine.shard_count = static_cast<uint32_t>(local_shard_count());
    mine.worker_count = roles_.shape.local_workers;
    const bool has_manager = joiner_ == 0 && Managers::is_at(roles_.shape.rank, options_.managers);
    mine.manager_count = has_manager ? 1 : 0;
    WEIR_ASSIGN(const PinPolicy policy, pin_policy(config_));
    if (policy == PinPolicy::kNever || mine.shard_count == 0) {
        mine.cpus = allowed_cpus();
    } else {
        Topology topology = read_topology();
        mine.cpus = cpus_for_threads(topology, topology.allowed_cpus.size());
        if (mine.cpus.empty()) mine.cpus = topology.allowed_cpus;  // cores are not known
        nodes_ = std::move(topology.nodes);
    }
    here_ = {mine};
    return {};
}

Status Job::Part::find_server_cpus(Bootstrap& bootstrap) {
    WEIR_ASSIGN(const std::string text, bootstrap.get(0, kThreadsKey));
    std::optional<RankThreads> threads = RankThreads::decode(text);
    if (threads && threads->host == here_[self_].host) {
        roles_.shape.server_cpus = std::move(threads->cpus);
    }
    return {};
}

Status Job::Part::find_ranks_of_host(Bootstrap& bootstrap) {
    RankThreads mine = std::move(here_[self_]);
    here_.clear();
    for (uint32_t rank = 0; rank < roles_.shape.size; ++rank) {
        if (rank == roles_.shape.rank) {
            self_ = here_.size();
            here_.push_back(mine);
            continue;
        }
        WEIR_ASSIGN(const std::string text, bootstrap.get(rank, kThreadsKey));
        std::optional<RankThreads> threads = RankThreads::decode(text);
        if (threads && threads->host == mine.host) here_.push_back(std::move(*threads));
    }
    return {};
}

/// Where threads share CPUs, a thread that spins only delays the others. (Idle itself finds out
/// whether threads of other programs want the CPU.)
void Job::Part::choose_idle() {
    if (idle_.spin_ns == 0 || !threads_share_cpus(here_, self_)) return;
    idle_.spin_ns = 0;
    runtime_->set_idle(idle_);
    log(LogLevel::kDebug,
        "the job's threads share the CPUs of this host: waiting threads do not spin");
}

Status Job::Part::choose_cpus_of_shards() {
    WEIR_ASSIGN(const PinPolicy policy, pin_policy(config_));
    if (policy == PinPolicy::kNever || local_shard_count() == 0) return {};
    shard_cpus_ = choose_cpus(here_, self_, policy);
    if (!shard_cpus_.empty()) {
        log(LogLevel::kDebug, "shards of this process are pinned to CPUs {}",
            cpu_list_text(shard_cpus_));
    }
    return {};
}

/// Before anything of this process connects to them.
void Job::Part::set_managers(const std::vector<std::string>& addresses) {
    manager_address_ = Managers::join(addresses);
    if (addresses.size() > 1) manager_life_->addresses = addresses;
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
    options.replicas = options_.replicas;
    WEIR_ASSIGN(const uint64_t lease_ms, config_.number("WEIR_LEASE_MS"));
    options.lease_ns = lease_ms * kMillisecond;
    options.is_being_stopped = options_.is_being_stopped;
    options.checkpoints = checkpoints_.options;
    options.resume = std::move(checkpoints_.resume);
    return options;
}

Status Job::Part::start_manager(ManagerOptions options) {
    disk_ = std::make_unique<DiskThread>();
    options.checkpoints.disk = disk_->queue();
    WEIR_ASSIGN(std::unique_ptr<StateMachine> manager,
                managers_.make(std::move(options), roles_.shape.rank, clock_, manager_life_));
    manager_ended_ = runtime_->run(std::move(manager));
    return {};
}

/// A folder that servers do not see ends all of them at once.
Status Job::Part::look_for_checkpoints() {
    if (!roles_.shape.is_server) return {};
    checkpoint::RealDisk disk;
    WEIR_ASSIGN(checkpoints_, plan_checkpoints(options_, disk));
    if (checkpoints_.resume && roles_.shape.rank == 0) {
        log(LogLevel::kInfo, "the job goes on from checkpoint {} of {}",
            *checkpoints_.options.resumed_from, checkpoints_.options.resumed_folder);
    }
    return {};
}

/// Before any member of this process: the manager then knows how to learn of its end. Its thread
/// sleeps. If the manager cannot be reached, the members report that.
Status Job::Part::start_life_line() {
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
    life_line_ = std::make_unique<Runtime>(IdleOptions{.spin_ns = 0, .yield_ns = 0});
    (void)life_line_->run(std::make_unique<LifeLine>(std::move(endpoint), clock_, manager_address_,
                                                     process_, manager_life_));
    const uint64_t end_ns = clock_.now_ns() + kLifeLineNs;
    while (!manager_life_->is_tried.load() && clock_.now_ns() < end_ns)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    return local_shard_count() == 0 ? Status() : start_lease_line();
}

/// Its thread sleeps, too.
Status Job::Part::start_lease_line() {
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
    lease_line_ = std::make_unique<Runtime>(IdleOptions{.spin_ns = 0, .yield_ns = 0});
    (void)lease_line_->run(std::make_unique<LeaseLine>(
        std::move(endpoint), clock_, manager_address_, process_, manager_life_, lease_));
    return {};
}

LinkIdentity Job::Part::make_link() const {
    return {make_number(), process_, manager_life_};
}

/// Its thread sleeps until somebody connects.
void Job::Part::start_rendezvous(std::unique_ptr<boot::OpenRendezvous> rendezvous) {
    rendezvous_ = std::make_unique<Runtime>(IdleOptions{.spin_ns = 0, .yield_ns = 0});
    (void)rendezvous_->run(std::make_unique<RendezvousMachine>(std::move(rendezvous)));
}

Status Job::Part::start_shards() {
    if (local_shard_count() == 0) return {};
    if (disk_ == nullptr) disk_ = std::make_unique<DiskThread>();
    if (const size_t cpus = allowed_cpus().size(); local_shard_count() > kShardsPerCpu * cpus) {
        log(LogLevel::kWarning,
            "the {} shards of this process, each a thread, share {} CPUs, which is slow; use fewer "
            "shards",
            local_shard_count(), cpus);
    }
    const StorePlan store = plan_store_pools(nodes_, shard_cpus_, local_shard_count());
    WEIR_TRY(devices_->make_store_pools(config_, store.nodes));
    for (uint32_t i = 0; i < roles_.local_servers; ++i) {
        for (uint32_t shard = 0; shard < options_.shards_per_server; ++shard) {
            const size_t local = size_t{i} * options_.shards_per_server + shard;
            ShardOptions options;
            options.number =
                roles_.first_server * options_.shards_per_server + static_cast<uint32_t>(local);
            options.rank = roles_.shape.rank;
            options.host = fnv1a(boot::this_host_id());
            options.manager_address = manager_address_;
            options.link = make_link();
            options.join = join_;
            options.lease = lease_;
            options.disk = disk_->queue();
            options.lending.memory = &devices_->lent_memory();
            const size_t pool = store.pool_of_shard[local];
            options.list_cache_bytes =
                devices_->store_cache_bytes(pool) /
                static_cast<size_t>(std::ranges::count(store.pool_of_shard, pool));
            WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
            auto machine = std::make_unique<Shard>(std::move(options), std::move(endpoint), clock_,
                                                   devices_->store_memory(pool), rules_);
            std::optional<int> cpu;
            if (!shard_cpus_.empty()) cpu = shard_cpus_[local];
            shards_ended_.push_back(runtime_->run(std::move(machine), cpu));
        }
    }
    return {};
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
    options.manager_address = manager_address_;
    options.link = make_link();
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

void Job::Part::run_workers(const std::function<void(uint32_t)>& work) {
    Runtime workers(idle_);
    for (uint32_t i = 0; i < roles_.shape.local_workers; ++i)
        workers.run([&work, i] { work(i); },
                    fmt::format("worker {}", roles_.shape.first_worker + i));
    workers.join();
}

Status Job::Part::serve(const std::function<bool()>& wants_to_leave,
                        const std::function<bool()>& must_end) {
    Status first;
    const auto ends_now = [&] { return must_end && must_end(); };
    for (std::future<Status>& ended : shards_ended_) {
        while (ended.wait_for(kLookForSignals) != std::future_status::ready) {
            if (ends_now()) return did_not_leave();
            if (wants_to_leave && !has_asked_to_leave_ && wants_to_leave()) ask_to_leave(ended);
        }
        Status status = ended.get();
        if (first && !status) first = std::move(status);
    }
    shards_ended_.clear();
    if (!manager_ended_.valid()) return first;
    // Other servers learn from our manager that the job is over: wait until it has told them.
    managers_.end_of_process();
    if (manager_ended_.wait_for(kLookForManager) != std::future_status::ready) {
        log(first ? LogLevel::kInfo : LogLevel::kWarning,
            "{}; the manager in this process stays until the job is over",
            first ? "this process has no server any more" : first.error().text());
    }
    while (manager_ended_.wait_for(kLookForSignals) != std::future_status::ready) {
        if (ends_now()) return end_before_the_job(std::move(first));
    }
    const Status managed = manager_ended_.get();
    rendezvous_.reset();
    return first ? managed : first;
}

/// `ended`: a shard, which may have ended by now.
void Job::Part::ask_to_leave(const std::future<Status>& ended) {
    const Status accepted = leave(kAskToLeaveNs);
    has_asked_to_leave_ = !may_ask_again(accepted.code());
    why_it_stays_ = accepted ? std::string() : accepted.error().message();
    if (accepted) return log(LogLevel::kInfo, "this server hands over what it holds, and ends");
    if (accepted.code() == Errc::kCancelled) {  // all servers are told so
        log(LogLevel::kDebug, "{}", why_it_stays_);
    } else if (accepted.code() == Errc::kDeadline) {  // that took a while
        log(LogLevel::kWarning, "{}; this server asks again", why_it_stays_);
    } else if (has_asked_to_leave_ &&
               ended.wait_for(kLookForSignals) != std::future_status::ready) {
        log(LogLevel::kWarning, "{}; it serves on", why_it_stays_);
    }
}

/// There is no more time.
Error Job::Part::did_not_leave() {
    std::string text = "this server ends, and has not handed over what it holds";
    if (const std::string holds = what_it_holds(); !holds.empty())
        text += fmt::format(" ({})", holds);
    if (!why_it_stays_.empty()) text += ": " + why_it_stays_;
    if (manager_ended_.valid() && options_.managers == 1)
        text += "; the job ends with it, because the manager is in this process";
    return {Errc::kDeadline, text};
}

/// Of this process's servers; empty if the manager does not say, or does not know them by their numbers.
std::string Job::Part::what_it_holds() {
    if (joiner_ != 0) return {};
    Result<std::unique_ptr<transport::Endpoint>> endpoint = devices_->make_endpoint();
    if (!endpoint) return {};
    Operator to_manager(*std::move(endpoint), Managers::split(manager_address_), clock_,
                        kAskWhatItHoldsNs);
    const Result<JobStatus> status = to_manager.status();
    if (!status) return {};
    uint32_t segments = 0;
    double share = 0;
    for (const JobStatus::Server& server : status->servers) {
        if (server.number - roles_.first_server >= roles_.local_servers) continue;
        for (const JobStatus::Shard& shard : server.shards) {
            segments += shard.segments;
            share += shard.share;
        }
    }
    return fmt::format("{} of {} segments, {:.1f} % of the parameters", segments, status->segments,
                       share * 100);
}

/// This process has no server any more, and no more time for its manager.
Status Job::Part::end_before_the_job(Status outcome) {
    (void)managers_.hand_over();
    log(LogLevel::kInfo, "this process ends before the job, and with it one of its {} managers",
        options_.managers);
    return outcome;
}

Status Job::Part::leave(uint64_t timeout_ns) {
    if (roles_.local_servers != 1) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("this process has {} servers: only a process with one server can "
                                 "leave",
                                 roles_.local_servers));
    }
    WEIR_TRY(let_another_lead());
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices_->make_endpoint());
    Operator to_manager(std::move(endpoint), Managers::split(manager_address_), clock_, timeout_ns);
    WEIR_TRY(to_manager.leave_by_itself(roles_.first_server, joiner_));
    managers_.process_leaves();
    return {};
}

Status Job::Part::give_back_work(Client& client) {
    WEIR_TRY(let_another_lead());
    WEIR_TRY(client.give_back_work());
    managers_.process_leaves();
    return {};
}

/// The manager that leads would take its own signal for the end of the whole job.
Status Job::Part::let_another_lead() {
    const bool is_being_stopped = options_.is_being_stopped && options_.is_being_stopped();
    Status handed = managers_.hand_over();
    return is_being_stopped ? handed : Status();
}

Job::Job(std::unique_ptr<Part> part) : part_(std::move(part)) {}

Job::~Job() = default;

Result<std::unique_ptr<Job>> Job::start(const JobOptions& options, const Config& config) {
    auto part = std::make_unique<Part>(options, config);
    WEIR_TRY(part->start());
    return std::unique_ptr<Job>(new Job(std::move(part)));
}

Result<std::unique_ptr<Job>> Job::start(const JobOptions& options) {
    return start(options, Config(Environment::snapshot(environ)));
}

Result<std::unique_ptr<Job>> Job::join(const JoinOptions& options, const Config& config) {
    auto part = std::make_unique<Part>(JobOptions{}, config);
    WEIR_TRY(part->join(options));
    return std::unique_ptr<Job>(new Job(std::move(part)));
}

Result<std::unique_ptr<Job>> Job::join(const JoinOptions& options) {
    return join(options, Config(Environment::snapshot(environ)));
}

const JobShape& Job::shape() const noexcept {
    return part_->shape();
}

Result<Client> Job::make_client(uint32_t i) {
    return part_->make_client(i);
}

void Job::run_workers(const std::function<void(uint32_t)>& work) {
    part_->run_workers(work);
}

Status Job::run_workers(const std::function<Status(Client&)>& work) {
    std::vector<Status> outcomes(shape().local_workers);
    run_workers([&](uint32_t i) {
        Result<Client> client = make_client(i);
        if (!client) {
            outcomes[i] = std::move(client).error();
            return;
        }
        outcomes[i] = work(*client);
        Status left = client->leave(outcomes[i]);
        if (outcomes[i]) outcomes[i] = std::move(left);
    });
    Status first;
    for (uint32_t i = 0; i < outcomes.size(); ++i) {
        const Status& outcome = outcomes[i];
        if (outcome || !(first || first.code() == Errc::kPeerLost)) continue;
        if (!first && outcome.code() == Errc::kPeerLost) continue;
        first =
            Error(outcome.code(),
                  fmt::format("worker {}: {}", shape().first_worker + i, outcome.error().text()),
                  outcome.error().os_error());
    }
    return first;
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
