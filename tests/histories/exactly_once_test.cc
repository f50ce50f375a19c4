// SPDX-License-Identifier: Apache-2.0
/// \file
/// Histories of clusters whose connections break and are made anew: small and large pushes of
/// ranges, lists and known lists, many at a time, parts of iterations, and pulls between them. Each
/// pushes random words to its keys, so that the sums say whether every push took effect exactly
/// once. Most go through filters, which leave out some of their keys.

#include <memory>
#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/filter/shorn_codec.h"
#include "tests/histories/machinery/history_filters.h"
#include "tests/seed.h"
#include "transport/fault/fault.h"

namespace weir::test {
namespace {

constexpr uint64_t kSumKeys = 600;
constexpr uint32_t kPushers = 2;

class BreakingCluster {
public:
    explicit BreakingCluster(uint64_t seed) : random_(seed) {
        SimShape shape;
        shape.workers = kPushers;
        shape.message_bytes_max = random_.below(2) == 0 ? 8192 : 1024;
        shape.eager_bytes = random_.below(2) == 0 ? 64 : 4096;
        if (random_.below(3) == 0) shape.waiting_bytes_max = 4096;  // shards are busy often
        if (random_.below(3) == 0) shape.list_cache_bytes = 3000;   // and forget lists
        shape.faults = faults_;
        shape.faults_of_all = true;
        transport::sim::Options options;
        options.maps_memory = random_.below(2) == 0;
        options.delay_ns_max = kMicrosecond * (2 + random_.below(50));
        cluster_ = std::make_unique<SimCluster>(random_(), shape, options);
        REQUIRE(cluster_->rules.register_codec(ShornCodec::kName, std::make_shared<ShornCodec>()));
        REQUIRE(cluster_->start());
        for (TableSchema schema :
             {table_of(Layout::kDense, "dense", kSumKeys, ValueType::kUInt64),
              table_of(Layout::kSparse, "sparse", kSumKeys, ValueType::kUInt64),
              table_of(Layout::kDense, "parts", kSumKeys, ValueType::kUInt64)}) {
            schema.codec = ShornCodec::kName;
            auto made = cluster_->make_table(0, schema);
            REQUIRE(made.has_value());
            tables_.push_back(*made);
            sums_.emplace_back(kSumKeys);
        }
        for (auto& lists : lists_) {
            for (int i = 0; i < 4; ++i)
                lists.push_back(some_keys(10 + random_.below(80)));
        }
    }

    /// Returns the first error of a call. Either connections break, or servers join.
    Status run(int rounds, bool servers_join) {
        faults_->broken = servers_join ? 0 : 0.01;
        const size_t shards_before = cluster_->shards.size();
        faults_->not_now = random_.below(2) == 0 ? 0.1 : 0;
        faults_->delay_polls_max = 5;
        std::array<std::deque<Call>, kPushers> under_way;
        Status first;
        const auto finish = [&](uint32_t worker) {
            const Status ended = cluster_->finish(worker, under_way[worker].front().id);
            if (first && !ended)
                MESSAGE(ended.error().text() << " worker " << worker << " at " << now_ms());
            if (first) first = ended;
            under_way[worker].pop_front();
        };
        for (int round = 0; round < rounds; ++round) {
            if (servers_join && random_.below(10) == 0 && cluster_->shards.size() < 8)
                cluster_->add_server();
            for (uint32_t worker = 0; worker < kPushers; ++worker) {
                if (round % 4 == 3) begin_part(worker, under_way[worker], round / 4 + 1U);
                for (uint64_t i = random_.below(6); i > 0; --i)
                    begin(worker, under_way[worker].emplace_back());
            }
            for (uint64_t i = random_.below(30); i > 0; --i)
                (void)cluster_->step();
            for (uint32_t worker = 0; worker < kPushers; ++worker) {
                while (under_way[worker].size() > 8)
                    finish(worker);
            }
        }
        for (uint32_t worker = 0; worker < kPushers; ++worker) {
            while (!under_way[worker].empty())
                finish(worker);
        }
        faults_->broken = 0;
        joined_ += cluster_->shards.size() - shards_before;
        return first;
    }

