// SPDX-License-Identifier: Apache-2.0
/// \file
/// Checkpoints of jobs on a simulated network, and jobs that go on from them with other numbers of
/// servers, shards and workers.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/folder.h"
#include "lib/store/rules.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/seed.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

using testing::SimDisk;

constexpr uint64_t kRoundKeys = 150;
constexpr uint64_t kLogKeys = 100'000;  ///< for the pushes of one worker
constexpr uint32_t kWorkersMax = 3;

/// What a worker pushes to a key in an iteration.
uint64_t part(uint64_t worker, uint64_t iteration, uint64_t key) {
    return mix64(worker * 1'000'003 + iteration * 7919 + key) >> 20;
}

TableSchema rounds_table(Layout layout, uint32_t max_delay) {
    TableSchema schema = table_of(layout, "rounds", kRoundKeys, ValueType::kUInt64);
    schema.max_delay = max_delay;
    return schema;
}

/// Tables to which a worker pushes one number after the other: to the second one so seldom that most of
/// its chunks do not change from one checkpoint to the next.
constexpr std::array<const char*, 2> kLogs = {"log", "quiet log"};
constexpr std::array<uint64_t, 2> kLogPeriods = {2, 100};  ///< in turns of the worker

using LogCounts = std::array<std::vector<uint64_t>, kLogs.size()>;  ///< by worker

TableSchema log_table(size_t log) {
    return table_of(Layout::kSparse, kLogs[log], 0, ValueType::kUInt64);
}

struct Folder {
    std::shared_ptr<SimDisk> disk = std::make_shared<SimDisk>();

    [[nodiscard]] CheckpointOptions options() const {
        CheckpointOptions options;
        options.folder = "d";
        options.disk = std::make_shared<checkpoint::DiskQueue>(disk);
        return options;
    }

    [[nodiscard]] checkpoint::Manifest latest() const {
        const auto number = checkpoint::latest(*disk, "d");
        REQUIRE(number);
        auto manifest = checkpoint::read_manifest(*disk, "d", *number);
        REQUIRE(manifest);
        return *std::move(manifest);
    }

    [[nodiscard]] checkpoint::Chunk chunk(const checkpoint::ChunkEntry& entry,
                                          std::vector<std::byte>& bytes) const {
        auto read = disk->read("d/" + entry.name, entry.size_bytes);
        REQUIRE_MESSAGE(read, read.error().text());
        bytes = *std::move(read);
        auto chunk = checkpoint::decode_chunk(entry.name, bytes);
        REQUIRE_MESSAGE(chunk, chunk.error().text());
        CHECK(chunk->checksum == entry.checksum);
        return *std::move(chunk);
    }

    /// A job that goes on from the newest checkpoint, and writes others.
    void resume(SimShape& shape) const {
        shape.checkpoints = options();
        shape.resume = latest();
        shape.checkpoints.resumed_folder = "d";
        shape.checkpoints.resumed_from = shape.resume->number;
    }
};

Status checkpoint_now(SimCluster& cluster, uint32_t worker = 0) {
    const auto call = cluster.workers[worker]->checkpoint(0);
    REQUIRE(cluster.run_until([&] { return cluster.workers[worker]->done(call); }));
    const auto number = cluster.workers[worker]->take_checkpoint(call);
    return number ? Status() : Status(number.error());
}

std::vector<uint64_t> all_keys(uint64_t count) {
    std::vector<uint64_t> keys(count);
    for (uint64_t i = 0; i < count; ++i)
        keys[i] = i;
    return keys;
}

std::vector<uint64_t> pull(SimCluster& cluster, const TableInfo& table,
                           const std::vector<uint64_t>& keys) {
    std::vector<uint64_t> values(keys.size());
    const auto call =
        cluster.workers[0]->pull(table, keys, std::as_writable_bytes(std::span(values)), {});
    REQUIRE(cluster.finish(0, call));
    return values;
}

