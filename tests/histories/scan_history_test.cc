// SPDX-License-Identifier: Apache-2.0
/// \file
/// Scans in histories of whole clusters while servers join, leave and, where there are backups, die,
/// connections break, and workers push: each scan goes on by itself, and gives every key once that was
/// there from its beginning on, with a value that it had meanwhile, and the state of the same moment.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/worker/scan/dense_scan.h"
#include "lib/worker/scan/sparse_scan.h"
#include "tests/cluster/counted_rounds.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_shape.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint64_t kScannedKeys = 900;
constexpr size_t kShardsEver = 16;
constexpr uint64_t kDeadlineNs = 60 * kSecond;

/// What happened in all histories, to see that they reach what they are to reach.
struct ScanCounts {
    uint64_t scans = 0;
    uint64_t pieces = 0;
    uint64_t moved = 0;  ///< scans that met another view
    uint64_t breaks = 0;
    uint64_t deaths = 0;  ///< of servers, while a scan was open
    uint64_t states = 0;  ///< rows that came with their state
};

class ScanHistory {
public:
    ScanHistory(uint64_t seed, ScanCounts& counts)
        : random_(seed),
          counts_(counts),
          faults_(std::make_shared<transport::Faults>(seed)),
          shape_(make_shape()),
          options_(make_options()),
          cluster_(random_(), shape_, options_) {}

    void run() {
        REQUIRE(cluster_.rules.register_rule<AddWithState>("add_with_state").has_value());
        REQUIRE(cluster_.start());
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            const char* const name = layout == Layout::kDense ? "dense" : "sparse";
            TableSchema schema = table_of(layout, name, kScannedKeys, ValueType::kUInt64);
            schema.rule = "add_with_state";
            auto made = cluster_.make_table(0, schema);
            REQUIRE(made.has_value());
            tables_.push_back({*made, {}, {}});
        }
        push(kScannedKeys / 2);
        REQUIRE(cluster_.run_until([&] { return is_pushed(); }));
        if (random_.below(2) == 0) faults_->broken = 0.002;
        const uint64_t scans = counts_.scans + 6;
        for (uint64_t turn = 0; counts_.scans < scans; ++turn) {
            REQUIRE(turn < 1'000'000);
            if (random_.below(400) == 0) move();
            if (shape_.replicas > 0 && random_.below(200) == 0) kill();
            if (is_pushed() && random_.below(3) == 0) push(1 + random_.below(20));
            scan();
            (void)cluster_.step();
        }
        counts_.breaks += faults_->broken_count;
    }

