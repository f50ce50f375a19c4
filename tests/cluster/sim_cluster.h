// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimCluster: manager, servers and workers in one thread, on simulated time over a simulated
/// network. The same seed, shape and calls give the same history.

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/manager/manager.h"
#include "lib/manager/replicated/replicated_manager.h"
#include "lib/node/lease_line.h"
#include "lib/node/life_line.h"
#include "lib/server/shard.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/worker/client_core.h"
#include "tests/cluster/manager_record.h"
#include "tests/cluster/sim_operator.h"
#include "tests/registered_memory.h"
#include "tests/skewed_clock.h"
#include "tests/table_schemas.h"
#include "transport/fault/fault.h"
#include "transport/sim/network.h"

namespace weir::test {

using testing::dense_table;
using testing::RegisteredMemory;
using testing::sparse_table;
using testing::table_of;

struct SimShape {
    uint32_t servers = 2;
    uint32_t shards = 2;
    uint32_t workers = 3;
    uint32_t message_bytes_max = 8192;
    size_t fetch_bytes_max = size_t{1} << 20;
    size_t waiting_bytes_max = size_t{64} << 20;
    size_t list_cache_bytes = size_t{256} << 20;
    size_t eager_bytes = 4096;
    size_t encoded_bytes_min = 16;
    size_t server_memory_bytes = ~size_t{0};
    size_t lent_bytes_min = 200;  ///< as in LendingOptions
    size_t worker_memory_bytes = ~size_t{0};
    size_t change_bytes_max = Streams::kChangeBytesMax;   ///< as in ShardOptions
    std::shared_ptr<transport::Faults> faults = nullptr;  ///< of the first worker's network
    bool faults_of_all = false;                           ///< of all hosts' networks
    uint32_t managers = 1;          ///< more than 1: each has a host of its own, without faults
    bool is_manager_apart = false;  ///< the manager has a host of its own, without faults
    OnWorkerLoss on_worker_loss = OnWorkerLoss::kStop;
    uint64_t work_lease_ns =
        0;  ///< as in ManagerOptions; 0: workers' processes give no signs of life
    std::function<bool()> is_being_stopped{};  ///< as in ManagerOptions
    uint32_t replicas = 0;
    uint32_t points = 0;  ///< segments of a shard; 0: the manager's choice
    uint64_t lease_ns = kSecond;
    double clock_skew = 0;  ///< so much too fast or too slow some clocks of processes go
    CheckpointOptions
        checkpoints{};         ///< its disk queue is run by the cluster, and is that of all servers
    uint64_t disk_ns_max = 0;  ///< what is done on that disk takes up to so long
    std::optional<checkpoint::Manifest> resume{};
    std::shared_ptr<ManagerRecord> record = nullptr;  ///< if there is one, it is written
    using Endpoint = std::unique_ptr<transport::Endpoint>;
    std::function<Endpoint(Endpoint)> around_shard{};  ///< what a shard has instead of its endpoint
    std::function<Endpoint(Endpoint)> around_manager{};  ///< the same of a manager that is alone
};

/// A server that joins a running cluster.
struct SimJoiner {
    uint32_t shards = 2;
    uint32_t weight = 1;
    uint64_t pool_bytes = 0;
};

class SimCluster {
public:
    SimCluster(uint64_t seed, const SimShape& shape, const transport::sim::Options& options)
        : network(seed, clock, options), shape_(shape), seed_(seed) {
        transport::Device& first = add_host(shape.faults_of_all);
        ManagerOptions manager_options;
        manager_options.server_count = shape.servers;
        manager_options.shards_per_server = shape.shards;
        manager_options.worker_count = shape.workers;
        manager_options.on_worker_loss = shape.on_worker_loss;
        manager_options.work_lease_ns = shape.work_lease_ns;
        manager_options.is_being_stopped = shape.is_being_stopped;
        manager_options.replicas = shape.replicas;
        manager_options.points = shape.points;
        manager_options.lease_ns = shape.lease_ns;
        manager_options.rules = &rules;
        manager_options.checkpoints = shape.checkpoints;
        manager_options.resume = shape.resume;
        shape.managers > 1 ? add_managers(manager_options) : add_manager(manager_options, first);
        for (uint32_t server = 0; server < shape.servers; ++server) {
            transport::Device& device = server == 0 ? first : add_host(shape.faults_of_all);
            add_life_line(server);
            Memory& memory =
                add_memory(device, transport::Access::kLocal, shape.server_memory_bytes);
            Memory& lent = add_lent_memory(device);
            for (uint32_t shard = 0; shard < shape.shards; ++shard) {
                ShardOptions one = shard_options(server * shape.shards + shard, server);
                one.lending = {&lent, shape.lent_bytes_min};
                if (shape.replicas > 0) one.host = server;
                add_shard(one, device, memory);
            }
        }
        for (uint32_t worker = 0; worker < shape.workers; ++worker) {
            ClientCoreOptions worker_options;
            worker_options.worker = worker;
            worker_options.rank = worker;
            add_worker(worker_options, shape.faults_of_all || worker == 0);
        }
    }