    /// How many keys of a table have not the sum of what was pushed to them.
    [[nodiscard]] size_t wrong_keys(size_t table) {
        std::vector<uint64_t> keys(kSumKeys);
        for (uint64_t key = 0; key < kSumKeys; ++key)
            keys[key] = key;
        std::vector<uint64_t> out(kSumKeys);
        const auto pull = cluster_->workers[1]->pull(tables_[table], keys,
                                                     std::as_writable_bytes(std::span(out)), {});
        REQUIRE(cluster_->finish(1, pull).has_value());
        size_t wrong = 0;
        for (uint64_t key = 0; key < kSumKeys; ++key)
            wrong += out[key] != sums_[table][key] ? 1 : 0;
        return wrong;
    }

    [[nodiscard]] uint64_t now_ms() const { return cluster_->clock.now_ns() / kMillisecond; }

    /// Shards that came while it ran.
    [[nodiscard]] size_t joined() const { return joined_; }

    [[nodiscard]] uint64_t epoch() const { return cluster_->workers[0]->epoch(); }

    [[nodiscard]] uint64_t broken_count() const { return faults_->broken_count; }

    [[nodiscard]] uint64_t calls_of_two() const { return calls_of_two_; }  ///< tables

private:
    struct Call {
        ClientCore::CallId id = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
        std::vector<uint64_t> out;   ///< of a push that wants values
        std::unique_ptr<Call> also;  ///< what the same call pushes to another table
    };

    std::vector<uint64_t> some_keys(uint64_t count) {
        std::set<uint64_t> chosen;
        while (chosen.size() < count)
            chosen.insert(random_.below(kSumKeys));
        return {chosen.begin(), chosen.end()};
    }

    /// `choice`: of a filter; nothing: all keys travel.
    void fill(Call& call, std::vector<uint64_t>& sums, std::optional<KeyChoice> choice = {}) {
        call.values.resize(call.keys.size());
        for (size_t i = 0; i < call.keys.size(); ++i) {
            call.values[i] = random_();
            if (!choice || choice->travels(call.keys[i])) sums[call.keys[i]] += call.values[i];
        }
    }

    void begin(uint32_t worker, Call& call) {
        ClientCore& client = *cluster_->workers[worker];
        const bool is_range = random_.below(3) == 0;
        const size_t table = is_range ? 0 : random_.below(2);
        if (is_range) {
            const uint64_t first = random_.below(kSumKeys);
            const uint64_t most = random_.below(2) == 0 ? 4 : kSumKeys;
            const uint64_t end = first + 1 + random_.below(std::min(most, kSumKeys - first));
            for (uint64_t key = first; key < end; ++key)
                call.keys.push_back(key);
        } else if (random_.below(2) == 0) {
            call.keys = lists_[worker][random_.below(4)];
        } else {
            call.keys = some_keys(1 + random_.below(12));
        }
        if (random_.below(5) == 0) {
            call.values.resize(call.keys.size());
            CallOptions options;
            options.filters = filters_.draw_lossless().filters;
            call.id = client.pull(tables_[table], call.keys,
                                  std::as_writable_bytes(std::span(call.values)), options);
            return;
        }
        const bool is_with_others = random_.below(3) == 0;
        const HistoryFilters::Drawn drawn =
            is_with_others ? HistoryFilters::Drawn() : filters_.draw(true, false);
        fill(call, sums_[table], drawn.choice);
        const auto values = std::as_bytes(std::span(call.values));
        const KeyRange range{call.keys.front(), call.keys.back() + 1};
        if (is_with_others) {
            std::vector<Operation> operations{push_of(table, call)};
            if (is_range) operations[0].by_range = true;
            operations[0].range = range;
            if (random_.below(3) != 0) {
                call.also = std::make_unique<Call>();
                call.also->keys = some_keys(1 + random_.below(12));
                fill(*call.also, sums_[1 - table]);
                operations.push_back(push_of(1 - table, *call.also));
            }
            calls_of_two_ += call.also != nullptr ? 1 : 0;
            call.id = client.start(std::move(operations));
            return;
        }
        CallOptions options;
        options.filters = drawn.filters;
        call.id = is_range ? client.push(tables_[table], range, values, options)
                           : client.push(tables_[table], call.keys, values, options);
    }

