// SPDX-License-Identifier: Apache-2.0
/// \file
/// The judge: histories of whole clusters while servers and workers join and leave, joiners and
/// workers die, connections break and heal, and processes pause or are slow. What must be true of
/// them is in HistoryWorkers. A history is repeated exactly by its seed. A failing one prints the
/// seed and its last events.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/server/history_faults.h"
#include "tests/server/history_log.h"
#include "tests/server/history_shape.h"
#include "tests/server/history_workers.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

class ElasticHistory {
public:
    ElasticHistory(uint64_t seed, HistoryCounts& counts)
        : random_(seed),
          counts_(counts),
          network_faults_(std::make_shared<transport::Faults>(random_())),
          shape_(make_shape()),
          options_(make_options()),
          cluster_(random_(), shape_, options_),
          events_(cluster_.clock),
          workers_(cluster_, random_, events_, counts_),
          faults_(cluster_, random_, workers_, events_, counts_) {}

    /// Returns what happened last, and digests of all events and of all that went over the network.
    std::string run() {
        REQUIRE(cluster_.rules.register_rule<AddWithState>("add_with_state").has_value());
        REQUIRE(cluster_.rules.register_rule<RoundsInOrder>("rounds_in_order").has_value());
        REQUIRE(cluster_.start());
        workers_.start();
        if (random_.below(2) == 0) network_faults_->broken = 0.002;
        network_faults_->not_now = random_.below(3) == 0 ? 0.05 : 0;
        if (random_.below(3) == 0) faults_.slow_down();
        const uint64_t turns = 600 + random_.below(1500);
        for (uint64_t turn = 0; turn < turns; ++turn) {
            if (random_.below(60) == 0) wish();
            live();
            (void)cluster_.step();
            check_primaries();
        }
        events_.add("no more wishes");
        workers_.drain();
        faults_.drain();
        finish();
        workers_.check_all();
        counts_.views += cluster_.manager->view().epoch();
        counts_.breaks += network_faults_->broken_count;
        return fmt::format("{}{:016x} {:016x}: {} packets in {} ns\n", events_.text(),
                           events_.digest(), cluster_.network.trace_hash(),
                           cluster_.network.counters().packets, cluster_.clock.now_ns());
    }

private:
    SimShape make_shape() {
        SimShape shape = moving_shape(random_, network_faults_);
        shape.workers = static_cast<uint32_t>(1 + random_.below(3));
        shape.message_bytes_max = random_.below(2) == 0 ? 8192 : 1024;
        shape.fetch_bytes_max = random_.below(2) == 0 ? 512 : 1 << 20;
        shape.eager_bytes = random_.below(2) == 0 ? 64 : 4096;
        if (random_.below(4) == 0) shape.waiting_bytes_max = 4096;  // shards are busy often
        if (random_.below(4) == 0) shape.list_cache_bytes = 2048;   // lists are forgotten often
        if (random_.below(2) == 0) shape.on_worker_loss = OnWorkerLoss::kContinue;
        return shape;
    }

    transport::sim::Options make_options() {
        transport::sim::Options options;
        options.maps_memory = random_.below(2) == 0;
        options.delay_ns_max = kMicrosecond * (2 + random_.below(100));
        options.loss = random_.below(4) == 0 ? 0.01 : 0;
        options.step_bytes = 64;
        return options;
    }

    /// What somebody may want.
    void wish() {
        switch (random_.below(9)) {
            case 0: return faults_.add_server();
            case 1: return faults_.remove_server();
            case 2: return workers_.add();
            case 3: return workers_.remove();
            case 4: return faults_.kill_worker();
            case 5:
            case 6: return faults_.cut_from_manager();
            default: return faults_.pause();
        }
    }

    void live() {
        const uint64_t epoch = cluster_.manager->view().epoch();
        if (std::exchange(epoch_seen_, epoch) != epoch) events_.add("view {}", epoch);
        faults_.live();
        workers_.live();
    }

    /// At no time do two shards answer for one position, whatever views they have.
    void check_primaries() {
        std::vector<uint64_t> epochs;
        for (const auto& shard : cluster_.shards)
            epochs.push_back(is_there(shard.get()) ? shard->epoch() : 0);
        if (epochs == epochs_) return;
        epochs_ = std::move(epochs);
        std::vector<PositionRange> ranges;
        for (const auto& shard : cluster_.shards) {
            if (!is_there(shard.get())) continue;
            const auto own = shard->primary().ranges();
            ranges.insert(ranges.end(), own.begin(), own.end());
        }
        std::ranges::sort(ranges, {}, &PositionRange::first);
        for (size_t i = 1; i < ranges.size(); ++i) {
            if (ranges[i - 1].last < ranges[i].first) continue;
            INFO("two shards answer for position " << ranges[i].first << "\n" << events_.text());
            REQUIRE(ranges[i - 1].last < ranges[i].first);
        }
        ++counts_.primaries_checked;
    }

