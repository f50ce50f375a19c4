// SPDX-License-Identifier: Apache-2.0
/// \file
/// More servers die than there are copies, and some segment is lost, in half of the histories while
/// servers join and leave. A third of them have three managers; in half of them clocks of processes go up
/// to 10 % too fast or too slow. Some servers are not dead, but stopped or cut off, and may be heard again
/// before or after that. Every call ends long before its deadline, and one that needs what is lost
/// says so; what copies that are left have is what was acknowledged; when the workers have given up, the
/// job ends.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "tests/cluster/loss_calls.h"
#include "tests/cluster/loss_silence.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

/// What happened in all histories, to see that they reach what they are to reach.
struct LossCounts {
    uint64_t late_answers = 0;
    uint64_t silences = 0;
    uint64_t replaced = 0;
    uint64_t parts = 0;
    uint64_t copies = 0;
    uint64_t keys = 0;
};

/// The manager gives up a silent server with the last copy of something within two minutes.
constexpr uint64_t kGivenUpNs = 125 * kSecond;

/// One random history, up to its end.
class Loss {
public:
    explicit Loss(uint64_t seed)
        : random_(seed),
          cluster_(random_(), make_shape(), make_options()),
          calls_(cluster_, random_),
          silence_(cluster_, random_) {
        calls_.start();
        REQUIRE(cluster_.run_until([&] { return has_all_copies(); }));
    }

    void run() {
        take_turns(20 + random_.below(200));
        if (random_.below(2) == 0) {
            change_servers();
            take_turns(random_.below(400));
        }
        if (random_.below(2) == 0) be_silent_for_a_while();
        // A segment that moves may be saved by who learns it just then.
        const View view = cluster_.managers_view();
        lost_ = view.segments()[random_.below(view.segments().size())].first;
        while (!cluster_.has_loss())
            lose_holders();
        if (random_.below(2) == 0) silence_.heal();
        check_that_calls_end();
        silence_.heal();
        check_what_is_left();
        check_that_the_job_ends();
    }

    void add_to(LossCounts& counts) const {
        counts.late_answers += calls_.late_answers();
        counts.silences += silence_.silences();
        counts.replaced += silence_.replaced();
        counts.parts += calls_.parts_acknowledged();
        counts.copies += copies_checked_;
        counts.keys += calls_.keys_checked();
    }

private:
    SimShape make_shape() {
        SimShape shape;
        shape.replicas = static_cast<uint32_t>(random_.below(3));
        shape.servers = shape.replicas + 2 + static_cast<uint32_t>(random_.below(2));
        shape.shards = static_cast<uint32_t>(1 + random_.below(2));
        shape.points = static_cast<uint32_t>(1 + random_.below(4));
        shape.workers = static_cast<uint32_t>(1 + random_.below(3));
        shape.is_manager_apart = true;
        if (random_.below(3) == 0) shape.managers = 3;
        if (random_.below(2) == 0) shape.clock_skew = 0.1;
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
        REQUIRE(cluster_.leave_server(server));
    }

    void be_silent_for_a_while() {
        const View view = cluster_.managers_view();
        const uint32_t server = view.servers()[random_.below(view.servers().size())].number;
        const std::optional<uint32_t> host = host_of(server);
        if (!host) return;
        silence_.begin(server, *host, false);
        while (silence_.is_on())
            slow_turn(40);
        take_turns(random_.below(100));
    }

    /// They die; one may fall silent instead. The manager may hear of all at once, or of one after the
    /// other.
    void lose_holders() {
        const uint64_t epoch = cluster_.managers_view().epoch();
        const bool is_stopped = random_.below(2) == 0;
        if (is_stopped) cluster_.stopped_hosts.insert(SimCluster::kManagersHost);
        for (const uint32_t server : holders()) {
            const std::optional<uint32_t> host = host_of(server);
            if (!host) continue;
            !silence_.is_on() && random_.below(3) == 0
                ? silence_.begin(server, *host, random_.below(8) == 0)
                : kill(*host);
            take_turns(random_.below(4));
        }
        if (is_stopped) take_turns(random_.below(50));
        cluster_.stopped_hosts.erase(SimCluster::kManagersHost);
        const bool has_silent = silence_.is_on();
        const uint64_t begin_ns = cluster_.clock.now_ns();
        while (!cluster_.has_loss() && cluster_.managers_view().epoch() == epoch) {
            if (has_silent && !silence_.is_on()) return;  // it lives on
            const uint64_t waited_ns = cluster_.clock.now_ns() - begin_ns;
            INFO(text());
            REQUIRE(waited_ns < 2 * kGivenUpNs);
            slow_turn(waited_ns < 2 * kSecond ? 40 : 4000);
        }
    }

    /// Shards that have a segment; none if it is lost.
    [[nodiscard]] static std::vector<uint32_t> holders(const View& view,
                                                       const ViewSegment& segment) {
        std::vector<uint32_t> shards;
        if (view.shard(segment.primary) == nullptr) return shards;
        shards.push_back(segment.primary);
        for (size_t b = 0; b < segment.backup_count(); ++b)
            shards.push_back(segment.backups[b]);
        return shards;
    }