    static constexpr uint32_t kManagersHost = 1'000'000;  ///< if it is apart
    static constexpr uint32_t kOperatorsHost = 2'000'000;

    [[nodiscard]] const SimShape& shape() const { return shape_; }

    /// That of several managers which leads, as far as it knows; ~0: none does.
    [[nodiscard]] uint32_t leading_manager() const {
        for (uint32_t i = 0; i < managers.size(); ++i) {
            if (managers[i] != nullptr && managers[i]->leads() &&
                !stopped_hosts.contains(kManagersHost + i))
                return i;
        }
        return ~uint32_t{0};
    }

    /// Another manager is to lead, if this one does.
    void want_handover(uint32_t number) { handovers_[number]->store(Handover::kWanted); }

    [[nodiscard]] Handover handover(uint32_t number) const { return handovers_[number]->load(); }

    /// The manager's process leaves the job.
    void process_leaves(uint32_t number) { leaving_[number]->store(true); }

    /// Its process dies.
    void kill_manager(uint32_t number) {
        network.kill(kManagersHost + number);
        managers[number].reset();
    }

    /// The host of a server is its number, that of a worker comes after all servers. Hosts of those
    /// that join come later.
    [[nodiscard]] uint32_t host_of_worker(uint32_t worker) const { return worker_hosts_[worker]; }

    /// By index in `shards`.
    [[nodiscard]] uint32_t host_of_shard(size_t index) const { return shard_hosts_[index]; }

    /// The shard that a view lists; null if it is dead.
    [[nodiscard]] const Shard* find_shard(const ViewShard& listed) const {
        for (const auto& shard : shards) {
            if (shard != nullptr && shard->address() == listed.address) return shard.get();
        }
        return nullptr;
    }

    /// A server asks to join. Its shards are the last ones of `shards`. Returns its host.
    uint32_t add_server(const SimJoiner& joiner = {}) {
        const auto host = static_cast<uint32_t>(devices_.size());
        transport::Device& device = add_host(shape_.faults_of_all);
        Memory& memory = add_memory(device, transport::Access::kLocal, shape_.server_memory_bytes);
        Memory& lent = add_lent_memory(device);
        add_life_line(host);
        for (uint32_t shard = 0; shard < joiner.shards; ++shard) {
            ShardOptions options = shard_options(shard, host);
            options.host = host;
            options.lending = {&lent, shape_.lent_bytes_min};
            options.join = ShardJoin{host + 1, joiner.shards, joiner.weight, joiner.pool_bytes};
            add_shard(options, device, memory);
        }
        return host;
    }

    /// A worker asks to join. It is the last one of `workers`.
    ClientCore& add_joining_worker(bool has_iterations = true) {
        ClientCoreOptions options;
        options.joiner = 1;
        options.has_iterations = has_iterations;
        add_worker(options, shape_.faults_of_all);
        return *workers.back();
    }