/// Workers push iterations to one table, and one number after the other to their part of another.
class PushingJob {
public:
    PushingJob(Random& random, SimShape shape, transport::sim::Options network, Layout layout,
               uint32_t max_delay)
        : random_(random), cluster_(random(), shape, network) {
        REQUIRE(cluster_.start());
        for (uint32_t i = 0; i < shape.workers; ++i) {
            auto rounds = cluster_.make_table(i, rounds_table(layout, max_delay));
            REQUIRE_MESSAGE(rounds, rounds.error().text());
            Worker& worker = workers_.emplace_back();
            worker.rounds = *std::move(rounds);
            for (size_t log = 0; log < kLogs.size(); ++log) {
                auto table = cluster_.make_table(i, log_table(log));
                REQUIRE_MESSAGE(table, table.error().text());
                worker.logs[log].table = *std::move(table);
            }
            worker.period = 1 + random.below(12);
            worker.next = *cluster_.workers[i]->next_iteration(worker.rounds.schema.id);
            worker.acknowledged = worker.next - 1;
            worker.window = worker.rounds.schema.window();
        }
    }

    void step() {
        for (uint32_t i = 0; i < workers_.size(); ++i) {
            settle(i);
            if (random_.below(workers_[i].period) == 0) push(i);
        }
        (void)cluster_.step();
    }

    struct Worker {
        struct Open {
            ClientCore::CallId call = 0;
            std::vector<uint64_t> keys;
            std::vector<uint64_t> values;
        };

        struct Log {
            TableInfo table;
            uint64_t logged = 0;   ///< pushes that were acknowledged
            uint64_t started = 0;  ///< and those that were started
            std::optional<Open> push;
        };

        TableInfo rounds;
        std::array<Log, kLogs.size()> logs;
        uint64_t period = 1;
        uint64_t next = 1;          ///< iteration
        uint64_t acknowledged = 0;  ///< iterations
        uint64_t window = 1;
        std::deque<Open> open;  ///< iterations
    };

    [[nodiscard]] SimCluster& cluster() { return cluster_; }

    [[nodiscard]] std::vector<Worker>& workers() { return workers_; }

private:
    void settle(uint32_t i) {
        Worker& worker = workers_[i];
        ClientCore& client = *cluster_.workers[i];
        while (!worker.open.empty() && client.done(worker.open.front().call)) {
            const Status pushed = client.take(worker.open.front().call);
            REQUIRE_MESSAGE(pushed, pushed.error().text());
            worker.open.pop_front();
            ++worker.acknowledged;
        }
        for (Worker::Log& log : worker.logs) {
            if (!log.push || !client.done(log.push->call)) continue;
            REQUIRE(client.take(log.push->call));
            log.push.reset();
            ++log.logged;
        }
    }

    void push(uint32_t i) {
        Worker& worker = workers_[i];
        for (size_t n = 0; n < kLogs.size(); ++n) {
            Worker::Log& log = worker.logs[n];
            if (log.push || random_.below(kLogPeriods[n]) != 0) continue;
            log.push = Worker::Open();  // not emplace(): clang 14 does not take it
            log.push->keys = {i * kLogKeys + log.started++};
            log.push->values = {1};
            log.push->call = cluster_.workers[i]->push(
                log.table, log.push->keys, std::as_bytes(std::span(log.push->values)), {});
        }
        push_iteration(i);
    }

    void push_iteration(uint32_t i) {
        Worker& worker = workers_[i];
        if (worker.open.size() >= worker.window) return;
        Worker::Open& open = worker.open.emplace_back();
        open.keys = all_keys(kRoundKeys);
        for (const uint64_t key : open.keys)
            open.values.push_back(part(i, worker.next, key));
        open.call = cluster_.workers[i]->push(worker.rounds, open.keys,
                                              std::as_bytes(std::span(open.values)), {worker.next});
        ++worker.next;
    }

    Random& random_;
    SimCluster cluster_;
    std::vector<Worker> workers_;
};

