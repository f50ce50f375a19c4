// SPDX-License-Identifier: Apache-2.0
/// \file
/// More servers die than there are copies, and some segment is lost, in half of the histories while
/// servers join and leave. Every call ends long before its deadline, and one that needs what is lost
/// says so; when the workers have given up, the job ends.

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kKeyCount = 300;
constexpr uint64_t kHour = 3600 * kSecond;

/// One random history, up to its end.
class Loss {
public:
    explicit Loss(uint64_t seed)
        : random_(seed), cluster_(random_(), make_shape(), make_options()) {
        REQUIRE(cluster_.start());
        auto made = cluster_.make_table(0, dense_table("sums", kKeyCount, ValueType::kUInt64));
        REQUIRE(made.has_value());
        table_ = *std::move(made);
        REQUIRE(cluster_.run_until([&] { return has_all_copies(); }));
    }

    void run() {
        take_turns(20 + random_.below(200));
        if (random_.below(2) == 0) {
            change_servers();
            take_turns(random_.below(400));
        }
        // A segment that moves may be saved by who learns it just then.
        const View view = cluster_.managers_view();
        lost_ = view.segments()[random_.below(view.segments().size())].first;
        while (!cluster_.manager->has_loss())
            kill_holders();
        check_that_calls_end();
        check_that_the_job_ends();
    }

    /// Calls that needed the lost segment, and ended well after the manager had said what is lost.
    [[nodiscard]] uint64_t late_answers() const { return late_answers_; }

private:
    struct Open {
        uint32_t worker = 0;
        ClientCore::CallId id = 0;
        uint64_t first_key = 0;
        std::vector<uint64_t> values;
    };

    SimShape make_shape() {
        SimShape shape;
        shape.replicas = static_cast<uint32_t>(random_.below(3));
        shape.servers = shape.replicas + 2 + static_cast<uint32_t>(random_.below(2));
        shape.shards = static_cast<uint32_t>(1 + random_.below(2));
        shape.points = static_cast<uint32_t>(1 + random_.below(4));
        shape.workers = static_cast<uint32_t>(1 + random_.below(3));
        shape.is_manager_apart = true;
        shape.lease_ns = 500 * kMillisecond;
        shape.eager_bytes = random_.below(2) == 0 ? 64 : 4096;
        if (random_.below(2) == 0) shape.on_worker_loss = OnWorkerLoss::kContinue;
        return shape;
    }

    transport::sim::Options make_options() {
        transport::sim::Options options;
        options.maps_memory = random_.below(2) == 0;
        return options;
    }