    Operation push_of(size_t table, Call& call) {
        Operation push;
        push.table = &tables_[table];
        push.keys = call.keys;
        push.values = std::as_bytes(std::span(call.values));
        push.row_bytes = tables_[table].pushed_row_bytes;
        if (random_.below(2) == 0) return push;
        call.out.resize(call.keys.size());
        push.out = std::as_writable_bytes(std::span(call.out));
        push.out_row_bytes = tables_[table].row_bytes;
        return push;
    }

    void begin_part(uint32_t worker, std::deque<Call>& under_way, uint64_t iteration) {
        Call& call = under_way.emplace_back();
        call.keys = some_keys(1 + random_.below(100));
        const HistoryFilters::Drawn drawn = filters_.draw(true, false);
        fill(call, sums_[2], drawn.choice);
        CallOptions options;
        options.iteration = iteration;
        options.filters = drawn.filters;
        call.id = cluster_->workers[worker]->push(tables_[2], call.keys,
                                                  std::as_bytes(std::span(call.values)), options);
    }

    Random random_;
    HistoryFilters filters_{random_()};
    std::shared_ptr<transport::Faults> faults_ = std::make_shared<transport::Faults>(random_());
    std::unique_ptr<SimCluster> cluster_;
    size_t joined_ = 0;
    uint64_t calls_of_two_ = 0;
    std::vector<TableInfo> tables_;
    std::vector<std::vector<uint64_t>> sums_;
    std::array<std::vector<std::vector<uint64_t>>, kPushers> lists_;
};

}  // namespace

TEST_SUITE("exactly_once") {
    TEST_CASE("every push takes effect exactly once, however often connections break") {
        uint64_t broken = 0;
        uint64_t calls_of_two = 0;
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + testing::histories_or(200); ++seed) {
            INFO("WEIR_SEED=" << seed);
            BreakingCluster cluster(seed);
            const Status ended = cluster.run(24, false);
            INFO((ended ? std::string() : ended.error().text()));
            INFO("at ms " << cluster.now_ms());
            REQUIRE(ended.has_value());
            for (const size_t table : {0, 1, 2}) {
                INFO("table " << table);
                REQUIRE(cluster.wrong_keys(table) == 0);
            }
            broken += cluster.broken_count();
            calls_of_two += cluster.calls_of_two();
        }
        CHECK(broken > 0);
        CHECK(calls_of_two > 0);
    }

    TEST_CASE("while servers join, every push takes effect exactly once, and no call fails") {
        size_t joined = 0;
        uint64_t views = 0;
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + testing::histories_or(50); ++seed) {
            INFO("WEIR_SEED=" << seed);
            BreakingCluster cluster(seed);
            const Status ended = cluster.run(40, true);
            INFO((ended ? std::string() : ended.error().text()));
            INFO("at ms " << cluster.now_ms() << ", epoch " << cluster.epoch());
            REQUIRE(ended.has_value());
            for (const size_t table : {0, 1, 2}) {
                INFO("table " << table);
                REQUIRE(cluster.wrong_keys(table) == 0);
            }
            joined += cluster.joined();
            views += cluster.epoch();
        }
        MESSAGE(joined << " shards joined, " << views << " views");
        CHECK(joined > 0);
    }
}

}  // namespace weir::test
