// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables that a worker drops: nothing of them stays at any server, whatever else happens meanwhile, and
/// nothing of other tables is lost.

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "tests/cluster/checkpoint_folder.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/histories/machinery/history_shape.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint64_t kKeys = 40;

TableSchema counters(const std::string& name, bool is_dense) {
    return is_dense ? dense_table(name.c_str(), kKeys, ValueType::kUInt64)
                    : table_of(Layout::kSparse, name.c_str(), 0, ValueType::kUInt64);
}

bool has_table(const SimCluster& cluster, uint32_t number) {
    return std::ranges::any_of(cluster.shards, [&](const auto& shard) {
        return shard != nullptr && !shard->finished() && number < shard->tables().size() &&
               shard->tables()[number] != nullptr;
    });
}

SimShape two_workers() {
    SimShape shape;
    shape.servers = 2;
    shape.shards = 1;
    shape.workers = 2;
    shape.is_manager_apart = true;
    return shape;
}

/// A table is dropped so long after a checkpoint has begun. Returns whether that has it; the next one has not.
bool drop_beside_checkpoint(uint64_t milliseconds) {
    CheckpointFolder folder;
    SimShape shape = two_workers();
    shape.checkpoints = folder.options();
    shape.disk_ns_max = kSecond;
    SimCluster cluster(1, shape, {});
    REQUIRE(cluster.start());
    const auto table = cluster.make_table(0, counters("t", false));
    const auto other = cluster.make_table(0, counters("other", false));
    REQUIRE(table);
    REQUIRE(other);
    ClientCore& worker = *cluster.workers[0];
    const std::vector<uint64_t> keys{1, 20, 39};
    const std::vector<uint64_t> ones(3, 1);
    for (const auto* one : {&*table, &*other})
        REQUIRE(cluster.finish(0, worker.push(*one, keys, std::as_bytes(std::span(ones)), {})));
    const auto first = worker.checkpoint(60 * kSecond);
    cluster.run_idle(milliseconds);
    REQUIRE(cluster.finish(1, cluster.workers[1]->drop_table("t")));
    CHECK(cluster.finish(1, cluster.workers[1]->open_table("t")).code() == Errc::kNotFound);
    REQUIRE(cluster.run_until([&] { return worker.done(first); }));
    const auto number = worker.take_checkpoint(first);
    REQUIRE_MESSAGE(number, number.error().text());
    const bool has_it = folder.latest().tables.size() == 2;
    CHECK(folder.latest().chunks_of(table->schema.id).empty() == !has_it);
    CHECK_FALSE(folder.latest().chunks_of(other->schema.id).empty());
    folder.check_all_whole();
    REQUIRE(cluster.run_until([&] { return !has_table(cluster, table->schema.id); }));

    const auto second = worker.checkpoint(60 * kSecond);
    REQUIRE(cluster.run_until([&] { return worker.done(second); }));
    REQUIRE(worker.take_checkpoint(second));
    REQUIRE(folder.latest().tables.size() == 1);
    CHECK(folder.latest().tables[0].name == "other");
    return has_it;
}

struct DropCounts {
    uint64_t drops = 0;
    uint64_t beside_checkpoints = 0;
    uint64_t ended_calls = 0;  ///< that met a table that was dropped
    uint64_t servers_killed = 0;
    uint64_t servers_joined = 0;
    uint64_t managers_killed = 0;
    uint64_t checkpoints = 0;
};

/// Two workers make, use and drop tables of three names, while servers come, leave and die.
class DropHistory {
public:
    explicit DropHistory(uint64_t seed)
        : random_(seed), cluster_(seed, shape_of(random_, folder_), {}) {
        REQUIRE(cluster_.start());
    }

    void run() {
        const uint64_t steps = 60 + random_.below(120);
        for (uint64_t i = 0; i < steps; ++i) {
            begin_something();
            const uint64_t polls = random_.below(60);
            for (uint64_t poll = 0; poll < polls; ++poll)
                (void)cluster_.step();
            take_ended();
        }
        settle();
        check_tables();
        drop_all();
    }

    [[nodiscard]] const DropCounts& counts() const { return counts_; }

private:
    static constexpr size_t kNames = 3;

