// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MovingJob: a job whose servers join and leave, for tests of plan(). It checks every view.

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/ring/moves.h"
#include "lib/ring/plan.h"
#include "tests/ring/view_step.h"

namespace weir::testing {

inline NewServer new_server(uint64_t host, uint32_t shards, uint32_t weight = 1) {
    return {0, host, weight, std::vector<std::string>(shards, "x")};
}

inline std::vector<NewServer> new_servers(uint32_t count, uint32_t shards,
                                          uint32_t servers_per_host = 1) {
    std::vector<NewServer> servers;
    for (uint32_t i = 0; i < count; ++i)
        servers.push_back(new_server(i / servers_per_host, shards));
    return servers;
}

class MovingJob {
public:
    MovingJob(const std::vector<NewServer>& servers, uint32_t points, uint32_t backup_count,
              uint64_t seed)
        : MovingJob(*first_view(servers, points), backup_count, seed) {}

    MovingJob(View view, uint32_t backup_count, uint64_t seed)
        : random_(seed), backup_count_(backup_count), view_(std::move(view)) {
        for (const ViewServer& server : view_.servers())
            live_.push_back(server.number);
    }

    [[nodiscard]] const View& view() const { return view_; }

    [[nodiscard]] const std::vector<uint32_t>& live() const { return live_; }

    [[nodiscard]] const Plan& last_plan() const { return plan_; }

    [[nodiscard]] double plan_seconds_max() const { return plan_seconds_max_; }

    void join(const NewServer& server) {
        live_.push_back(view_.data().next_server);
        enter(std::move(with_server(view_, server)).value());
    }

    /// The server leaves: it hands over its segments from the next plan on.
    void leave(uint32_t server) { std::erase(live_, server); }

    void leave_any() { leave(live_[random_.below(live_.size())]); }

    /// The server dies: it is gone at once.
    void die(uint32_t server) {
        leave(server);
        enter(without_servers(view_, std::vector{server}));
    }

    /// Plans once, and adds the learners of the plan to the view.
    void begin() {
        const std::clock_t start = std::clock();  // CPU time, to which other programs add nothing
        plan_ = plan(view_, live_, backup_count_);
        const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        plan_seconds_max_ = std::max(plan_seconds_max_, took);
        if (!plan_.empty()) enter(begin_moves(view_, plan_));
    }

    /// Completes some or all of the learners, in any order.
    void finish(bool all) {
        std::vector<LearnerReport> reports;
        for (const ViewSegment& segment : view_.segments()) {
            if (!segment.has_learner() || (!all && random_.below(2) == 0)) continue;
            reports.push_back({segment.first, segment.learner.shard, segment.learner.named});
        }
        for (size_t i = reports.size(); i > 1; --i)
            std::swap(reports[i - 1], reports[random_.below(i)]);
        std::optional<View> next;
        while ((next = finish_moves(view_, reports)))
            enter(std::move(*next));
    }

    /// Plans and completes learners until nothing is left to move. Then removes the servers that left.
    void settle() {
        for (int rounds = 0; rounds < 12; ++rounds) {
            finish(true);
            begin();
            if (plan_.empty()) break;
            moved_late_ += plan_.moved;
        }
        CHECK(plan_.empty());
        std::vector<uint32_t> gone;
        for (const ViewServer& server : view_.servers()) {
            if (std::ranges::find(live_, server.number) != live_.end()) continue;
            CHECK(view_.holds_nothing(server.number));
            gone.push_back(server.number);
        }
        if (!gone.empty()) enter(without_servers(view_, gone));
    }

    /// The part of the ring that the plans of settle() moved. After begin(): what its plan left over.
    [[nodiscard]] double moved_late() const { return moved_late_; }

    /// The share of the ring of each shard, by number.
    [[nodiscard]] std::map<uint32_t, double> shares() const {
        std::map<uint32_t, double> shares;
        for (const ViewShard& shard : view_.shards())
            shares[shard.number] = 0;
        for (size_t i = 0; i < view_.segments().size(); ++i) {
            if (view_.segments()[i].primary == kNoShard) continue;
            shares[view_.segments()[i].primary] +=
                static_cast<double>(position_count(view_.data().segments, i)) * 0x1p-64;
        }
        return shares;
    }

    /// The largest relative deviation of a shard's share from the share that the weights give it.
    [[nodiscard]] double unevenness() const {
        double weights = 0;
        std::map<uint32_t, double> weight;
        for (const ViewServer& server : view_.servers())
            weights += weight[server.number] = server.weight;
        std::map<uint32_t, double> count;
        for (const ViewShard& shard : view_.shards())
            ++count[shard.server];
        double worst = 0;
        const std::map<uint32_t, double> shares = this->shares();
        for (const ViewShard& shard : view_.shards()) {
            const double fair = weight[shard.server] / weights / count[shard.server];
            worst = std::max(worst, std::abs(shares.at(shard.number) / fair - 1));
        }
        return worst;
    }

private:
    void enter(View next) {
        const Status step = check_view_step(view_.data(), next.data());
        REQUIRE_MESSAGE(step, (step ? std::string() : step.error().text()));
        view_ = std::move(next);
    }

    Random random_;
    uint32_t backup_count_;
    View view_;
    std::vector<uint32_t> live_;
    Plan plan_;
    double plan_seconds_max_ = 0;
    double moved_late_ = 0;
};

}  // namespace weir::testing