private:
    using Sums = std::map<uint64_t, uint64_t>;

    struct ScannedTable {
        TableInfo info;
        Sums begun;  ///< what was pushed so far
        Sums done;   ///< without what is open
    };

    SimShape make_shape() {
        SimShape shape = moving_shape(random_, faults_);
        shape.workers = 2;
        shape.message_bytes_max = 1024;
        if (random_.below(3) != 0) return shape;
        shape.replicas = 1;
        shape.servers = 3;
        return shape;
    }

    transport::sim::Options make_options() {
        transport::sim::Options options;
        options.delay_ns_max = kMicrosecond * (2 + random_.below(100));
        return options;
    }

    /// A server joins or is told to leave.
    void move() {
        const View& view = cluster_.manager->view();
        if (random_.below(2) == 0) {
            if (cluster_.shards.size() >= kShardsEver) return;
            (void)cluster_.add_server({.shards = static_cast<uint32_t>(1 + random_.below(2))});
        } else if (view.servers().size() > 1) {
            (void)cluster_.manager->leave_server(some_server(random_, view));
        }
    }

    /// A server dies, if each of its segments has a copy elsewhere.
    void kill() {
        const View& view = cluster_.managers_view();
        if (view.servers().size() < 3 || cluster_.has_killed_lately()) return;
        const bool is_at_rest = std::ranges::all_of(view.segments(),
                                                    [](const ViewSegment& segment) {
                                                        return segment.backup_count() == 1 &&
                                                               segment.learner.shard == kNoShard;
                                                    }) &&
                                std::ranges::all_of(view.shards(), [&](const ViewShard& listed) {
                                    const Shard* const shard = cluster_.find_shard(listed);
                                    return shard != nullptr && shard->epoch() == view.epoch();
                                });
        if (!is_at_rest) return;
        const uint32_t server = some_server(random_, view);
        const auto its = std::ranges::find(view.shards(), server, &ViewShard::server);
        for (size_t i = 0; i < cluster_.shards.size(); ++i) {
            const auto& shard = cluster_.shards[i];
            if (shard == nullptr || shard->address() != its->address) continue;
            const uint32_t host = cluster_.host_of_shard(i);
            if (!cluster_.has_reached_manager(host) || !cluster_.has_life_line(host)) return;
            cluster_.kill_host(host);
            if (source_ != nullptr) ++counts_.deaths;
            if (cluster_.shards.size() < kShardsEver) (void)cluster_.add_server({});
            return;
        }
    }

    void push(uint64_t count) {
        push_of_ = random_.below(2);
        for (ScannedTable& table : tables_) {
            if (!tables_[push_of_].begun.empty() && &table != &tables_[push_of_]) continue;
            push(table, count);
        }
    }

    void push(ScannedTable& table, uint64_t count) {
        Sums chosen;
        for (uint64_t i = 0; i < count; ++i)
            chosen.emplace(random_.below(kScannedKeys), 1 + random_.below(9));
        auto& pushed = pushes_.emplace_back();
        for (const auto& [key, delta] : chosen) {
            pushed.keys.push_back(key);
            pushed.deltas.push_back(delta);
            table.begun[key] += delta;
        }
        pushed.table = &table;
        pushed.call = cluster_.workers[1]->push(table.info, pushed.keys,
                                                std::as_bytes(std::span(pushed.deltas)), {});
    }

    [[nodiscard]] bool is_pushed() {
        for (const Pushed& pushed : pushes_) {
            if (!cluster_.workers[1]->done(pushed.call)) return false;
        }
        for (Pushed& pushed : pushes_) {
            const Status status = cluster_.workers[1]->take(pushed.call);
            REQUIRE_MESSAGE(status.has_value(), status.error().message());
            for (size_t i = 0; i < pushed.keys.size(); ++i)
                pushed.table->done[pushed.keys[i]] += pushed.deltas[i];
        }
        pushes_.clear();
        return true;
    }

    /// One step of the scan that is open, as TableScan does it.
    void scan() {
        if (source_ == nullptr) {
            begin_scan();
        } else if (!source_->is_over()) {
            if (!source_->is_ready()) return;
            take();
        }
        if (!source_->is_over()) {
            REQUIRE(source_->ask(cluster_.clock.now_ns(), kDeadlineNs).has_value());
            return;
        }
        if (cluster_.workers[0]->epoch() != epoch_) ++counts_.moved;
        ++counts_.scans;
        check_seen();
        source_.reset();
    }

    void begin_scan() {
        ClientCore& core = *cluster_.workers[0];
        scanned_ = &tables_[random_.below(tables_.size())];
        before_ = scanned_->done;
        from_ = random_.below(2) == 0 ? 0 : random_.below(kScannedKeys);
        ScanExtent extent;
        if (from_ != 0) extent.keys = KeyRange{from_, kScannedKeys};
        extent.shares = static_cast<uint32_t>(1 + random_.below(3));
        extent.share = static_cast<uint32_t>(random_.below(extent.shares));
        extent.has_state = random_.below(2) == 0;
        extent.piece_bytes = 256 + random_.below(2048);
        extent_ = extent;
        const TableInfo& table = scanned_->info;
        if (table.positions.is_dense()) {
            const auto allocate = [this,
                                   &core](size_t bytes) -> Result<std::shared_ptr<std::byte>> {
                auto block = std::make_shared<Block>(core.memory(), bytes);
                blocks_.push_back(block);  // to the end: a server may still write there
                return std::shared_ptr<std::byte>(block, block->data());
            };
            source_ = std::make_unique<DenseScan>(core, allocate, table, extent);
        } else {
            source_ = std::make_unique<SparseScan>(core, table, extent);
        }
        seen_.clear();
        epoch_ = core.epoch();
    }

    void take() {
        const uint64_t now_ns = cluster_.clock.now_ns();
        const Result<ScanRows> rows = source_->take({now_ns, now_ns + kDeadlineNs}, now_ns);
        REQUIRE_MESSAGE(rows.has_value(), rows.error().message());
        ++counts_.pieces;
        std::vector<uint64_t> keys(rows->keys.begin(), rows->keys.end());
        for (uint64_t key = rows->range.begin; key < rows->range.end; ++key)
            keys.push_back(key);
        REQUIRE(rows->values.size() == keys.size() * sizeof(uint64_t));
        for (size_t i = 0; i < keys.size(); ++i) {
            uint64_t value = 0;
            std::memcpy(&value, rows->values.data() + i * sizeof value, sizeof value);
            REQUIRE_MESSAGE(seen_.emplace(keys[i], value).second,
                            "key " << keys[i] << " came twice");
        }
        REQUIRE(rows->state.size() == (extent_.has_state ? rows->values.size() : 0));
        if (!extent_.has_state) return source_->release();
        CHECK(std::ranges::equal(rows->state, rows->values));
        counts_.states += keys.size();
        source_->release();
    }

    /// Whether the key is in the share that is read.
    [[nodiscard]] bool is_shared(uint64_t key) const {
        const PositionMap& positions = scanned_->info.positions;
        const bool is_dense = positions.is_dense();
        const PositionRange share =
            share_of(is_dense ? kScannedKeys - 1 : ~uint64_t{0}, extent_.share, extent_.shares);
        const uint64_t at = is_dense ? key : positions.position(key);
        return at >= share.first && at <= share.last;
    }

    void check_seen() {
        const bool is_dense = scanned_->info.positions.is_dense();
        for (uint64_t key = from_; key < kScannedKeys; ++key) {
            if (!is_shared(key)) continue;
            const auto sum = before_.find(key);
            if (!is_dense && sum == before_.end()) continue;
            const auto at = seen_.find(key);
            REQUIRE_MESSAGE(at != seen_.end(), "key " << key << " is missing");
            if (sum != before_.end()) CHECK(at->second >= sum->second);
        }
        for (const auto& [key, value] : seen_) {
            CHECK((key >= from_ && is_shared(key)));
            CHECK((value == 0 || value <= scanned_->begun[key]));
        }
    }

    struct Pushed {
        ScannedTable* table = nullptr;
        ClientCore::CallId call = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> deltas;
    };

    Random random_;
    ScanCounts& counts_;
    std::shared_ptr<transport::Faults> faults_;
    SimShape shape_;
    transport::sim::Options options_;
    std::vector<ScannedTable> tables_;
    size_t push_of_ = 0;
    std::vector<Pushed> pushes_;
    SimCluster cluster_;  // reads what is pushed
    std::vector<std::shared_ptr<Block>> blocks_;
    std::unique_ptr<ScanSource> source_;
    ScannedTable* scanned_ = nullptr;
    ScanExtent extent_;
    uint64_t epoch_ = 0;
    uint64_t from_ = 0;  // the keys that are scanned
    Sums before_;
    Sums seen_;
};

}  // namespace

TEST_SUITE("scan_history") {
    TEST_CASE("a scan goes on while servers join, leave and die, and gives every key once") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(100);
        ScanCounts counts;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            ScanHistory(seed, counts).run();
        }
        MESSAGE(
            fmt::format("{} scans in {} pieces, {} met another view, {} breaks, {} deaths, {} "
                        "rows with state",
                        counts.scans, counts.pieces, counts.moved, counts.breaks, counts.deaths,
                        counts.states));
        if (count < 100) return;
        CHECK(counts.moved > 100);
        CHECK(counts.deaths > 10);
        CHECK(counts.states > 10'000);
    }
}

}  // namespace weir::test