    [[nodiscard]] bool has_all_copies() const {
        const View view = cluster_.managers_view();
        return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
            return segment.backup_count() >= cluster_.shape().replicas;
        });
    }

    /// One joins, one leaves, or both.
    void change_servers() {
        const uint64_t what = random_.below(3);
        if (what != 0) (void)cluster_.add_server();
        if (what == 1) return;
        const auto server = static_cast<uint32_t>(random_.below(cluster_.shape().servers));
        REQUIRE(cluster_.manager->leave_server(server));
    }

    /// The manager may hear of all deaths at once, or of one after the other.
    void kill_holders() {
        const uint64_t epoch = cluster_.managers_view().epoch();
        const bool is_stopped = random_.below(2) == 0;
        if (is_stopped) cluster_.stopped_hosts.insert(SimCluster::kManagersHost);
        for (const uint32_t server : holders()) {
            kill(server);
            take_turns(random_.below(4));
        }
        if (is_stopped) take_turns(random_.below(50));
        cluster_.stopped_hosts.erase(SimCluster::kManagersHost);
        for (int turns = 0;
             !cluster_.manager->has_loss() && cluster_.managers_view().epoch() == epoch; ++turns) {
            REQUIRE(turns < 200'000);
            step();
        }
    }

    std::vector<uint32_t> holders() {
        const View view = cluster_.managers_view();
        const ViewSegment& segment =
            *std::ranges::find(view.segments(), lost_, &ViewSegment::first);
        std::vector<uint32_t> servers{view.shard(segment.primary)->server};
        for (size_t b = 0; b < segment.backup_count(); ++b)
            servers.push_back(view.shard(segment.backups[b])->server);
        std::reverse(servers.begin(), servers.begin() + random_.below(servers.size() + 1));
        return servers;
    }

    void kill(uint32_t server) {
        const View view = cluster_.managers_view();
        if (view.server(server) == nullptr) return;
        for (const ViewShard& listed : view.shards()) {
            if (listed.server != server) continue;
            for (size_t i = 0; i < cluster_.shards.size(); ++i) {
                auto& shard = cluster_.shards[i];
                if (shard == nullptr || shard->address() != listed.address) continue;
                cluster_.kill_host(cluster_.host_of_shard(i));
                shard.reset();
            }
        }
    }

    void take_turns(uint64_t count) {
        for (; count > 0; --count)
            turn();
    }

    void turn() {
        for (uint32_t worker = 0; worker < cluster_.workers.size(); ++worker) {
            if (random_.below(4) == 0) begin(worker);
        }
        step();
    }

    void step() {
        (void)cluster_.step();
        std::erase_if(open_, [&](const Open& call) {
            if (!cluster_.workers[call.worker]->done(call.id)) return false;
            take(call);
            return true;
        });
    }

    void begin(uint32_t worker) {
        const uint64_t first = random_.below(kKeyCount);
        const uint64_t end = random_.below(2) == 0 ? kKeyCount : first + 1;
        begin(worker, random_.below(2) == 0 ? KeyRange{0, kKeyCount} : KeyRange{first, end});
    }

    ClientCore::CallId begin(uint32_t worker, KeyRange keys) {
        Open& call = open_.emplace_back();
        call.worker = worker;
        call.first_key = keys.begin;
        call.values.assign(keys.key_count(), 1);
        ClientCore& client = *cluster_.workers[worker];
        const CallOptions options{.deadline_ns = kHour};
        call.id = random_.below(4) != 0
                      ? client.push(table_, keys, std::as_bytes(std::span(call.values)), options)
                      : client.pull(table_, keys, std::as_writable_bytes(std::span(call.values)),
                                    options);
        return call.id;
    }

    [[nodiscard]] bool needs_lost_segment(const Open& call) const {
        const auto& segments = cluster_.managers_view().segments();
        const auto next = std::ranges::upper_bound(segments, lost_, {}, &ViewSegment::first);
        const uint64_t last = next == segments.end() ? ~uint64_t{0} : next->first - 1;
        const PositionMap map = PositionMap::dense(kKeyCount);
        for (uint64_t i = 0; i < call.values.size(); ++i) {
            const uint64_t position = map.position(call.first_key + i);
            if (position >= lost_ && position <= last) return true;
        }
        return false;
    }

    void take(const Open& call) {
        const Status ended = cluster_.workers[call.worker]->take(call.id);
        if (ended && cluster_.manager->has_loss() && needs_lost_segment(call)) ++late_answers_;
        if (ended) return;
        CHECK(ended.code() == Errc::kPeerLost);
        const std::string text = ended.error().text();  // of one server, or of several
        const bool says_so =
            text.find("is gone") != std::string::npos || text.find("are gone") != std::string::npos;
        CHECK(says_so);
    }

    void check_that_calls_end() {
        for (uint32_t worker = 0; worker < cluster_.workers.size(); ++worker)
            (void)begin(worker, KeyRange{0, kKeyCount});
        const bool over = cluster_.run_until(
            [&] {
                return std::ranges::all_of(open_, [&](const Open& call) {
                    return cluster_.workers[call.worker]->done(call.id);
                });
            },
            20'000);
        INFO(text());
        REQUIRE(over);
        for (size_t i = 0; i < cluster_.workers.size(); ++i) {
            Open& last = open_.back();
            CHECK(cluster_.workers[last.worker]->take(last.id).code() == Errc::kPeerLost);
            open_.pop_back();
        }
        for (const Open& call : open_)
            take(call);
        open_.clear();
    }

    [[nodiscard]] std::string text() const {
        const View view = cluster_.managers_view();
        std::string all =
            fmt::format("{} replicas, view {}", cluster_.shape().replicas, view.epoch());
        for (const ViewShard& listed : view.shards()) {
            const Shard* const shard = cluster_.find_shard(listed);
            all += fmt::format("\nshard {} of server {}: {}", listed.number, listed.server,
                               shard == nullptr ? "dead" : fmt::format("epoch {}", shard->epoch()));
        }
        for (const ViewSegment& segment : view.segments()) {
            all += fmt::format("\n{:#x}: primary {}, {} backups ({}, {}), learner {}",
                               segment.first, segment.primary, segment.backup_count(),
                               segment.backups[0], segment.backups[1], segment.learner.shard);
        }
        for (const Open& call : open_) {
            all += fmt::format("\nworker {}, call {}: {}", call.worker, call.id,
                               cluster_.workers[call.worker]->done(call.id) ? "over" : "open");
        }
        return all;
    }

    void check_that_the_job_ends() {
        for (auto& worker : cluster_.workers)
            worker.reset();  // its process ends
        REQUIRE(cluster_.run_until([&] { return cluster_.manager->finished(); }, 20'000));
        CHECK(cluster_.manager->outcome().code() == Errc::kPeerLost);
        const auto is_over = [](const auto& shard) {
            return shard == nullptr || shard->finished();
        };
        CHECK(cluster_.run_until([&] { return std::ranges::all_of(cluster_.shards, is_over); },
                                 20'000));
    }

    Random random_;
    SimCluster cluster_;
    TableInfo table_;
    std::deque<Open> open_;
    uint64_t lost_ = 0;  ///< where the segment begins of which all holders die
    uint64_t late_answers_ = 0;
};

}  // namespace

TEST_SUITE("loss") {
    TEST_CASE("when more servers die than there are copies, every call ends and says so") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t histories = testing::histories_or(400);
        uint64_t late_answers = 0;
        for (uint64_t seed = first; seed < first + histories; ++seed) {
            INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
            Loss loss(seed);
            loss.run();
            late_answers += loss.late_answers();
        }
        MESSAGE(
            late_answers << " calls that needed what is lost ended well after the loss was known");
    }
}

}  // namespace weir::test