    /// Polls everything; if nothing was done, lets the network take one step. False if there was none
    /// either: then a millisecond passes.
    bool step() {
        const bool is_managed = manager != nullptr && !stopped.contains(manager.get()) &&
                                !stopped_hosts.contains(kManagersHost);
        size_t done = is_managed ? manager->poll() : 0;
        for (uint32_t i = 0; i < managers.size(); ++i) {
            const bool is_here = managers[i] != nullptr && !managers[i]->finished();
            if (is_here && !stopped_hosts.contains(kManagersHost + i)) done += managers[i]->poll();
        }
        for (const auto& one : operators_)
            done += one->poll();
        std::erase_if(operators_, [](const auto& one) { return one->finished(); });
        for (const auto& [host, process] : processes_) {
            done += process.life_line->poll();
            if (process.lease_line != nullptr && !stopped_hosts.contains(host))
                done += process.lease_line->poll();
        }
        for (size_t i = 0; i < shards.size(); ++i) {
            const auto& shard = shards[i];
            // A test may have added a shard by itself, on no host.
            const bool is_still =
                i < shard_hosts_.size() && stopped_hosts.contains(shard_hosts_[i]);
            if (shard != nullptr && !shard->finished() && !stopped.contains(shard.get()) &&
                !is_still)
                done += shard->poll();
        }
        for (auto& worker : workers) {
            if (worker != nullptr && !stopped.contains(worker.get())) done += worker->poll();
        }
        done += run_disk();
        if (done > 0) return true;
        if (network.step()) return true;
        clock.advance(kMillisecond);  // only deadlines are left
        return false;
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over, size_t idle_max = 100'000) {
        for (size_t idle = 0; idle < idle_max;) {
            if (over()) return true;
            if (!step()) ++idle;
        }
        return over();
    }

    /// Breaks the connections of the process on that host to the manager, with its life line. The
    /// manager must be apart.
    void cut_from_manager(uint32_t host) {
        for (uint32_t i = 0; i < shape_.managers; ++i)
            network.reset(kManagersHost + i, host);
        processes_.at(host).line_by_ns = clock.now_ns() + 200 * kMillisecond;
    }

    enum class Way : uint8_t { kBoth, kToManager, kFromManager };

    /// No packet passes any more between the host and the manager, or any of several, in one direction or both.
    void part_from_manager(uint32_t host, Way way) {
        for (uint32_t i = 0; i < shape_.managers; ++i) {
            switch (way) {
                case Way::kBoth: network.partition(host, kManagersHost + i); break;
                case Way::kToManager: network.block(host, kManagersHost + i); break;
                case Way::kFromManager: network.block(kManagersHost + i, host); break;
            }
        }
    }

    /// What was between the process on that host and the manager is healed. Between two attempts of
    /// a life line is half a second at most.
    void heal_to_manager(uint32_t host) {
        for (uint32_t i = 0; i < shape_.managers; ++i)
            network.heal(kManagersHost + i, host);
        processes_.at(host).line_by_ns = clock.now_ns() + 600 * kMillisecond;
    }

    /// Another manager leads from now on, or soon: all life lines are made anew.
    void lines_break() {
        for (auto& [host, process] : processes_)
            process.line_by_ns = clock.now_ns() + 2 * kSecond;
    }

    /// A process without servers has one, too, but in few tests.
    void add_lease_line(uint32_t host) {
        Process& process = processes_.at(host);
        process.lease_line = std::make_unique<LeaseLine>(
            std::move(process.device->make_endpoint({})).value(), clock_of(host), addresses_[0],
            host + 1, process.manager, process.lease);
    }

    /// The process on that host dies.
    void kill_host(uint32_t host) {
        network.kill(host);
        killed_ns_ = clock.now_ns();
    }

    /// So lately that the manager may not know it yet.
    [[nodiscard]] bool has_killed_lately() const {
        return killed_ns_ != 0 && clock.now_ns() < killed_ns_ + 300 * kMillisecond;
    }

    /// As far as it knows that is asked; of several, the one that has come farthest.
    [[nodiscard]] const View& managers_view() const {
        if (manager != nullptr) return manager->view();
        static const View kNone;
        const View* newest = &kNone;
        for (const auto& one : managers) {
            if (one != nullptr && one->view().epoch() > newest->epoch()) newest = &one->view();
        }
        return *newest;
    }

    /// One of them says that parameters are lost.
    [[nodiscard]] bool has_loss() const {
        if (manager != nullptr) return manager->has_loss();
        return std::ranges::any_of(
            managers, [](const auto& one) { return one != nullptr && one->has_loss(); });
    }

    /// One of them says that the job is over.
    [[nodiscard]] bool is_managed_to_end() const {
        if (manager != nullptr) return manager->finished();
        return std::ranges::any_of(
            managers, [](const auto& one) { return one != nullptr && one->job_is_over(); });
    }

    [[nodiscard]] uint32_t host_count() const { return static_cast<uint32_t>(devices_.size()); }

    [[nodiscard]] bool has_reached_manager(uint32_t host) const {
        return processes_.at(host).manager->is_reached;
    }

    /// Whether the manager would learn that a process on that host dies now. If its life line has
    /// just been cut, the proof would be lost.
    [[nodiscard]] bool has_life_line(uint32_t host) const {
        return clock.now_ns() >= processes_.at(host).line_by_ns;
    }