    /// What a name stands for, until it is dropped.
    struct Made {
        TableInfo info;
        std::map<uint64_t, uint64_t> sums;  ///< by key: of pushes that were acknowledged
    };

    struct Open {
        enum class Kind : uint8_t { kCreate, kPush, kPull, kIteration, kDrop, kCheckpoint };
        Kind kind = Kind::kPush;
        uint32_t worker = 0;
        ClientCore::CallId call = 0;
        size_t name = 0;
        uint32_t table = 0;
        std::vector<uint64_t> keys = {};
        std::shared_ptr<std::vector<uint64_t>> values = {};
    };

    static SimShape shape_of(Random& random, const CheckpointFolder& folder) {
        SimShape shape = two_workers();
        shape.servers = static_cast<uint32_t>(2 + random.below(3));
        shape.shards = static_cast<uint32_t>(1 + random.below(2));
        shape.replicas = static_cast<uint32_t>(random.below(2));
        shape.managers = random.below(3) == 0 ? 3 : 1;
        shape.checkpoints = folder.options();
        shape.disk_ns_max = random.below(20) * kMillisecond;
        shape.lease_ns = 100 * kMillisecond;
        return shape;
    }

    static std::string name_of(size_t name) { return fmt::format("t{}", name); }

    void begin_something() {
        const auto worker = static_cast<uint32_t>(random_.below(2));
        const size_t name = random_.below(kNames);
        switch (random_.below(16)) {
            case 0: return drop(worker, name);
            case 1: return add_server();
            case 2: return lose_server();
            case 3: return lose_manager();
            case 4:
                open_.push_back({Open::Kind::kCheckpoint, worker,
                                 cluster_.workers[worker]->checkpoint(60 * kSecond)});
                return;
            default: return use(worker, name);
        }
    }

    void use(uint32_t worker, size_t name) {
        const auto made = made_.find(name);
        if (made == made_.end()) return create(worker, name);
        ClientCore& client = *cluster_.workers[worker];
        Open open{.worker = worker, .name = name, .table = made->second.info.schema.id};
        for (uint64_t key = random_.below(4); key < kKeys; key += 1 + random_.below(20))
            open.keys.push_back(key);
        open.values = std::make_shared<std::vector<uint64_t>>(open.keys.size(), 1);
        const TableInfo& info = made->second.info;
        if (random_.below(4) == 0) {
            open.kind = Open::Kind::kPull;
            open.call =
                client.pull(info, open.keys, std::as_writable_bytes(std::span(*open.values)), {});
        } else {
            open.call = client.push(info, open.keys, std::as_bytes(std::span(*open.values)), {});
        }
        open_.push_back(std::move(open));
    }

    void create(uint32_t worker, size_t name) {
        const bool is_on_its_way = std::ranges::any_of(open_, [&](const Open& open) {
            const bool is_of_name =
                open.kind == Open::Kind::kCreate || open.kind == Open::Kind::kDrop;
            return is_of_name && open.name == name;
        });
        if (is_on_its_way) return;  // it might find the one that is being dropped
        const bool is_dense = random_.below(2) == 0;
        open_.push_back({Open::Kind::kCreate, worker,
                         cluster_.workers[worker]->create_table(counters(name_of(name), is_dense)),
                         name});
    }

    /// Its parts of an iteration, and pulls of it, wait for the other worker when the table goes.
    void drop(uint32_t worker, size_t name) {
        const auto made = made_.find(name);
        if (made == made_.end()) return;
        const TableInfo& info = made->second.info;
        if (random_.below(2) == 0) {
            Open part{.kind = Open::Kind::kIteration,
                      .worker = 1 - worker,
                      .name = name,
                      .table = info.schema.id,
                      .keys = {1, 2, 3}};
            part.values = std::make_shared<std::vector<uint64_t>>(part.keys.size(), 1);
            part.call = cluster_.workers[part.worker]->push(
                info, part.keys, std::as_bytes(std::span(*part.values)), {.iteration = 1});
            open_.push_back(std::move(part));
        }
        dropped_.insert({info.schema.id, false});
        open_.push_back({.kind = Open::Kind::kDrop,
                         .worker = worker,
                         .call = cluster_.workers[worker]->drop_table(name_of(name)),
                         .name = name,
                         .table = info.schema.id});
        made_.erase(made);
        ++counts_.drops;
        counts_.beside_checkpoints += std::ranges::any_of(
            open_, [](const Open& open) { return open.kind == Open::Kind::kCheckpoint; });
    }

