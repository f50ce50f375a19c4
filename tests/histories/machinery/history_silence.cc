// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/history_silence.h"

#include <algorithm>

#include "tests/histories/machinery/history_shape.h"

namespace weir::test {

uint64_t HistorySilence::some_ns(uint64_t tenths_min, uint64_t tenths_max) {
    const uint64_t tenth_ns = cluster_.shape().lease_ns / 10;
    return tenths_min * tenth_ns + random_.below((tenths_max - tenths_min) * tenth_ns);
}

void HistorySilence::wish() {
    if (silent_ || manager_until_ns_) return;
    if (cluster_.managers.empty() && random_.below(8) == 0) return stop_manager();
    const View view = cluster_.managers_view();
    const uint32_t server = some_server(random_, view);
    const std::optional<uint32_t> host = deaths_.host_that_may_fail(server);
    if (!host || view.servers().size() < 2) return;
    const auto how = static_cast<How>(random_.below(4));
    const uint64_t now_ns = cluster_.clock.now_ns();
    silent_ = Silent{.server = server, .host = *host, .until_ns = now_ns + some_ns(3, 25)};
    silent_->dies_ns = random_.below(3) == 0 ? now_ns + some_ns(0, 15) : ~uint64_t{0};
    events_.add("server {} falls silent, how {}", server, static_cast<int>(how));
    ++counts_.silences;
    deaths_.set_silent(server);
    silence(*host, how);
    if (!cluster_.managers.empty() && how <= How::kCut && random_.below(2) == 0)
        managers_.fail_with_server(*host, silent_->until_ns, how == How::kCut);
}

void HistorySilence::silence(uint32_t host, How how) {
    using Way = SimCluster::Way;
    switch (how) {
        case How::kStopped: cluster_.stopped_hosts.insert(host); break;
        case How::kCut: cluster_.part_from_manager(host, Way::kBoth); break;
        case How::kNotHeard: cluster_.part_from_manager(host, Way::kToManager); break;
        case How::kDeaf: cluster_.part_from_manager(host, Way::kFromManager); break;
    }
}

/// The view without the server is on its way to them. A worker that is cut off for two fifths of a lease
/// has its life line again before a lease is over.
void HistorySilence::cut_workers() {
    for (uint32_t worker = 0; worker < cluster_.workers.size(); ++worker) {
        const auto& client = cluster_.workers[worker];
        if (client == nullptr || !client->ready() || random_.below(2) == 0) continue;
        Parting parting;
        parting.hosts = {SimCluster::kManagersHost, cluster_.host_of_worker(worker)};
        parting.until_ns = cluster_.clock.now_ns() + some_ns(1, 4);
        parting.worker = worker;
        begin(parting);
        partings_.push_back(parting);
    }
}

void HistorySilence::stop_manager() {
    events_.add("the manager is stopped");
    ++counts_.managers_stopped;
    manager_until_ns_ = cluster_.clock.now_ns() + some_ns(3, 25);
    cluster_.stopped_hosts.insert(SimCluster::kManagersHost);
}

void HistorySilence::part() {
    if (partings_.size() > 3) return;
    const uint32_t a = static_cast<uint32_t>(random_.below(cluster_.host_count()));
    const uint32_t b = static_cast<uint32_t>(random_.below(cluster_.host_count()));
    const auto is_in_use = [&](const Parting& other) {
        return std::minmax(other.hosts.first, other.hosts.second) == std::minmax(a, b);
    };
    if (a == b || std::ranges::any_of(partings_, is_in_use)) return;
    Parting parting;
    parting.hosts = {a, b};
    // Servers that do not reach each other for long are no copies of each other any more.
    const bool is_long = has_server(a) && has_server(b) && random_.below(3) == 0;
    const uint64_t tenths_max = is_long ? 60 : random_.below(2) == 0 ? 1 : 15;
    parting.until_ns = cluster_.clock.now_ns() + some_ns(is_long ? 20 : 0, tenths_max);
    parting.is_one_way = random_.below(2) == 0;
    events_.add("hosts {} and {} are parted, one way {}", a, b, parting.is_one_way);
    ++counts_.partings;
    begin(parting);
    partings_.push_back(parting);
}

bool HistorySilence::has_server(uint32_t host) const {
    for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        if (cluster_.shards[i] != nullptr && cluster_.host_of_shard(i) == host) return true;
    }
    return false;
}

void HistorySilence::begin(const Parting& parting) {
    if (parting.worker) workers_.set_only_pulls(*parting.worker, true);
    const auto [a, b] = parting.hosts;
    if (parting.worker) return cluster_.part_from_manager(b, SimCluster::Way::kBoth);
    deaths_.part(parting.hosts);
    if (parting.is_one_way) return cluster_.network.block(a, b);
    cluster_.network.partition(a, b);
}

void HistorySilence::end(const Parting& parting) {
    const auto [a, b] = parting.hosts;
    if (!parting.worker) {
        deaths_.heal(parting.hosts);
        return cluster_.network.heal(a, b);
    }
    workers_.set_only_pulls(*parting.worker, false);
    cluster_.heal_to_manager(b);
}

void HistorySilence::heal() {
    events_.add("server {} is silent no more", silent_->server);
    silent_->healed_ns = cluster_.clock.now_ns();
    cluster_.stopped_hosts.erase(silent_->host);
    cluster_.heal_to_manager(silent_->host);
}

void HistorySilence::live(Silent& silent) {
    const uint64_t now_ns = cluster_.clock.now_ns();
    if (!silent.is_replaced && cluster_.managers_view().server(silent.server) == nullptr) {
        silent.is_replaced = true;
        replaced_.insert(silent.host);
        ++counts_.replaced;
        events_.add("server {} is replaced", silent.server);
        if (!is_draining_) cut_workers();
    }
    if (silent.healed_ns == 0 && !silent.is_replaced && now_ns >= silent.dies_ns) {
        silent.dies_ns = ~uint64_t{0};
        silent.is_dead = deaths_.kill_silent(silent.host);
    }
    if (silent.healed_ns == 0 && (now_ns >= silent.until_ns || is_draining_)) heal();
    // Until it has a new lease it may still be replaced.
    constexpr uint64_t kAsksAgainNs = 250 * kMillisecond;
    if (silent.healed_ns == 0 || now_ns < silent.healed_ns + kAsksAgainNs) return;
    if (!silent.is_replaced && (silent.is_dead || !cluster_.has_lease(silent.host))) return;
    silent_.reset();
    deaths_.set_silent(std::nullopt);
}

void HistorySilence::live() {
    const uint64_t now_ns = cluster_.clock.now_ns();
    std::erase_if(partings_, [&](Parting& parting) {
        if (now_ns < parting.until_ns && !is_draining_) return false;
        end(parting);
        return true;
    });
    if (manager_until_ns_ && (now_ns >= *manager_until_ns_ || is_draining_)) {
        manager_until_ns_.reset();
        cluster_.stopped_hosts.erase(SimCluster::kManagersHost);
        events_.add("the manager goes on");
    }
    if (silent_) live(*silent_);
    workers_.set_slow(manager_until_ns_ || (silent_ && !silent_->is_replaced));
}

void HistorySilence::drain() {
    is_draining_ = true;
    live();
}

bool HistorySilence::is_at_rest() const {
    if (silent_) return false;
    for (size_t i = 0; i < cluster_.shards.size(); ++i) {
        const Shard* const shard = cluster_.shards[i].get();
        if (shard != nullptr && was_replaced(cluster_.host_of_shard(i)) && !shard->finished())
            return false;
    }
    return true;
}

}  // namespace weir::test