    /// Whether the server on that host may answer, by its own clock, if copies of what it has are counted.
    [[nodiscard]] bool has_lease(uint32_t host) {
        return processes_.at(host).lease->holds(clock_of(host).now_ns());
    }

    /// That of the process on the host.
    [[nodiscard]] const Clock& clock_of(uint32_t host) {
        if (shape_.clock_skew == 0) return clock;
        auto& its = clocks_[host];
        if (its == nullptr) {
            const auto kind = static_cast<double>(mix64(seed_ + host) % 3) - 1;
            its = std::make_unique<testing::SkewedClock>(clock, 1 + kind * shape_.clock_skew);
        }
        return *its;
    }

    /// Runs until `count` milliseconds have passed in which there was nothing to do.
    void run_idle(size_t count) {
        (void)run_until([] { return false; }, count);
    }

    [[nodiscard]] bool start() {
        return run_until([&] {
            for (auto& worker : workers) {
                if (!worker->ready()) return false;
            }
            return true;
        });
    }

    [[nodiscard]] Status finish(uint32_t worker, ClientCore::CallId call) {
        if (!run_until([&] { return workers[worker]->done(call); })) {
            return Error(Errc::kDeadline, "the call never ended");
        }
        return workers[worker]->take(call);
    }

    [[nodiscard]] Result<TableInfo> make_table(uint32_t worker, const TableSchema& schema) {
        const ClientCore::CallId call = workers[worker]->create_table(schema);
        if (!run_until([&] { return workers[worker]->done(call); })) {
            return Error(Errc::kDeadline, "the call never ended");
        }
        return workers[worker]->take_table(call);
    }

    /// As Manager::leave_server(). Of several managers, the one that leads is asked over a connection, by the
    /// server itself or not: its answer is not waited for.
    [[nodiscard]] Status leave_server(uint32_t server, bool asks_itself = false) {
        if (manager == nullptr) return ask_to_leave(server, asks_itself);
        if (shape_.record != nullptr)
            shape_.record->leaves.push_back({shape_.record->polls.size(), server});
        return manager->leave_server(server);
    }

    [[nodiscard]] transport::Device& device_of_worker(uint32_t worker) {
        return *devices_[host_of_worker(worker)];
    }

    /// Registered memory of a worker.
    [[nodiscard]] Memory& memory_of(uint32_t worker) { return *worker_memories_[worker]; }

    /// Of all shards of a server.
    [[nodiscard]] RegisteredMemory& memory_of_server(uint32_t server) { return *memories_[server]; }

    ManualClock clock;
    transport::sim::Network network;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();

private:
    [[nodiscard]] Status ask_to_leave(uint32_t server, bool asks_itself) {
        const uint32_t leader = leading_manager();
        if (leader == ~uint32_t{0}) return Error(Errc::kUnavailable, "no manager leads");
        if (operators_device_ == nullptr) operators_device_ = network.make_device(kOperatorsHost);
        operators_.push_back(std::make_unique<SimOperator>(
            endpoint(*operators_device_), addresses_[leader], server, asks_itself));
        return {};
    }

    /// A slow disk looks for work at instants of its own, so that all answers are late. Returns how
    /// much was done.
    size_t run_disk() {
        if (shape_.checkpoints.disk == nullptr || clock.now_ns() < disk_turn_ns_) return 0;
        if (shape_.disk_ns_max > 0)
            disk_turn_ns_ = clock.now_ns() + disk_random_.below(shape_.disk_ns_max);
        return shape_.checkpoints.disk->run_one() ? 1 : 0;
    }

    void add_manager(const ManagerOptions& manager_options, transport::Device& first) {
        if (shape_.is_manager_apart) managers_device_ = network.make_device(kManagersHost);
        const Clock& managers_clock = clock_of(shape_.is_manager_apart ? kManagersHost : 0);
        auto managers_endpoint = endpoint(shape_.is_manager_apart ? *managers_device_ : first);
        if (shape_.around_manager)
            managers_endpoint = shape_.around_manager(std::move(managers_endpoint));
        if (shape_.record != nullptr)
            managers_endpoint = std::make_unique<RecordingEndpoint>(
                std::move(managers_endpoint), managers_clock, manager_options, shape_.record);
        manager = std::make_unique<Manager>(manager_options, std::move(managers_endpoint),
                                            managers_clock);
        if (shape_.is_manager_apart && shape_.faults != nullptr)
            shape_.faults->spared_address = manager->address();
        addresses_ = {manager->address()};
    }