    void add_server() {
        if (servers_added_ == 3) return;
        ++servers_added_;
        ++counts_.servers_joined;
        (void)cluster_.add_server({.shards = 1});
    }

    /// One at a time: with a copy it is killed, else it is told to leave.
    void lose_server() {
        const View& view = cluster_.managers_view();
        if (view.servers().size() < 3 || !is_whole()) return;
        const uint32_t server = some_server(random_, view);
        if (cluster_.shape().replicas == 0 || random_.below(4) == 0) {
            (void)cluster_.leave_server(server);
            return;
        }
        kill(std::ranges::find(view.shards(), server, &ViewShard::server)->address);
        ++counts_.servers_killed;
    }

    /// The process with the shard of that address.
    void kill(const std::string& address) {
        std::optional<uint32_t> host;
        for (size_t i = 0; i < cluster_.shards.size(); ++i) {
            if (cluster_.shards[i] != nullptr && cluster_.shards[i]->address() == address)
                host = cluster_.host_of_shard(i);
        }
        REQUIRE(host);
        cluster_.kill_host(*host);
        for (size_t i = 0; i < cluster_.shards.size(); ++i) {
            if (cluster_.host_of_shard(i) == *host) cluster_.shards[i].reset();
        }
    }

    void lose_manager() {
        if (cluster_.shape().managers == 1 || has_lost_manager_ || random_.below(4) != 0) return;
        const uint32_t leader = cluster_.leading_manager();
        if (leader == ~uint32_t{0}) return;
        cluster_.kill_manager(leader);
        has_lost_manager_ = true;
        ++counts_.managers_killed;
    }

    /// Every segment has its copies, all servers live, and nobody is coming or going.
    [[nodiscard]] bool is_whole() const {
        const View& view = cluster_.managers_view();
        return std::ranges::all_of(
                   view.shards(),
                   [&](const ViewShard& shard) { return cluster_.find_shard(shard) != nullptr; }) &&
               std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
                   return segment.backup_count() == cluster_.shape().replicas &&
                          !segment.has_learner();
               });
    }

    void take_ended() {
        std::erase_if(open_, [&](const Open& open) {
            if (!cluster_.workers[open.worker]->done(open.call)) return false;
            take(open);
            return true;
        });
    }

    void take(const Open& open) {
        ClientCore& client = *cluster_.workers[open.worker];
        if (open.kind == Open::Kind::kCreate) {
            Result<TableInfo> made = client.take_table(open.call);
            REQUIRE_MESSAGE(made, made.error().text());
            made_[open.name] = {*std::move(made), {}};
            return;
        }
        if (open.kind == Open::Kind::kCheckpoint) {
            counts_.checkpoints += client.take_checkpoint(open.call) ? 1 : 0;  // else servers went
            return;
        }
        const Status ended = client.take(open.call);
        INFO((ended ? std::string() : ended.error().text()));
        if (open.kind == Open::Kind::kDrop) {
            REQUIRE(ended);
            dropped_[open.table] = true;
            return;
        }
        const auto made = made_.find(open.name);
        const bool is_there = made != made_.end() && made->second.info.schema.id == open.table;
        if (!ended) {
            REQUIRE(ended.code() == Errc::kNotFound);
            REQUIRE_FALSE(is_there);
            ++counts_.ended_calls;
            return;
        }
        REQUIRE(open.kind != Open::Kind::kIteration);  // the other worker has no part in it
        if (open.kind != Open::Kind::kPush || !is_there) return;
        for (const uint64_t key : open.keys)
            ++made->second.sums[key];
    }

    /// All calls end, and no server has anything of a table that was dropped.
    void settle() {
        REQUIRE(cluster_.run_until([&] {
            take_ended();
            return open_.empty();
        }));
        REQUIRE(cluster_.run_until([&] { return is_whole(); }));
        REQUIRE(cluster_.run_until([&] {
            return std::ranges::none_of(
                dropped_, [&](const auto& one) { return has_table(cluster_, one.first); });
        }));
    }

    void check_tables() {
        for (auto& [name, made] : made_) {
            std::vector<uint64_t> keys;
            for (uint64_t key = 0; key < kKeys; ++key)
                keys.push_back(key);
            std::vector<uint64_t> values(kKeys);
            REQUIRE(cluster_.finish(
                0, cluster_.workers[0]->pull(made.info, keys,
                                             std::as_writable_bytes(std::span(values)), {})));
            for (const uint64_t key : keys)
                REQUIRE(values[key] == made.sums[key]);
        }
    }

    void drop_all() {
        for (size_t name = 0; name < kNames; ++name)
            drop(0, name);
        settle();
        for (const auto& [table, is_gone] : dropped_)
            CHECK(is_gone);
    }

    Random random_;
    CheckpointFolder folder_;
    SimCluster cluster_;
    std::map<size_t, Made> made_;       // by name
    std::map<uint32_t, bool> dropped_;  // by number: whether the call has ended
    std::deque<Open> open_;
    uint64_t servers_added_ = 0;
    bool has_lost_manager_ = false;
    DropCounts counts_;
};

}  // namespace