SimShape random_shape(Random& random) {
    SimShape shape;
    shape.servers = static_cast<uint32_t>(1 + random.below(3));
    shape.shards = static_cast<uint32_t>(1 + random.below(3));
    shape.workers = static_cast<uint32_t>(1 + random.below(kWorkersMax));
    shape.points = static_cast<uint32_t>(1 + random.below(5));
    shape.message_bytes_max = random.below(2) == 0 ? 8192 : 1024;
    return shape;
}

transport::sim::Options random_network(Random& random) {
    transport::sim::Options options;
    options.maps_memory = random.below(2) == 0;
    options.delay_ns_max = kMicrosecond * (2 + random.below(100));
    return options;
}

enum class Trouble {
    kNone,
    kServers,  ///< one dies, joins or leaves while a checkpoint is written; each segment has a copy
};

/// One history by its seed: jobs that push, write checkpoints and end at any instant, one after the
/// other, each from the last checkpoint of the one before.
class CheckpointHistory {
public:
    explicit CheckpointHistory(uint64_t seed, Trouble trouble = Trouble::kNone)
        : random_(seed),
          trouble_(trouble),
          layout_(random_.below(2) == 0 ? Layout::kDense : Layout::kSparse),
          max_delay_(static_cast<uint32_t>(random_.below(4))) {}

    /// Chunks of earlier checkpoints that checkpoints have named.
    [[nodiscard]] uint64_t named_again() const { return named_again_; }

    void run() {
        for (int job = 0; job < 3; ++job) {
            SimShape shape = random_shape(random_);
            if (trouble_ == Trouble::kServers) {
                shape.servers = 3;
                shape.replicas = 1;
                shape.is_manager_apart = true;
                hosts_ = {0, 1, 2};
            }
            if (job == 0) {
                shape.checkpoints = folder_.options();
            } else {
                folder_.resume(shape);
            }
            PushingJob pushing(random_, shape, random_network(random_), layout_, max_delay_);
            if (job > 0) check(pushing);
            run_job(pushing);
        }
    }

private:
    /// What a checkpoint has at least, and at most.
    struct Bounds {
        LogCounts logged;     ///< acknowledged before it was asked for
        LogCounts started;    ///< when it had ended
        uint64_t closed = 0;  ///< the last iteration that all workers had acknowledged
        uint64_t begun = 0;
    };

    void run_job(PushingJob& job) {
        for (uint64_t n = 1 + random_.below(3); n > 0; --n) {
            for (uint64_t steps = random_.below(600); steps > 0; --steps)
                job.step();
            for (int tries = 0; !write_checkpoint(job); ++tries)
                REQUIRE(tries < 20);
        }
        if (random_.below(2) == 0) {  // it ends while another one is written
            (void)job.cluster().workers[0]->checkpoint(0);
            const uint64_t before = folder_.latest().number;
            for (uint64_t steps = random_.below(400); steps > 0; --steps)
                job.step();
            if (random_.below(2) == 0) folder_.disk->crash(random_());
            if (folder_.latest().number != before) {
                note_started(job, bounds_);
                note(job, folder_.latest());
            }
        }
    }

    /// False: there is none, because of the servers.
    bool write_checkpoint(PushingJob& job) {
        Bounds bounds;
        bounds.closed = ~uint64_t{0};
        bounds.logged = bounds.started = log_counts_;
        for (size_t i = 0; i < job.workers().size(); ++i) {
            const auto& worker = job.workers()[i];
            for (size_t log = 0; log < kLogs.size(); ++log)
                bounds.logged[log][i] = worker.logs[log].logged;
            bounds.closed = std::min(bounds.closed, worker.acknowledged);
        }
        const uint32_t asker = static_cast<uint32_t>(random_.below(job.workers().size()));
        ClientCore& client = *job.cluster().workers[asker];
        const auto call = client.checkpoint(0);
        const uint64_t before = newest();
        uint64_t turns = random_.below(200);
        for (size_t steps = 0; !client.done(call); ++steps) {
            job.step();
            if (trouble_ == Trouble::kServers && turns-- == 0) change_servers(job.cluster());
            REQUIRE(steps < 1'000'000);
        }
        const auto number = client.take_checkpoint(call);
        if (!number && trouble_ == Trouble::kServers) {
            INFO(number.error().text());
            REQUIRE(newest() == before);
            const bool is_of_servers = number.code() == Errc::kBusy ||
                                       number.code() == Errc::kCancelled ||
                                       number.code() == Errc::kPeerLost;
            REQUIRE(is_of_servers);
            return false;
        }
        REQUIRE_MESSAGE(number, number.error().text());
        note_started(job, bounds);
        bounds_ = bounds;
        CHECK(folder_.latest().number == *number);
        note(job, folder_.latest());
        return true;
    }