    void add_managers(const ManagerOptions& manager_options) {
        ReplicatedManagerOptions options;
        options.manager = manager_options;
        options.log.group = seed_ | 1;
        std::vector<std::unique_ptr<transport::Endpoint>> of_members;
        std::vector<std::unique_ptr<transport::Endpoint>> of_log;
        for (uint32_t i = 0; i < shape_.managers; ++i) {
            managers_devices_.push_back(network.make_device(kManagersHost + i));
            of_members.push_back(endpoint(*managers_devices_[i]));
            of_log.push_back(endpoint(*managers_devices_[i]));
            addresses_.push_back(of_members[i]->address());
            options.log.members.push_back({i + 1, of_log[i]->address()});
        }
        options.places = places();
        for (uint32_t i = 0; i < shape_.managers; ++i) {
            options.manager.checkpoints.is_asked_for = [this, i] {
                return asked_managers.erase(i) > 0;
            };
            options.log.self = i + 1;
            options.log.seed = seed_ + i;
            options.handover =
                handovers_.emplace_back(std::make_shared<std::atomic<Handover>>(Handover::kNone));
            options.is_leaving = leaving_.emplace_back(std::make_shared<std::atomic<bool>>(false));
            managers.push_back(std::make_unique<ReplicatedManager>(
                options, std::move(of_members[i]), std::move(of_log[i]),
                clock_of(kManagersHost + i)));
            REQUIRE(managers[i]->start());
        }
    }

    transport::Device& add_host(bool has_faults) {
        auto device = network.make_device(static_cast<uint32_t>(devices_.size()));
        if (has_faults && shape_.faults != nullptr) {
            device = transport::inject_faults(std::move(device), shape_.faults);
        }
        devices_.push_back(std::move(device));
        return *devices_.back();
    }

    Memory& add_memory(transport::Device& device, transport::Access access, size_t limit_bytes) {
        memories_.push_back(std::make_unique<RegisteredMemory>(device, access, limit_bytes));
        return *memories_.back();
    }

    Memory& add_lent_memory(transport::Device& device) {
        lent_memories_.push_back(
            std::make_unique<RegisteredMemory>(device, transport::Access::kRemoteRead));
        return *lent_memories_.back();
    }

    [[nodiscard]] std::unique_ptr<transport::Endpoint> endpoint(transport::Device& device) {
        transport::EndpointOptions options;
        options.message_bytes_max = shape_.message_bytes_max;
        return std::move(device.make_endpoint(options)).value();
    }

    [[nodiscard]] ShardOptions shard_options(uint32_t number, uint32_t host) {
        ShardOptions options;
        options.number = number;
        options.link = identity(host);
        options.lease = lease_of(host);
        options.manager_address = addresses_[0];
        options.fetch_bytes_max = shape_.fetch_bytes_max;
        options.waiting_bytes_max = shape_.waiting_bytes_max;
        options.list_cache_bytes = shape_.list_cache_bytes;
        options.secret_seed = mix64(seed_ + shards.size());
        options.disk = shape_.checkpoints.disk;
        options.change_bytes_max = shape_.change_bytes_max;
        return options;
    }

    void add_shard(const ShardOptions& options, transport::Device& device, Memory& memory) {
        const auto host = static_cast<uint32_t>(options.link.process - 1);
        auto own = endpoint(device);
        if (shape_.around_shard) own = shape_.around_shard(std::move(own));
        shards.push_back(
            std::make_unique<Shard>(options, std::move(own), clock_of(host), memory, rules));
        shard_hosts_.push_back(host);
    }

    void add_worker(ClientCoreOptions options, bool has_faults) {
        worker_hosts_.push_back(static_cast<uint32_t>(devices_.size()));
        transport::Device& device = add_host(has_faults);
        worker_memories_.push_back(
            &add_memory(device, transport::Access::kRemote, shape_.worker_memory_bytes));
        add_life_line(worker_hosts_.back());
        if (shape_.work_lease_ns > 0) add_lease_line(worker_hosts_.back());
        options.link = identity(worker_hosts_.back());
        options.manager_address = addresses_[0];
        options.eager_bytes = shape_.eager_bytes;
        options.encoded_bytes_min = shape_.encoded_bytes_min;
        options.secret_seed = mix64(seed_ + worker_hosts_.back());
        workers.push_back(std::make_unique<ClientCore>(options, endpoint(device),
                                                       clock_of(worker_hosts_.back()),
                                                       *worker_memories_.back(), rules));
    }

