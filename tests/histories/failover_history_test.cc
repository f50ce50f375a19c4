// SPDX-License-Identifier: Apache-2.0
/// \file
/// Histories of clusters whose segments have a backup: servers are killed at any instant, their
/// memory with them, join and leave, connections between them break, workers die. One failure at a
/// time: before the next server dies, each segment has its copies again. What must be true: no
/// segment is lost; every acknowledged push counts once, and one of a dead worker at most once; no
/// two shards answer for one position; in the end all copies are equal, times included.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/core.h>

#include "tests/cluster/equal_copies.h"
#include "tests/cluster/move_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

struct FailoverCounts {
    uint64_t killed = 0;
    uint64_t killed_primaries = 0;
    uint64_t workers_died = 0;
    uint64_t joined = 0;
    uint64_t left = 0;
    uint64_t complete = 0;
    uint64_t stopped = 0;
    uint64_t answers = 0;
    uint64_t resent = 0;
    uint64_t equal_segments = 0;
};

class FailoverHistory {
public:
    FailoverHistory(uint64_t seed, FailoverCounts& counts)
        : random_(seed), counts_(counts), shape_(make_shape(seed)), cluster_(seed, shape_) {}

    void run() {
        (void)cluster_.make_table(testing::dense_table("d", 300, ValueType::kInt64));
        TableSchema wide = testing::dense_table("w", 12, ValueType::kInt64, 30);
        wide.width = random_.below(2) == 0 ? 30 : 3;
        (void)cluster_.make_table(wide);
        (void)cluster_.make_table(testing::sparse_table("s", ValueType::kInt64));
        const uint64_t turns = 300 + random_.below(1500);
        const uint64_t kill_every = 20 + random_.below(200);
        for (uint64_t turn = 0; turn < turns; ++turn) {
            if (random_.below(4) == 0) push();
            if (random_.below(kill_every) == 0) kill_server();
            if (random_.below(150) == 0) join_or_leave();
            if (random_.below(300) == 0) kill_worker();
            if (random_.below(200) == 0) break_worker();
            if (random_.below(60) == 0) cluster_.break_streams();
            for (uint64_t n = random_.below(20); n > 0; --n)
                step();
            if (turn == turns / 2 && random_.below(2) == 0)
                (void)cluster_.make_table(testing::dense_table("late", 100, ValueType::kInt64));
        }
        bury();
        const bool is_over = cluster_.run_until([&] {
            check_primaries();
            return cluster_.is_quiet() && has_all_copies();
        });
        INFO(cluster_text());
        REQUIRE(is_over);
        if (shape_.faults != nullptr) shape_.faults->not_now = 0;
        // What workers sent that have died since may still be on its way to the copies.
        (void)cluster_.run_until([] { return false; }, 200);
        check_copies();
        check_values();
        counts_.complete += cluster_.complete;
        counts_.stopped += cluster_.stopped;
    }

private:
    MoveShape make_shape(uint64_t seed) {
        MoveShape shape;
        shape.backups = 1;
        shape.servers = 2 + static_cast<uint32_t>(random_.below(3));
        shape.shards = 1 + static_cast<uint32_t>(random_.below(2));
        shape.points = 1 + static_cast<uint32_t>(random_.below(5));
        shape.workers = 1 + static_cast<uint32_t>(random_.below(3));
        shape.faults = std::make_shared<transport::Faults>(seed);
        shape.faults->not_now = random_.below(2) == 0 ? 0.1 : 0;
        shape.faults->delay_polls_max = random_.below(2) == 0 ? 4 : 0;
        return shape;
    }

    void step() {
        (void)cluster_.step();
        check_primaries();
        if (dead_ && --dead_turns_ == 0) bury();
    }

    /// The death of a server is noticed.
    void bury() {
        if (dead_) cluster_.notice_death(*std::exchange(dead_, std::nullopt));
        REQUIRE_FALSE(cluster_.has_loss);
    }