    static void note_started(PushingJob& job, Bounds& bounds) {
        for (size_t i = 0; i < job.workers().size(); ++i) {
            const auto& worker = job.workers()[i];
            for (size_t log = 0; log < kLogs.size(); ++log)
                bounds.started[log][i] = worker.logs[log].started;
            bounds.begun = std::max(bounds.begun, worker.next - 1);
        }
    }

    /// Of the checkpoints; 0: none.
    [[nodiscard]] uint64_t newest() const {
        const auto number = checkpoint::latest(*folder_.disk, "d");
        return number ? *number : 0;
    }

    /// If every segment has a copy: what is lost then is not lost for good.
    void change_servers(SimCluster& cluster) {
        const View view = cluster.manager->view();
        const bool is_at_rest = std::ranges::all_of(view.segments(), [](const ViewSegment& s) {
            return s.backup_count() == 1 && !s.has_learner();
        });
        if (!is_at_rest) return;
        if (hosts_.size() < 3 || random_.below(3) == 0) {
            hosts_.push_back(cluster.add_server({.shards = 1}));
            return;
        }
        const size_t which = random_.below(hosts_.size());
        const uint32_t host = hosts_[which];
        if (random_.below(2) == 0) {
            if (host > 2 || !cluster.manager->leave_server(host)) return;
        } else {
            cluster.network.kill(host);
            for (size_t i = 0; i < cluster.shards.size(); ++i) {
                if (cluster.host_of_shard(i) == host) cluster.shards[i].reset();
            }
        }
        hosts_.erase(hosts_.begin() + static_cast<ptrdiff_t>(which));
    }

    /// What the iterations of the table have added up to in this checkpoint.
    void note(PushingJob& job, const checkpoint::Manifest& manifest) {
        const uint32_t table = job.workers()[0].rounds.schema.id;
        const uint64_t closed = manifest.closed_of(table);
        CHECK(closed >= bounds_.closed);
        CHECK(closed <= bounds_.begun);
        std::vector<uint64_t> values = sums_at_start_;
        values.resize(kRoundKeys);
        for (uint64_t iteration = closed_at_start_ + 1; iteration <= closed; ++iteration) {
            for (uint64_t worker = 0; worker < job.workers().size(); ++worker) {
                for (uint64_t key = 0; key < kRoundKeys; ++key)
                    values[key] += part(worker, iteration, key);
            }
        }
        sums_ = std::move(values);
        closed_ = closed;
        for (const checkpoint::ChunkEntry& entry : manifest.chunks)
            named_again_ += checkpoint::writer_of(entry.name) != manifest.number ? 1 : 0;
        check_iterations(manifest, table, closed);
        for (size_t log = 0; log < kLogs.size(); ++log)
            check_times(job, manifest, log);
    }

    /// Chunks of the table say the same as the manifest.
    void check_iterations(const checkpoint::Manifest& manifest, uint32_t table,
                          uint64_t closed) const {
        for (const checkpoint::ChunkEntry& entry : manifest.chunks_of(table)) {
            std::vector<std::byte> bytes;
            const checkpoint::Chunk chunk = folder_.chunk(entry, bytes);
            CHECK(chunk.closed.empty() == (closed == 0));
            for (const checkpoint::ClosedUpTo& one : chunk.closed)
                CHECK(one.iteration == closed);
        }
    }

