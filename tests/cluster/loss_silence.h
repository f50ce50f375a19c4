// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LossSilence: in a history in which some segment is lost in the end, one server at a time is
/// stopped, or its host is cut off: from the manager, in one direction or both, or from all hosts.
/// Some workers hear late that it was replaced.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

/// Thread: one
class LossSilence {
public:
    LossSilence(SimCluster& cluster, Random& random) : cluster_(cluster), random_(random) {}

    /// Nobody is silent. `is_for_ever`: until heal().
    void begin(uint32_t server, uint32_t host, bool is_for_ever) {
        // Often it is heard again just when it was replaced.
        const uint64_t for_ns = random_.below(2) == 0 ? some_ns(10, 16) : some_ns(5, 25);
        const uint64_t until_ns = is_for_ever ? ~uint64_t{0} : cluster_.clock.now_ns() + for_ns;
        silent_ = Silent{server, host, until_ns, {}, false};
        ++silences_;
        using Way = SimCluster::Way;
        switch (random_.below(5)) {
            case 0: cluster_.stopped_hosts.insert(host); break;
            case 1: cluster_.part_from_manager(host, Way::kBoth); break;
            case 2: cluster_.part_from_manager(host, Way::kToManager); break;
            case 3: cluster_.part_from_manager(host, Way::kFromManager); break;
            default: cut_off(host);
        }
    }

    [[nodiscard]] bool is_on() const { return silent_.has_value(); }

    /// A turn has passed.
    void live() {
        const uint64_t now_ns = cluster_.clock.now_ns();
        std::erase_if(cut_workers_, [&](const std::pair<uint32_t, uint64_t>& worker) {
            if (now_ns < worker.second) return false;
            cluster_.heal_to_manager(worker.first);
            return true;
        });
        if (!silent_) return;
        if (!silent_->is_replaced && cluster_.managers_view().server(silent_->server) == nullptr) {
            silent_->is_replaced = true;
            ++replaced_;
            cut_workers();
        }
        if (now_ns >= silent_->until_ns) heal();
    }

    /// The silent one is heard again, if it lives.
    void heal() {
        if (!silent_) return;
        cluster_.stopped_hosts.erase(silent_->host);
        cluster_.heal_to_manager(silent_->host);
        for (const uint32_t other : silent_->cut_from)
            cluster_.network.heal(silent_->host, other);
        silent_.reset();
    }

    [[nodiscard]] uint64_t silences() const { return silences_; }

    /// Those of them who were replaced, or lost, before they were heard again.
    [[nodiscard]] uint64_t replaced() const { return replaced_; }

private:
    struct Silent {
        uint32_t server = 0;
        uint32_t host = 0;
        uint64_t until_ns = 0;
        std::vector<uint32_t> cut_from;  ///< hosts
        bool is_replaced = false;
    };

    void cut_off(uint32_t host) {
        cluster_.part_from_manager(host, SimCluster::Way::kBoth);
        for (uint32_t other = 0; other < cluster_.host_count(); ++other) {
            if (other == host) continue;
            cluster_.network.partition(host, other);
            silent_->cut_from.push_back(other);
        }
    }

    /// A worker that is cut off for two fifths of a lease has its life line again before a lease is over.
    void cut_workers() {
        for (uint32_t worker = 0; worker < cluster_.workers.size(); ++worker) {
            if (random_.below(2) == 0) continue;
            const uint32_t host = cluster_.host_of_worker(worker);
            cluster_.part_from_manager(host, SimCluster::Way::kBoth);
            cut_workers_.emplace_back(host, cluster_.clock.now_ns() + some_ns(1, 4));
        }
    }

    [[nodiscard]] uint64_t some_ns(uint64_t tenths_min, uint64_t tenths_max) {
        const uint64_t tenth_ns = cluster_.shape().lease_ns / 10;
        return tenths_min * tenth_ns + random_.below((tenths_max - tenths_min) * tenth_ns);
    }

    SimCluster& cluster_;
    Random& random_;
    std::optional<Silent> silent_;
    std::vector<std::pair<uint32_t, uint64_t>> cut_workers_;  ///< their hosts, and until when
    uint64_t silences_ = 0;
    uint64_t replaced_ = 0;
};

}  // namespace weir::test