TEST_SUITE("dropped tables") {
    TEST_CASE("a table that is dropped leaves no memory, and its name is free") {
        for (const uint32_t replicas : {0, 1}) {
            CAPTURE(replicas);
            SimShape shape = two_workers();
            shape.replicas = replicas;
            SimCluster cluster(1, shape, {});
            REQUIRE(cluster.start());
            const auto used = [&] {
                return cluster.memory_of_server(0).bytes_in_use() +
                       cluster.memory_of_server(1).bytes_in_use();
            };
            std::optional<size_t> after_first;
            for (int round = 0; round < 5; ++round) {
                const auto table = cluster.make_table(0, counters("t", round % 2 == 0));
                REQUIRE(table);
                const std::vector<uint64_t> keys{1, 20, 39}, ones(3, 1);
                std::vector<uint64_t> values(3, 7);
                const auto pull = [&](uint32_t worker) {
                    return cluster.finish(
                        worker, cluster.workers[worker]->pull(
                                    *table, keys, std::as_writable_bytes(std::span(values)), {}));
                };
                REQUIRE(pull(1));
                CHECK(values == std::vector<uint64_t>(3, 0));
                REQUIRE(cluster.finish(
                    0, cluster.workers[0]->push(*table, keys, std::as_bytes(std::span(ones)), {})));
                REQUIRE(cluster.finish(1, cluster.workers[1]->drop_table("t")));
                const Status late = pull(0);
                CHECK(late.code() == Errc::kNotFound);
                CHECK(late.error().text().find("a worker has dropped it") != std::string::npos);
                cluster.run_idle(20);
                CHECK_FALSE(has_table(cluster, table->schema.id));
                if (!after_first) after_first = used();
                CHECK(used() == *after_first);
            }
            const Status unknown = cluster.finish(0, cluster.workers[0]->drop_table("t"));
            CHECK(unknown.code() == Errc::kNotFound);
            CHECK(unknown.error().text().find("there is no table 't'") != std::string::npos);
        }
    }

    TEST_CASE("what waits for other workers in a table ends when that is dropped") {
        SimShape shape = two_workers();
        shape.replicas = 1;
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        TableSchema schema = counters("t", true);
        schema.max_delay = 1;
        const auto table = cluster.make_table(0, schema);
        REQUIRE(table);
        const std::vector<uint64_t> keys{1, 20, 39}, ones(3, 1);
        std::vector<uint64_t> values(3);
        ClientCore& worker = *cluster.workers[0];
        const auto part =
            worker.push(*table, keys, std::as_bytes(std::span(ones)), {.iteration = 1});
        const auto pull =
            worker.pull(*table, keys, std::as_writable_bytes(std::span(values)), {.iteration = 1});
        cluster.run_idle(20);
        CHECK_FALSE(worker.done(part));
        CHECK_FALSE(worker.done(pull));
        REQUIRE(cluster.finish(1, cluster.workers[1]->drop_table("t")));
        CHECK(cluster.finish(0, part).code() == Errc::kNotFound);
        CHECK(cluster.finish(0, pull).code() == Errc::kNotFound);
    }

    TEST_CASE("a checkpoint loses nothing if a table is dropped while it is being written") {
        uint64_t with_it = 0;
        constexpr uint64_t kDelays = 12;
        for (uint64_t delay = 0; delay < kDelays; ++delay) {
            CAPTURE(delay);
            with_it += drop_beside_checkpoint(5 + delay * 200) ? 1 : 0;
        }
        CHECK(with_it > 0);
        CHECK(with_it < kDelays);
    }

    TEST_CASE("a checkpoint does not wait for an iteration of a table that is dropped") {
        CheckpointFolder folder;
        SimShape shape = two_workers();
        shape.checkpoints = folder.options();
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        TableSchema schema = counters("t", true);
        schema.max_delay = 1;
        const auto table = cluster.make_table(0, schema);
        REQUIRE(table);
        std::vector<uint64_t> keys(kKeys);
        std::iota(keys.begin(), keys.end(), 0);
        const std::vector<uint64_t> ones(kKeys, 1);
        // One server has closed the iteration, the other one lacks a part.
        cluster.network.partition(cluster.host_of_worker(1), 1);
        std::vector<ClientCore::CallId> parts;
        for (uint32_t worker = 0; worker < 2; ++worker)
            parts.push_back(cluster.workers[worker]->push(
                *table, keys, std::as_bytes(std::span(ones)), {.iteration = 1}));
        const auto closed = [&](size_t shard) {
            const auto& tables = cluster.shards[shard]->tables();
            return tables[table->schema.id]->iterations.state().last_closed();
        };
        REQUIRE(cluster.run_until([&] { return closed(0) == 1; }));
        CHECK(closed(1) == 0);
        const auto checkpoint = cluster.workers[0]->checkpoint(60 * kSecond);
        cluster.run_idle(50);
        CHECK_FALSE(cluster.workers[0]->done(checkpoint));
        const uint64_t before_ns = cluster.clock.now_ns();
        REQUIRE(cluster.finish(0, cluster.workers[0]->drop_table("t")));
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->done(checkpoint); }));
        const auto number = cluster.workers[0]->take_checkpoint(checkpoint);
        REQUIRE_MESSAGE(number, number.error().text());
        const Status part = cluster.finish(0, parts[0]);
        CHECK(part.code() == Errc::kNotFound);
        CHECK(part.error().text().find("a worker has dropped the table") != std::string::npos);
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        cluster.network.heal(cluster.host_of_worker(1), 1);
        CHECK(cluster.finish(1, parts[1]).code() == Errc::kNotFound);
        CHECK_FALSE(has_table(cluster, table->schema.id));
    }

    TEST_CASE(
        "nothing of a dropped table stays, and nothing else is lost, whoever comes and goes") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t histories = testing::histories_or(60);
        DropCounts sum;
        for (uint64_t seed = first; seed < first + histories; ++seed) {
            INFO("WEIR_SEED=" << seed);
            DropHistory history(seed);
            history.run();
            const DropCounts& counts = history.counts();
            sum.drops += counts.drops;
            sum.beside_checkpoints += counts.beside_checkpoints;
            sum.ended_calls += counts.ended_calls;
            sum.servers_killed += counts.servers_killed;
            sum.servers_joined += counts.servers_joined;
            sum.managers_killed += counts.managers_killed;
            sum.checkpoints += counts.checkpoints;
        }
        MESSAGE(
            fmt::format("{} tables were dropped, {} beside a checkpoint; {} calls met one; {} "
                        "servers died, {} joined, {} managers died, {} checkpoints were written",
                        sum.drops, sum.beside_checkpoints, sum.ended_calls, sum.servers_killed,
                        sum.servers_joined, sum.managers_killed, sum.checkpoints));
        // Histories that no longer reach what they are there for fail.
        CHECK(sum.drops >= testing::fewest_of(histories, 6));
        CHECK(sum.beside_checkpoints >= testing::fewest_of(histories, 3));
        CHECK(sum.ended_calls >= testing::fewest_of(histories, 4));
        CHECK(sum.servers_killed >= testing::fewest_of(histories, 0.3));
        CHECK(sum.servers_joined >= testing::fewest_of(histories, 2.5));
        CHECK(sum.managers_killed >= testing::fewest_of(histories, 0.15));
        CHECK(sum.checkpoints >= testing::fewest_of(histories, 5));
    }
}

}  // namespace weir::test