    /// The times of a worker in a chunk are those of its last pushes whose rows are there. The n-th
    /// push of a worker to a log in this job has time n.
    void check_times(PushingJob& job, const checkpoint::Manifest& manifest, size_t log) const {
        const uint32_t table = job.workers()[0].logs[log].table.schema.id;
        for (const checkpoint::ChunkEntry& entry : manifest.chunks_of(table)) {
            std::vector<std::byte> bytes;
            const checkpoint::Chunk chunk = folder_.chunk(entry, bytes);
            std::map<std::pair<uint32_t, uint64_t>, uint64_t> positions;  // by worker and time
            for (const checkpoint::ChunkRows& rows : chunk.rows) {
                for (size_t at = 0; at < rows.keys.size(); at += sizeof(uint64_t)) {
                    uint64_t key = 0;
                    std::memcpy(&key, rows.keys.data() + at, sizeof(key));
                    const auto worker = static_cast<uint32_t>(key / kLogKeys);
                    const uint64_t before = log_counts_[log][worker];
                    if (key % kLogKeys >= before)
                        positions[{worker, key % kLogKeys - before + 1}] =
                            PositionMap::sparse().position(key);
                }
            }
            size_t found = 0;
            for (const ClockTimes& times : chunk.clocks) {
                for (const WorkerTimes& worker : times.workers)
                    found += check_times(times.range, worker, positions);
            }
            CHECK(found == positions.size());
        }
    }

    /// How many of the pushes have their key in the worker's steps.
    static size_t check_times(PositionRange range, const WorkerTimes& worker,
                              const std::map<std::pair<uint32_t, uint64_t>, uint64_t>& positions) {
        size_t found = 0;
        for (size_t i = 0; i < worker.steps.size(); ++i) {
            const bool is_last = i + 1 == worker.steps.size();
            const PositionRange step{worker.steps[i].from,
                                     is_last ? range.last : worker.steps[i + 1].from - 1};
            uint64_t latest = 0;
            for (const auto& [push, position] : positions) {
                if (push.first != worker.worker || !step.contains(position)) continue;
                latest = std::max(latest, push.second);
                ++found;
            }
            CHECK(latest == worker.steps[i].time);
        }
        return found;
    }

    /// A job that has gone on from the checkpoint has just that.
    void check(PushingJob& job) {
        for (const auto& worker : job.workers())
            CHECK(worker.next == closed_ + 1);
        CHECK(pull(job.cluster(), job.workers()[0].rounds, all_keys(kRoundKeys)) == sums_);
        for (size_t log = 0; log < kLogs.size(); ++log) {
            for (uint32_t worker = 0; worker < kWorkersMax; ++worker)
                check_log(job, log, worker);
        }
        closed_at_start_ = closed_;
        sums_at_start_ = sums_;
    }

    void check_log(PushingJob& job, size_t log, uint32_t worker) {
        std::vector<uint64_t> keys;
        for (uint64_t i = 0; i < bounds_.started[log][worker] + 2; ++i)
            keys.push_back(worker * kLogKeys + i);
        const std::vector<uint64_t> values =
            pull(job.cluster(), job.workers()[0].logs[log].table, keys);
        const auto end = std::ranges::find(values, 0U);
        CHECK(std::all_of(values.begin(), end, [](uint64_t value) { return value == 1; }));
        CHECK(std::all_of(end, values.end(), [](uint64_t value) { return value == 0; }));
        const auto count = static_cast<uint64_t>(end - values.begin());
        CHECK(count >= bounds_.logged[log][worker]);
        CHECK(count <= bounds_.started[log][worker]);
        log_counts_[log][worker] = count;
        if (worker >= job.workers().size()) return;
        job.workers()[worker].logs[log].logged = count;
        job.workers()[worker].logs[log].started = count;
    }

