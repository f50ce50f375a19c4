// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/checkpoint_troubles.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

namespace weir::test {
namespace {

/// Of the servers that live and that the manager has.
std::vector<uint32_t> hosts_of(const SimCluster& cluster, const View& view) {
    std::set<uint32_t> hosts;
    for (const ViewShard& listed : view.shards()) {
        for (size_t i = 0; i < cluster.shards.size(); ++i) {
            if (cluster.shards[i] != nullptr &&
                cluster.shards[i].get() == cluster.find_shard(listed))
                hosts.insert(cluster.host_of_shard(i));
        }
    }
    return {hosts.begin(), hosts.end()};
}

bool is_host_of_worker(const SimCluster& cluster, uint32_t host) {
    for (uint32_t worker = 0; worker < cluster.workers.size(); ++worker) {
        if (cluster.host_of_worker(worker) == host) return true;
    }
    return false;
}

}  // namespace

void CheckpointTroubles::begin(uint64_t disk_steps) {
    turns_ = 0;
    server_turns_ = random_.below(200);
    cut_turns_ = random_.below(400);
    if (troubles_.of_managers || troubles_.of_network) pushing_turns_ = 500 + random_.below(3000);
    if (!troubles_.of_managers) return;
    const bool is_of_disk = random_.below(2) == 0;
    manager_fails_ = Instant{is_of_disk, random_.below(is_of_disk ? disk_steps + 1 : 300)};
}

void CheckpointTroubles::live(uint64_t disk_steps) {
    ++turns_;
    if (troubles_.of_servers && server_turns_-- == 0) change_servers();
    if (troubles_.of_network && cut_turns_-- == 0) cut();
    if (cut_ && cluster_.clock.now_ns() >= cut_->until_ns) heal();
    managers_.live();
    if (manager_fails_ &&
        (manager_fails_->is_of_disk ? disk_steps : turns_) > manager_fails_->count)
        fail_manager(disk_steps);
}

void CheckpointTroubles::end() {
    if (cut_) heal();
    const size_t stopped = std::erase_if(
        cluster_.stopped_hosts, [](uint32_t host) { return host < SimCluster::kManagersHost; });
    if (stopped > 0) healed_ns_ = cluster_.clock.now_ns();
    manager_fails_.reset();
    if (!troubles_.of_managers) return;
    REQUIRE(cluster_.run_until([&] {
        managers_.live();
        return managers_.is_at_rest();
    }));
    // What one that leads no more had begun on the disk is done.
    cluster_.run_idle(50);
}

/// If every segment has its copies: what is lost then is not lost for good. One that was silent may be about
/// to be replaced.
bool CheckpointTroubles::may_server_fail(const View& view, const std::vector<uint32_t>& hosts) {
    constexpr uint64_t kAsksAgainNs = 300 * kMillisecond;
    const uint64_t now_ns = cluster_.clock.now_ns();
    if (cut_ || (healed_ns_ != 0 && now_ns < healed_ns_ + kAsksAgainNs)) return false;
    const uint32_t replicas = cluster_.shape().replicas;
    return hosts.size() == view.servers().size() &&
           std::ranges::all_of(view.segments(),
                               [&](const ViewSegment& s) {
                                   return s.backup_count() == replicas && !s.has_learner();
                               }) &&
           std::ranges::all_of(hosts, [&](uint32_t host) { return cluster_.has_lease(host); });
}

void CheckpointTroubles::change_servers() {
    const View view = cluster_.managers_view();
    const std::vector<uint32_t> hosts = hosts_of(cluster_, view);
    if (!may_server_fail(view, hosts)) return;
    if (hosts.size() < cluster_.shape().replicas + 2 || random_.below(3) == 0) {
        (void)cluster_.add_server({.shards = 1});
        return;
    }
    const uint32_t host = hosts[random_.below(hosts.size())];
    switch (random_.below(3)) {
        case 0:
            if (host < cluster_.shape().servers) (void)cluster_.leave_server(host);
            return;
        case 1: return stop(host);
        default: kill(host);
    }
}

/// A manager may be on the same host.
void CheckpointTroubles::stop(uint32_t host) {
    events_.add("host {} is stopped", host);
    cluster_.stopped_hosts.insert(host);
    if (troubles_.of_managers && random_.below(2) == 0)
        managers_.fail_with_server(host, cluster_.clock.now_ns() + kSecond, false);
}

/// The same. Its life line must be there, so that its death is proved; with the manager that proof is lost, and the
/// lease ends.
void CheckpointTroubles::kill(uint32_t host) {
    if (!cluster_.has_life_line(host)) return;
    const bool with_manager =
        troubles_.of_managers && random_.below(2) == 0 && managers_.kill_leader();
    events_.add("host {} dies, with the manager {}", host, with_manager);
    cluster_.kill_host(host);
    ++counts_.servers_killed;
    for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        if (cluster_.host_of_shard(i) == host) cluster_.shards[i].reset();
    }
}

void CheckpointTroubles::cut() {
    const auto host = static_cast<uint32_t>(random_.below(cluster_.host_count()));
    const View view = cluster_.managers_view();
    const std::vector<uint32_t> hosts = hosts_of(cluster_, view);
    const bool is_worker = is_host_of_worker(cluster_, host);
    const bool is_server = std::ranges::find(hosts, host) != hosts.end();
    if ((!is_worker && !is_server) || !cluster_.has_reached_manager(host)) return;
    if (random_.below(4) == 0) {
        events_.add("the connections of host {} to the manager break", host);
        ++counts_.cuts;
        return cluster_.cut_from_manager(host);
    }
    if (cut_ || (is_server && !may_server_fail(view, hosts))) return;
    const auto way = static_cast<SimCluster::Way>(random_.below(3));
    const uint64_t tenths = is_server ? 25 : 4;  // of a lease, at most
    const uint64_t for_ns = random_.below(tenths * cluster_.shape().lease_ns / 10);
    events_.add("host {} is cut from the manager for {} us, way {}", host, for_ns / kMicrosecond,
                static_cast<int>(way));
    ++counts_.partings;
    cluster_.part_from_manager(host, way);
    cut_ = Cut{host, cluster_.clock.now_ns() + for_ns};
}

void CheckpointTroubles::heal() {
    events_.add("host {} is cut off no more", cut_->host);
    cluster_.heal_to_manager(cut_->host);
    healed_ns_ = cluster_.clock.now_ns();
    cut_.reset();
}

void CheckpointTroubles::fail_manager(uint64_t disk_steps) {
    manager_fails_.reset();
    const uint64_t before = counts_.leaders_failed;
    managers_.wish();
    if (disk_steps > 0) counts_.leaders_failed_writing += counts_.leaders_failed - before;
}

}  // namespace weir::test
