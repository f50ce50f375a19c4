// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/bootstrap/find_contact.h"
#include "lib/bootstrap/identity.h"
#include "lib/bootstrap/reached_at.h"
#include "lib/job/job_variables.h"
#include "lib/job/open_files.h"
#include "lib/job/part/job_part.h"
#include "lib/job/part/plugins_of_ranks.h"
#include "lib/job/unique_number.h"
#include "lib/store/plugins/plugin.h"

namespace weir {
namespace {

Result<IdleOptions> idle_options(const Config& config) {
    IdleOptions idle;
    WEIR_ASSIGN(const uint64_t spin_us, config.number("WEIR_SPIN_US"));
    idle.spin_ns = spin_us * kMicrosecond;
    return idle;
}

}  // namespace

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
    WEIR_TRY(load_rules());
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
    if (Status ready = after_first_exchange(*bootstrap, deadline_ns); !ready) {
        (void)bootstrap->finish();
        return ready;
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
    WEIR_TRY(reserve_files(options_, roles_, *devices_));  // before this process opens much
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

/// The program's, and then those of plugins, which so cannot take the names of the program's.
Status Job::Part::load_rules() {
    if (options_.add_rules) options_.add_rules(rules_);
    const auto loaded = load_plugins(options_.plugins, rules_);
    if (!loaded) return of_option("plugins", loaded.error());
    for (const Plugin& plugin : *loaded) {
        log(LogLevel::kDebug, "the plugin {} is loaded, with {} rules", plugin.path,
            plugin.rules.size());
        plugins_.plugins.push_back(plugin.is);
    }
    return {};
}

Status Job::Part::after_first_exchange(Bootstrap& bootstrap, uint64_t deadline_ns) {
    WEIR_TRY(compare_plugins(bootstrap, roles_.server_ranks));
    return take_checkpoint(bootstrap, deadline_ns);
}

/// What this process does, and whether it can.
Status Job::Part::plan(Bootstrap& bootstrap, uint64_t deadline_ns) {
    WEIR_ASSIGN(Roles roles, plan_roles(options_, bootstrap.rank(), bootstrap.size()));
    WEIR_TRY(check_thread_count(options_, roles));
    if (const Status usable = ContactFile::check_place(options_.contact_file); !usable)
        return of_option("contact_file", usable.error());
    roles_ = std::move(roles);
    if (roles_.shape.is_server) WEIR_TRY(publish_plugins(bootstrap, plugins_));
    return look_for_checkpoints(bootstrap, deadline_ns);
}

Status Job::Part::join(const JoinOptions& how) {
    WEIR_TRY(begin());
    if (how.shards == 0 && how.workers == 0)
        return Error(Errc::kInvalidArgument, "a process joins a job with shards, workers or both");
    WEIR_ASSIGN(const Contact contact, find_contact(how.contact, config_, clock_));
    options_ = {.servers = 1, .shards_per_server = how.shards, .workers = how.workers};
    options_.add_rules = how.add_rules;
    options_.plugins = plugins_with_variable(how.plugins, config_);
    WEIR_TRY(load_rules());
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
        join_ = ShardJoin{joiner_, how.shards, how.weight, Devices::store_room_bytes(),
                          plugins_.encode()};
    WEIR_ASSIGN(threads_, threads_of_this_process());
    choose_idle();
    threads_.choose_cpus_of_shards();
    WEIR_TRY(start_lines());
    WEIR_TRY(start_shards());
    has_begun_ = true;
    return {};
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

/// Where threads share CPUs, a thread that spins only delays the others. (Idle itself finds out
/// whether threads of other programs want the CPU.)
void Job::Part::choose_idle() {
    if (idle_.spin_ns == 0 || !threads_.share_cpus()) return;
    idle_.spin_ns = 0;
    runtime_->set_idle(idle_);
    log(LogLevel::kDebug,
        "the job's threads share the CPUs of this host: waiting threads do not spin");
}

}  // namespace weir
