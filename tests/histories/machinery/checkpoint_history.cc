// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/checkpoint_history.h"

#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>

#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/folder.h"

namespace weir::test {
namespace {

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

/// How many of the pushes have their key in the worker's steps.
size_t count_pushes_in(PositionRange range, const WorkerTimes& worker,
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

}  // namespace

SimShape CheckpointHistory::make_shape() {
    SimShape shape = random_shape(random_);
    if (troubles_.of_servers) {
        shape.replicas = static_cast<uint32_t>(1 + random_.below(2));
        shape.servers = shape.replicas + 2;
        shape.is_manager_apart = true;
    } else {
        shape.replicas = static_cast<uint32_t>(random_.below(shape.servers));
    }
    if (troubles_.of_managers) shape.managers = 3;
    if (troubles_.of_network) {
        shape.is_manager_apart = true;
        shape.clock_skew = 0.1;
        shape.lease_ns = 500 * kMillisecond;
    }
    return shape;
}

void CheckpointHistory::run() {
    for (int job = 0; job < 3; ++job) {
        SimShape shape = make_shape();
        const transport::sim::Options network = random_network(random_);
        if (troubles_.of_disk && random_.below(2) == 0)
            shape.disk_ns_max = network.delay_ns_max << random_.below(5);
        if (job == 0) {
            shape.checkpoints = folder_.options();
        } else {
            folder_.resume(shape);
        }
        PushingJob pushing(random_, shape, network, layout_, max_delay_);
        CheckpointTroubles happening(pushing.cluster(), random_, troubles_, counts_);
        INFO(happening.text());
        if (job > 0) check(pushing);
        run_job(pushing, happening);
    }
}

void CheckpointHistory::run_job(PushingJob& job, CheckpointTroubles& happening) {
    for (uint64_t n = 1 + random_.below(3); n > 0; --n) {
        for (uint64_t steps = random_.below(600); steps > 0; --steps)
            job.step();
        if (troubles_.of_disk && random_.below(2) == 0) fail_disk();
        for (int tries = 0; !write_checkpoint(job, happening); ++tries) {
            REQUIRE(tries < 20);
            folder_.disk->heal();
        }
        folder_.disk->heal();
    }
    if (random_.below(2) == 0) end_amid_checkpoint(job, happening);
}

void CheckpointHistory::end_amid_checkpoint(PushingJob& job, CheckpointTroubles& happening) {
    if (troubles_.of_disk && random_.below(2) == 0) fail_disk();
    (void)job.cluster().workers[0]->checkpoint(0);
    const uint64_t before = newest();
    const uint64_t steps_before = folder_.disk->steps();
    happening.begin(disk_steps_);
    const bool is_slow = troubles_.of_disk || troubles_.of_managers;
    for (uint64_t steps = random_.below(is_slow ? 2000 : 400); steps > 0; --steps) {
        job.step();
        if (troubles_.of_managers) happening.live(folder_.disk->steps() - steps_before);
    }
    if (random_.below(2) == 0) folder_.disk->crash(random_());
    folder_.disk->heal();
    folder_.check_whole(before);
    if (newest() == before) return;
    note_started(job, bounds_);
    note(job, folder_.latest());
}

/// At some step of the next checkpoint.
void CheckpointHistory::fail_disk() {
    const uint64_t step = 1 + random_.below(disk_steps_);
    random_.below(2) == 0 ? folder_.disk->fail_at(step) : folder_.disk->fail_once_at(step);
}

/// False: there is none that was reported, because of the servers, the managers or the disk.
bool CheckpointHistory::write_checkpoint(PushingJob& job, CheckpointTroubles& happening) {
    Bounds bounds = bounds_now(job);
    SimCluster& cluster = job.cluster();
    ClientCore& client = *cluster.workers[random_.below(job.workers().size())];
    const auto call = client.checkpoint(0);
    const uint64_t before = newest();
    const uint64_t steps_before = folder_.disk->steps();
    // A slow disk takes 20 ms, which are a million steps of such a job.
    constexpr size_t kCheckpointSteps = 5'000'000;
    happening.begin(disk_steps_);
    for (size_t steps = 0; !client.done(call); ++steps) {
        happening.is_long() ? (void)cluster.step() : job.step();
        happening.live(folder_.disk->steps() - steps_before);
        REQUIRE(steps < kCheckpointSteps);
    }
    happening.end();
    const auto number = client.take_checkpoint(call);
    if (troubles_.of_managers) folder_.check_all_whole();  // also one that was written late
    if (!number) check_failure(number.error(), before);
    if (number) {
        CHECK(newest() == *number);
        disk_steps_ = folder_.disk->steps() - steps_before;
    }
    if (newest() != before) {
        note_started(job, bounds);
        bounds_ = bounds;
        note(job, folder_.latest());
    }
    return number.has_value();
}

/// What a checkpoint has at least that is asked for now.
CheckpointHistory::Bounds CheckpointHistory::bounds_now(PushingJob& job) const {
    Bounds bounds;
    bounds.closed = ~uint64_t{0};
    bounds.logged = bounds.started = log_counts_;
    bounds.endings_changed = bounds.endings_started = ending_counts_;
    for (size_t i = 0; i < job.workers().size(); ++i) {
        const auto& worker = job.workers()[i];
        for (size_t log = 0; log < kLogs.size(); ++log)
            bounds.logged[log][i] = worker.logs[log].logged;
        bounds.endings_changed[i] = worker.endings.logged;
        bounds.closed = std::min(bounds.closed, worker.acknowledged);
    }
    return bounds;
}

/// It failed because of what this history does, and the checkpoint before is whole.
void CheckpointHistory::check_failure(const Error& why, uint64_t before) {
    INFO(why.text());
    const bool is_of_disk = why.code() == Errc::kIo && folder_.disk->has_failed();
    const bool is_of_servers =
        (troubles_.of_servers || troubles_.of_managers || troubles_.of_network) &&
        (why.code() == Errc::kBusy || why.code() == Errc::kCancelled ||
         why.code() == Errc::kPeerLost);
    REQUIRE((is_of_disk || is_of_servers));
    if (before != 0) folder_.check_whole(before);
    // The new one may be there: a rename that fails may have taken place, and a manager that leads no more may
    // have written it.
    if (is_of_disk) {
        ++failed_count_;
    } else if (why.text().find("leads no more") != std::string::npos) {
        CHECK(troubles_.of_managers);
        ++given_up_count_;
    } else {
        REQUIRE(newest() == before);
    }
}

void CheckpointHistory::note_started(PushingJob& job, Bounds& bounds) {
    for (size_t i = 0; i < job.workers().size(); ++i) {
        const auto& worker = job.workers()[i];
        for (size_t log = 0; log < kLogs.size(); ++log)
            bounds.started[log][i] = worker.logs[log].started;
        bounds.endings_started[i] = worker.endings.started;
        bounds.begun = std::max(bounds.begun, worker.next - 1);
    }
}

/// Of the checkpoints; 0: none.
uint64_t CheckpointHistory::newest() const {
    const auto number = checkpoint::latest(*folder_.disk, "d");
    return number ? *number : 0;
}

/// What the iterations of the table have added up to in this checkpoint.
void CheckpointHistory::note(PushingJob& job, const checkpoint::Manifest& manifest) {
    const uint32_t table = job.workers()[0].rounds.schema.id;
    const uint64_t closed = manifest.closed_of(table);
    CHECK(closed >= bounds_.closed);
    CHECK(closed <= bounds_.begun);
    std::vector<uint64_t> values = sums_at_start_;
    values.resize(kRoundKeys);
    for (uint64_t iteration = closed_at_start_ + 1; iteration <= closed; ++iteration) {
        for (uint64_t key = 0; key < kRoundKeys; ++key) {
            uint64_t parts = 0;
            for (uint64_t worker = 0; worker < job.workers().size(); ++worker)
                parts += part(worker, iteration, key);
            values[key] = with_iteration(values[key], key, iteration, parts);
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
void CheckpointHistory::check_iterations(const checkpoint::Manifest& manifest, uint32_t table,
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
void CheckpointHistory::check_times(PushingJob& job, const checkpoint::Manifest& manifest,
                                    size_t log) const {
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
                found += count_pushes_in(times.range, worker, positions);
        }
        CHECK(found == positions.size());
    }
}

/// A job that has gone on from the checkpoint has just that.
void CheckpointHistory::check(PushingJob& job) {
    for (const auto& worker : job.workers())
        CHECK(worker.next == closed_ + 1);
    CHECK(pull(job.cluster(), job.workers()[0].rounds, all_keys(kRoundKeys)) == sums_);
    for (size_t log = 0; log < kLogs.size(); ++log) {
        for (uint32_t worker = 0; worker < kWorkersMax; ++worker)
            check_log(job, log, worker);
    }
    for (uint32_t worker = 0; worker < kWorkersMax; ++worker)
        check_endings(job, worker);
    closed_at_start_ = closed_;
    sums_at_start_ = sums_;
}

void CheckpointHistory::check_log(PushingJob& job, size_t log, uint32_t worker) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < bounds_.started[log][worker] + 2; ++i)
        keys.push_back(worker * kLogKeys + i);
    const std::vector<uint64_t> values =
        pull(job.cluster(), job.workers()[0].logs[log].table, keys);
    const uint64_t count = count_logged(log, keys, values);
    CHECK(count >= bounds_.logged[log][worker]);
    CHECK(count <= bounds_.started[log][worker]);
    log_counts_[log][worker] = count;
    if (worker >= job.workers().size()) return;
    job.workers()[worker].logs[log].logged = count;
    job.workers()[worker].logs[log].started = count;
}

/// The rows are those after some number of changes that the checkpoint may have, and the worker goes on from
/// there. An erased row that came back would fit none of them.
void CheckpointHistory::check_endings(PushingJob& job, uint32_t worker) {
    std::vector<uint64_t> keys = all_keys(kEndingKeys);
    for (uint64_t& key : keys)
        key += worker * kEndingKeys;
    SimCluster& cluster = job.cluster();
    const TableInfo& table = job.workers()[0].endings.table;
    std::vector<std::byte> flags(keys.size());
    Operation look;
    look.table = &table;
    look.kind = wire::Kind::kPull;
    look.keys = keys;
    look.asks_written = true;
    look.out_row_bytes = 1;
    look.out = flags;
    REQUIRE(cluster.finish(0, cluster.workers[0]->start({std::move(look)})));
    std::vector<bool> written;
    for (const std::byte flag : flags)
        written.push_back(flag != std::byte{0});
    std::vector<float> values(keys.size());
    REQUIRE(cluster.finish(
        0, cluster.workers[0]->pull(table, keys, std::as_writable_bytes(std::span(values)), {})));
    for (size_t i = 0; i < keys.size(); ++i)
        CHECK(values[i] == (written[i] ? kEndingValue : 0));
    uint64_t changes = bounds_.endings_changed[worker];
    while (changes < bounds_.endings_started[worker] && written != written_after(changes))
        ++changes;
    CAPTURE(worker);
    CAPTURE(bounds_.endings_changed[worker]);
    CAPTURE(changes);
    CHECK(written == written_after(changes));
    changes_of_endings_ += changes - ending_counts_[worker];
    ending_counts_[worker] = changes;
    if (worker >= job.workers().size()) return;
    job.workers()[worker].endings.logged = changes;
    job.workers()[worker].endings.started = changes;
}

}  // namespace weir::test