    /// Servers that have the segment that is to be lost.
    std::vector<uint32_t> holders() {
        const View view = cluster_.managers_view();
        const ViewSegment& segment =
            *std::ranges::find(view.segments(), lost_, &ViewSegment::first);
        std::vector<uint32_t> servers;
        for (const uint32_t shard : holders(view, segment))
            servers.push_back(view.shard(shard)->server);
        std::reverse(servers.begin(), servers.begin() + random_.below(servers.size() + 1));
        return servers;
    }

    /// Nothing if it is dead.
    [[nodiscard]] std::optional<uint32_t> host_of(uint32_t server) const {
        const View view = cluster_.managers_view();
        for (const ViewShard& listed : view.shards()) {
            if (listed.server != server) continue;
            for (size_t i = 0; i < cluster_.shards.size(); ++i) {
                const auto& shard = cluster_.shards[i];
                if (shard != nullptr && shard->address() == listed.address)
                    return cluster_.host_of_shard(i);
            }
        }
        return std::nullopt;
    }

    void kill(uint32_t host) {
        cluster_.kill_host(host);
        for (size_t i = 0; i < cluster_.shards.size(); ++i) {
            if (cluster_.host_of_shard(i) == host) cluster_.shards[i].reset();
        }
    }

    void take_turns(uint64_t count) {
        for (; count > 0; --count)
            turn();
    }

    void turn() { slow_turn(4); }

    void slow_turn(uint64_t slowness) {
        for (uint32_t worker = 0; worker < cluster_.workers.size(); ++worker) {
            if (random_.below(slowness) == 0) calls_.begin(worker);
        }
        (void)cluster_.step();
        live();
    }

    void let_workers_hear() {
        const uint64_t begin_ns = cluster_.clock.now_ns();
        const bool have_heard = cluster_.run_until([&] {
            live();
            return cluster_.clock.now_ns() > begin_ns + 2 * kSecond;
        });
        REQUIRE(have_heard);
    }

    void live() {
        calls_.live(silence_.silences() > 0);
        silence_.live();
    }

    void check_that_calls_end() {
        // A silent server that is given up may serve on until workers hear of it.
        if (silence_.silences() > 0) let_workers_hear();
        calls_.begin_in_vain();
        const bool over = cluster_.run_until(
            [&] {
                live();
                return calls_.is_at_rest();
            },
            20'000);
        INFO(text());
        REQUIRE(over);
    }

    /// Workers are told of the loss, and ask nobody any more: so this looks into the servers.
    void check_what_is_left() {
        cluster_.run_idle(200);
        const View view = cluster_.managers_view();
        INFO(text());
        for (size_t i = 0; i < view.segments().size(); ++i) {
            for (const uint32_t holder : holders(view, view.segments()[i])) {
                const Shard* const shard = cluster_.find_shard(*view.shard(holder));
                if (shard == nullptr) continue;
                calls_.check_copy(*shard, view.range(i));
                ++copies_checked_;
            }
        }
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
        return all + calls_.text();
    }

    void check_that_the_job_ends() {
        for (auto& worker : cluster_.workers)
            worker.reset();  // its process ends
        REQUIRE(cluster_.run_until([&] { return cluster_.is_managed_to_end(); }, 20'000));
        if (cluster_.manager != nullptr)
            CHECK(cluster_.manager->outcome().code() == Errc::kPeerLost);
        const auto is_over = [](const auto& shard) {
            return shard == nullptr || shard->finished();
        };
        // Of several managers that have ended, one that was silent meanwhile hears nothing: it waits for
        // two minutes.
        CHECK(cluster_.run_until([&] { return std::ranges::all_of(cluster_.shards, is_over); },
                                 cluster_.manager != nullptr ? 20'000 : 2'000'000));
    }

    Random random_;
    SimCluster cluster_;
    LossCalls calls_;
    LossSilence silence_;
    uint64_t lost_ = 0;  ///< where the segment begins of which all holders die
    uint64_t copies_checked_ = 0;
};

}  // namespace

TEST_SUITE("loss") {
    TEST_CASE("when more servers die than there are copies, every call ends and says so") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t histories = testing::histories_or(60);
        LossCounts counts;
        for (uint64_t seed = first; seed < first + histories; ++seed) {
            INFO("run again with WEIR_SEED=" << seed << " WEIR_HISTORIES=1");
            Loss loss(seed);
            loss.run();
            loss.add_to(counts);
        }
        MESSAGE(fmt::format(
            "{} calls that needed what is lost ended well after the loss was known; {} servers "
            "silent, {} of them replaced or lost; {} parts of iterations acknowledged; {} "
            "copies were left, with {} keys",
            counts.late_answers, counts.silences, counts.replaced, counts.parts, counts.copies,
            counts.keys));
        // Histories that no longer reach what they are there for fail.
        CHECK(counts.silences >= testing::fewest_of(histories, 1.0));
        CHECK(counts.replaced >= testing::fewest_of(histories, 0.32));
        CHECK(counts.parts >= testing::fewest_of(histories, 1.0));  // few histories have most
        CHECK(counts.copies >= testing::fewest_of(histories, 10));
    }
}

}  // namespace weir::test