    void push() {
        MoveWorker* const worker = some_worker();
        const auto table = static_cast<uint32_t>(random_.below(cluster_.schemas.size()));
        const TableSchema& schema = cluster_.schemas[table];
        const auto value = static_cast<int64_t>(1 + random_.below(1U << 30));
        if (worker == nullptr) return;
        const bool is_dense = schema.layout == Layout::kDense;
        if (is_dense && random_.below(2) == 0) {
            const uint64_t begin = random_.below(schema.key_count);
            const uint64_t most = schema.width > 1 ? 3 : 60;
            const KeyRange keys{begin, std::min(schema.key_count, begin + 1 + random_.below(most))};
            for (uint64_t key = keys.begin; key < keys.end; ++key)
                sums_[{table, key}] += value;
            return worker->push(table, keys, value);
        }
        std::vector<uint64_t>& known = lists_[{table, random_.below(4)}];
        if (known.empty() || random_.below(3) == 0) {
            std::set<uint64_t> keys;
            const uint64_t most = random_.below(2) == 0 || schema.width > 1 ? 3 : 40;
            for (uint64_t n = 1 + random_.below(most); n > 0; --n)
                keys.insert(random_.below(is_dense ? schema.key_count : 500));
            known = {keys.begin(), keys.end()};
        }
        for (const uint64_t key : known)
            sums_[{table, key}] += value;
        worker->push(table, known, value);
    }

    [[nodiscard]] MoveWorker* some_worker() {
        return cluster_.workers[random_.below(cluster_.workers.size())].get();
    }

    void break_worker() {
        if (MoveWorker* const worker = some_worker()) worker->break_connections();
    }

    /// Not the last one. What it had not heard of may be there or not.
    void kill_worker() {
        auto& worker = cluster_.workers[random_.below(cluster_.workers.size())];
        const auto alive =
            std::ranges::count_if(cluster_.workers, [](const auto& w) { return w != nullptr; });
        if (worker == nullptr || alive < 2) return;
        worker->for_open([&](uint32_t table, uint64_t key, int64_t value) {
            sums_[{table, key}] -= value;
            maybe_[{table, key}].push_back(value);
        });
        worker.reset();
        ++counts_.workers_died;
    }

    /// One at a time: only when each segment has its copies, and the view is everywhere.
    void kill_server() {
        if (dead_ || !has_all_copies() || cluster_.membership->view().servers().size() < 2) return;
        const auto servers = cluster_.membership->view().servers();
        const uint32_t server = servers[random_.below(servers.size())].number;
        ++counts_.killed;
        const View& view = cluster_.membership->view();
        for (const ViewSegment& segment : view.segments()) {
            if (view.shard(segment.primary)->server != server) continue;
            ++counts_.killed_primaries;
            break;
        }
        cluster_.kill_unnoticed(server);
        dead_ = server;
        dead_turns_ = 1 + random_.below(random_.below(2) == 0 ? 3 : 300);
        if (servers.size() < 4) wants_server_ = true;
    }

    void join_or_leave() {
        if (dead_) return;
        const auto servers = cluster_.membership->view().servers();
        if (std::exchange(wants_server_, false) || (servers.size() < 5 && random_.below(2) == 0)) {
            cluster_.join_server();
            ++counts_.joined;
            return;
        }
        const uint32_t server = servers[random_.below(servers.size())].number;
        if (cluster_.may_leave(server)) ++counts_.left;
    }