    [[nodiscard]] static bool is_there(const Shard* shard) {
        return shard != nullptr && !shard->finished();
    }

    void finish() {
        const bool over = cluster_.run_until(
            [&] {
                live();
                check_primaries();
                return faults_.is_at_rest() && workers_.is_at_rest();
            },
            20'000);
        INFO(events_.text());
        INFO(text());
        REQUIRE(over);
        network_faults_->broken = 0;
    }

    [[nodiscard]] std::string text() const {
        return fmt::format(
            "{} shards per server, messages of {} bytes, {} bytes may wait, {} of fetches, eager "
            "{}, maps {}, breaks {}\n{}",
            shape_.shards, shape_.message_bytes_max, shape_.waiting_bytes_max,
            shape_.fetch_bytes_max, shape_.eager_bytes, options_.maps_memory,
            network_faults_->broken_count, workers_.text());
    }

    Random random_;
    HistoryCounts& counts_;
    std::shared_ptr<transport::Faults> network_faults_;
    SimShape shape_;
    transport::sim::Options options_;
    SimCluster cluster_;
    HistoryEvents events_;
    HistoryWorkers workers_;
    HistoryFaults faults_;
    uint64_t epoch_seen_ = 0;
    std::vector<uint64_t> epochs_;  // of the shards
};

}  // namespace

TEST_SUITE("elastic_history") {
    TEST_CASE("nothing is lost or done twice while servers and workers come and go") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(2000);
        HistoryCounts counts;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            (void)ElasticHistory(seed, counts).run();
        }
        MESSAGE(fmt::format(
            "{} views, {} servers joined, {} asked to leave, {} joiners died, {} workers joined, "
            "{} left, {} died, {} pushes, {} calls given up, {} parts, {} breaks, {} pauses, {} "
            "cuts "
            "from the manager",
            counts.views, counts.servers_joined, counts.servers_left, counts.joiners_died,
            counts.workers_joined, counts.workers_left, counts.workers_died, counts.pushes,
            counts.given_up, counts.rounds, counts.breaks, counts.pauses, counts.cuts));
        // Histories that no longer reach what they are there for fail.
        for (const uint64_t reached :
             {counts.views, counts.servers_joined, counts.servers_left, counts.joiners_died,
              counts.workers_joined, counts.workers_left, counts.workers_died, counts.breaks,
              counts.pauses, counts.cuts, counts.primaries_checked})
            CHECK(reached >= count / 4);
        CHECK(counts.given_up >= count / 40);
        CHECK(counts.pushes >= 10 * count);
        CHECK(counts.rounds >= 10 * count);
    }

    TEST_CASE("a history is repeated exactly by its seed, also by another process") {
        constexpr const char* kSaysThem = "WEIR_TEST_SAYS_HISTORIES";
        const uint64_t first = testing::seed_or(1);
        HistoryCounts counts;
        std::string histories;
        for (uint64_t seed = first; seed < first + 20; ++seed)
            histories += ElasticHistory(seed, counts).run();
        if (std::getenv(kSaysThem) != nullptr) {  // NOLINT(concurrency-mt-unsafe)
            std::fputs(histories.c_str(), stdout);
            return;
        }
        INFO("WEIR_SEED=" << first);
        std::string again;
        for (uint64_t seed = first; seed < first + 20; ++seed)
            again += ElasticHistory(seed, counts).run();
        CHECK(again == histories);
        const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
        const std::string command =
            fmt::format("{}=1 WEIR_SEED={} '{}' -ts=elastic_history -tc='a history is repeated*'",
                        kSaysThem, first, self);
        std::FILE* const other = popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
        REQUIRE(other != nullptr);
        std::string heard;
        std::array<char, 4096> block{};
        for (size_t n = 0; (n = std::fread(block.data(), 1, block.size(), other)) > 0;)
            heard.append(block.data(), n);
        CHECK(pclose(other) == 0);
        CHECK(heard.find(histories) != std::string::npos);
    }
}

}  // namespace weir::test