    Random random_;
    Trouble trouble_;
    Layout layout_;
    uint32_t max_delay_;
    Folder folder_;
    std::vector<uint32_t> hosts_;  ///< of servers that are there
    Bounds bounds_;
    LogCounts log_counts_ = {std::vector<uint64_t>(kWorkersMax),
                             std::vector<uint64_t>(kWorkersMax)};  ///< at the job's start
    uint64_t named_again_ = 0;
    uint64_t closed_ = 0;  ///< of the last checkpoint
    std::vector<uint64_t> sums_ = std::vector<uint64_t>(kRoundKeys);
    uint64_t closed_at_start_ = 0;  ///< of the job
    std::vector<uint64_t> sums_at_start_ = std::vector<uint64_t>(kRoundKeys);
};

}  // namespace

TEST_SUITE("checkpoint_job") {
    TEST_CASE("jobs go on from what they had at one iteration, and between pushes, in any shape") {
        const uint64_t histories = testing::histories_or(60);
        uint64_t named_again = 0;
        for (uint64_t i = 0; i < histories; ++i) {
            WEIR_TEST_SEED(seed, 1 + i);
            CheckpointHistory history(seed);
            history.run();
            named_again += history.named_again();
        }
        if (histories >= 10) CHECK(named_again > 0);
    }

    TEST_CASE("what servers do that die, join and leave costs a checkpoint at most") {
        const uint64_t histories =
            (testing::histories_or(60) + 2) / 3;  // each takes ten times as long
        for (uint64_t i = 0; i < histories; ++i) {
            WEIR_TEST_SEED(seed, 1 + i);
            CheckpointHistory(seed, Trouble::kServers).run();
        }
    }

    TEST_CASE(
        "a full disk costs the checkpoint alone, and a damaged chunk ends no job but is named") {
        Folder folder;
        SimShape shape{.servers = 2, .shards = 1, .workers = 1};
        shape.checkpoints = folder.options();
        StartedCluster cluster(1, shape, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64));
        const std::vector<uint64_t> keys = all_keys(100);
        const auto push = [&](SimCluster& to, const TableInfo& table) {
            const std::vector<uint64_t> ones(keys.size(), 1);
            return to.finish(0,
                             to.workers[0]->push(table, keys, std::as_bytes(std::span(ones)), {}));
        };
        REQUIRE(push(cluster, cluster.table));
        folder.disk->fill();
        const Status full = checkpoint_now(cluster);
        CHECK(full.code() == Errc::kIo);
        CHECK(full.error().text().find("simulated") != std::string::npos);
        CHECK(push(cluster, cluster.table));
        folder.disk->empty_out();
        REQUIRE(checkpoint_now(cluster));
        CHECK(push(cluster, cluster.table));
        const auto chunk = folder.latest().chunks[0];
        auto bytes = *folder.disk->read("d/" + chunk.name, chunk.size_bytes);
        bytes[bytes.size() / 2] ^= std::byte{4};
        folder.disk->damage("d/" + chunk.name, bytes);
        SimShape other{.servers = 1, .shards = 2, .workers = 1};
        folder.resume(other);
        SimCluster resumed(2, other, {});
        REQUIRE(resumed.start());
        const auto table =
            resumed.make_table(0, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64));
        REQUIRE(table.code() == Errc::kParse);
        CHECK(table.error().text().find(chunk.name) != std::string::npos);
    }

    TEST_CASE(
        "what a worker pushed that has left is in the next checkpoint, though its clock is gone") {
        Folder folder;
        SimShape shape{.servers = 2, .shards = 1, .workers = 2};
        shape.checkpoints = folder.options();
        const TableSchema schema = table_of(Layout::kSparse, "w", 0, ValueType::kUInt64);
        SimCluster cluster(1, shape, {});
        REQUIRE(cluster.start());
        std::vector<TableInfo> tables;
        for (uint32_t i = 0; i < 2; ++i)
            tables.push_back(*cluster.make_table(i, schema));
        const std::vector<uint64_t> keys = all_keys(50);
        const std::vector<uint64_t> ones(keys.size(), 1);
        const auto push = [&](uint32_t worker) {
            return cluster.finish(
                worker, cluster.workers[worker]->push(tables[worker], keys,
                                                      std::as_bytes(std::span(ones)), {}));
        };
        REQUIRE(push(0));
        REQUIRE(checkpoint_now(cluster));
        REQUIRE(push(1));
        REQUIRE(cluster.finish(1, cluster.workers[1]->leave({}, 0)));
        REQUIRE(cluster.run_until([&] { return cluster.workers[0]->worker_count() == 1; }));
        cluster.run_idle(10);
        REQUIRE(checkpoint_now(cluster));
        SimShape other{.servers = 1, .shards = 1, .workers = 1};
        folder.resume(other);
        StartedCluster resumed(2, other, schema);
        CHECK(pull(resumed, resumed.table, keys) == std::vector<uint64_t>(keys.size(), 2));
    }

    TEST_CASE("one that was due and failed is tried again, and what a worker asked for is not") {
        for (const bool is_due : {true, false}) {
            Folder folder;
            SimShape shape{.servers = 2, .shards = 1, .workers = 1};
            shape.checkpoints = folder.options();
            bool is_wanted = is_due;
            shape.checkpoints.is_asked_for = [&] { return std::exchange(is_wanted, false); };
            folder.disk->fill();
            StartedCluster cluster(1, shape, table_of(Layout::kSparse, "w", 0, ValueType::kUInt64));
            if (!is_due) CHECK(checkpoint_now(cluster).code() == Errc::kIo);
            REQUIRE(cluster.run_until([&] { return folder.disk->steps() > 0; }));
            cluster.run_idle(100);
            folder.disk->empty_out();
            cluster.run_idle(500);
            const auto is_there = [&] { return checkpoint::latest(*folder.disk, "d").has_value(); };
            CHECK_FALSE(is_there());  // a full disk is given some time
            cluster.run_idle(11'000);
            CHECK(is_there() == is_due);
        }
    }

    TEST_CASE("the state of an update rule goes on, too") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            TableSchema schema = table_of(layout, "w", 500, ValueType::kFloat32);
            schema.rule = "adagrad";
            schema.parameters.value = {0.5, 0.01};
            const std::vector<uint64_t> keys = all_keys(500);
            const auto push = [&](SimCluster& cluster, const TableInfo& table, int rounds) {
                for (int round = 0; round < rounds; ++round) {
                    std::vector<float> values(keys.size());
                    for (size_t i = 0; i < values.size(); ++i)
                        values[i] = static_cast<float>(i % 7) + 0.25F * static_cast<float>(round);
                    const auto call =
                        cluster.workers[0]->push(table, keys, std::as_bytes(std::span(values)), {});
                    REQUIRE(cluster.finish(0, call));
                }
            };
            const auto values_of = [&](SimCluster& cluster, const TableInfo& table) {
                std::vector<float> values(keys.size());
                const auto call = cluster.workers[0]->pull(
                    table, keys, std::as_writable_bytes(std::span(values)), {});
                REQUIRE(cluster.finish(0, call));
                return values;
            };
            Folder folder;
            SimShape shape{.servers = 2, .shards = 2, .workers = 1};
            shape.checkpoints = folder.options();
            StartedCluster first(1, shape, schema);
            push(first, first.table, 3);
            REQUIRE(checkpoint_now(first));
            push(first, first.table, 3);
            SimShape other{.servers = 1, .shards = 3, .workers = 1};
            folder.resume(other);
            StartedCluster second(2, other, schema);
            CHECK(values_of(second, second.table) != values_of(first, first.table));
            push(second, second.table, 3);
            CHECK(values_of(second, second.table) == values_of(first, first.table));
        }
    }
}

}  // namespace weir::test