    struct Process {
        std::shared_ptr<ManagerLife> manager;
        std::unique_ptr<transport::Device> device;
        std::unique_ptr<LifeLine> life_line;
        std::shared_ptr<ServerLease> lease;
        std::unique_ptr<LeaseLine> lease_line;
        uint64_t line_by_ns = 0;  ///< by then the life line is made anew that was cut
    };

    /// Of several managers.
    [[nodiscard]] std::vector<ManagerPlace> places() const {
        std::vector<ManagerPlace> list;
        for (const std::string& address : addresses_)
            list.push_back({static_cast<uint32_t>(list.size()), address});
        return list;
    }

    /// All that runs on a host is one process. Its life line has no faults.
    void add_life_line(uint32_t host) {
        Process& process = processes_[host];
        process.manager = std::make_shared<ManagerLife>();
        if (addresses_.size() > 1) process.manager->places = places();
        process.device = network.make_device(host);
        process.life_line =
            std::make_unique<LifeLine>(std::move(process.device->make_endpoint({})).value(),
                                       clock_of(host), addresses_[0], host + 1, process.manager);
    }

    /// Of the server on that host.
    [[nodiscard]] std::shared_ptr<const ServerLease> lease_of(uint32_t host) {
        Process& process = processes_.at(host);
        if (process.lease == nullptr) {
            process.lease = std::make_shared<ServerLease>();
            add_lease_line(host);
        }
        return process.lease;
    }

    [[nodiscard]] LinkIdentity identity(uint32_t host) {
        return {++links_, host + 1, processes_.at(host).manager};
    }

    SimShape shape_;
    uint64_t seed_;
    std::unique_ptr<transport::Device> managers_device_;
    std::vector<std::unique_ptr<transport::Device>> managers_devices_;
    std::unique_ptr<transport::Device> operators_device_;
    std::vector<std::unique_ptr<SimOperator>> operators_;
    std::vector<std::string> addresses_;  ///< of the managers
    std::vector<std::unique_ptr<transport::Device>> devices_;
    std::vector<std::unique_ptr<RegisteredMemory>> memories_;
    std::vector<std::unique_ptr<RegisteredMemory>> lent_memories_;
    std::vector<Memory*> worker_memories_;
    std::vector<uint32_t> worker_hosts_;
    std::vector<uint32_t> shard_hosts_;
    std::map<uint32_t, Process> processes_;                          // by host
    std::map<uint32_t, std::unique_ptr<Clock>> clocks_;              // the same, if they differ
    std::vector<std::shared_ptr<std::atomic<Handover>>> handovers_;  // by manager
    std::vector<std::shared_ptr<std::atomic<bool>>> leaving_;        // the same
    uint64_t links_ = 0;
    Random disk_random_{seed_ + 1};
    uint64_t disk_turn_ns_ = 0;  ///< before that, nothing is done on the disk
    uint64_t killed_ns_ = 0;     ///< when a process died last; 0: none has

public:
    std::unique_ptr<Manager> manager;                          ///< null if there are several
    std::vector<std::unique_ptr<ReplicatedManager>> managers;  ///< those; null: dead
    std::vector<std::unique_ptr<Shard>> shards;
    std::vector<std::unique_ptr<ClientCore>> workers;
    std::set<const StateMachine*> stopped;  ///< these are not polled
    std::set<uint32_t> stopped_hosts;   ///< nor the shards and lease lines of these, or the manager
    std::set<uint32_t> asked_managers;  ///< of several, whose processes are asked for a checkpoint
};

/// One server of one shard.
[[nodiscard]] inline SimShape one_shard(uint32_t workers = 1) {
    return {.servers = 1, .shards = 1, .workers = workers};
}

/// A cluster that all workers have joined, with a table that the first one has made.
class StartedCluster : public SimCluster {
public:
    StartedCluster(uint64_t seed, const SimShape& shape, const TableSchema& schema,
                   const transport::sim::Options& options = {})
        : SimCluster(seed, shape, options) {
        REQUIRE(start());
        auto made = make_table(0, schema);
        REQUIRE(made.has_value());
        table = *std::move(made);
    }

    /// The first worker.
    [[nodiscard]] ClientCore& client() { return *workers[0]; }

    TableInfo table;
};

}  // namespace weir::test