    /// Every segment has its backup, if there is a second server, and no view is under way.
    [[nodiscard]] bool has_all_copies() const {
        const View& view = cluster_.membership->view();
        if (cluster_.membership->has_losers()) return false;
        const size_t wanted = view.servers().size() > 1 ? 1 : 0;
        return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
            return segment.backup_count() >= wanted;
        });
    }

    void check_primaries() {
        std::vector<PositionRange> ranges;
        for (const auto& shard : cluster_.shards) {
            if (shard == nullptr || shard->finished()) continue;
            const auto own = shard->primary().ranges();
            ranges.insert(ranges.end(), own.begin(), own.end());
        }
        std::ranges::sort(ranges, {}, &PositionRange::first);
        for (size_t i = 1; i < ranges.size(); ++i)
            REQUIRE(ranges[i - 1].last < ranges[i].first);
        for (const auto& shard : cluster_.shards) {
            if (shard == nullptr || !shard->finished()) continue;
            INFO("a shard has ended: " << (shard->outcome() ? std::string("in order")
                                                            : shard->outcome().error().message()));
            REQUIRE(shard->outcome());
        }
    }

    void check_copies() {
        const View& view = cluster_.membership->view();
        for (size_t i = 0; i < view.segments().size(); ++i) {
            const ViewSegment& segment = view.segments()[i];
            if (segment.backup_count() == 0) continue;
            check_equal_copies(*cluster_.shards[segment.primary],
                               *cluster_.shards[segment.backups[0]], view.range(i));
            ++counts_.equal_segments;
        }
    }

    void check_values() {
        for (const auto& worker : cluster_.workers) {
            if (worker == nullptr) continue;
            counts_.answers += worker->answers;
            counts_.resent += worker->resent;
        }
        MoveReader reader(cluster_);
        for (const auto& entry : sums_) {
            const auto& where = entry.first;
            const int64_t sum = entry.second;
            std::set<int64_t> possible{sum};
            for (const int64_t value : maybe_[where]) {
                for (const int64_t before : std::set(possible))
                    possible.insert(before + value);
            }
            const int64_t value = reader.value(where.first, where.second);
            INFO("table " << where.first << ", key " << where.second << ": " << value
                          << ", acknowledged " << sum << ", " << possible.size() << " possible");
            REQUIRE(possible.contains(value));
        }
    }

    [[nodiscard]] std::string cluster_text() const {
        const View& view = cluster_.membership->view();
        std::string text = fmt::format("view {}, {} servers, losers {}", view.epoch(),
                                       view.servers().size(), cluster_.membership->has_losers());
        for (const ViewSegment& segment : view.segments())
            text += fmt::format("\n{:#x}: primary {}, {} backups, first {}, learner {}",
                                segment.first, segment.primary, segment.backup_count(),
                                segment.backups[0], segment.learner.shard);
        for (const auto& worker : cluster_.workers)
            text += worker == nullptr || worker->is_idle() ? "" : "\na worker waits";
        return text;
    }

    Random random_;
    FailoverCounts& counts_;
    MoveShape shape_;
    MoveCluster cluster_;
    std::map<std::pair<uint32_t, uint64_t>, int64_t> sums_;
    std::map<std::pair<uint32_t, uint64_t>, std::vector<int64_t>> maybe_;
    std::map<std::pair<uint32_t, uint64_t>, std::vector<uint64_t>> lists_;
    std::optional<uint32_t> dead_;  ///< and nobody knows it yet
    uint64_t dead_turns_ = 0;
    bool wants_server_ = false;
};

TEST_SUITE("failover_history") {
    TEST_CASE("no acknowledged push is lost and none is done twice when servers are killed") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(300);
        FailoverCounts counts;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            FailoverHistory(seed, counts).run();
        }
        MESSAGE(fmt::format(
            "{} servers killed, {} of them primaries, {} joined, {} asked to leave, {} workers "
            "died, {} copies and moves complete, {} handed over, {} pushes, {} sent again, {} "
            "segments with equal copies",
            counts.killed, counts.killed_primaries, counts.joined, counts.left, counts.workers_died,
            counts.complete, counts.stopped, counts.answers, counts.resent, counts.equal_segments));
        for (const uint64_t reached : {counts.killed_primaries, counts.joined, counts.left,
                                       counts.stopped, counts.equal_segments})
            CHECK(reached >= testing::fewest_of(count, 1.3));
        CHECK(counts.workers_died >= testing::fewest_of(count, 0.9));
    }
}

}  // namespace
}  // namespace weir::test
