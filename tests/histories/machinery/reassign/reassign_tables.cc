// SPDX-License-Identifier: Apache-2.0
#include "tests/histories/machinery/reassign/reassign_tables.h"

#include <algorithm>
#include <span>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/cluster/pushing_job.h"

namespace weir::test {
namespace {

[[nodiscard]] std::vector<uint64_t> pull_as(SimCluster& cluster, uint32_t worker,
                                            const TableInfo& table,
                                            const std::vector<uint64_t>& keys) {
    std::vector<uint64_t> values(keys.size());
    const auto call =
        cluster.workers[worker]->pull(table, keys, std::as_writable_bytes(std::span(values)), {});
    const Status pulled = cluster.finish(worker, call);
    REQUIRE_MESSAGE(pulled, pulled.error().text());
    return values;
}

[[nodiscard]] TableInfo find_table(SimCluster& cluster, uint32_t worker,
                                   const TableSchema& schema) {
    const auto call = cluster.workers[worker]->open_table(schema.name);
    REQUIRE(cluster.run_until([&] { return cluster.workers[worker]->done(call); }));
    auto table = cluster.workers[worker]->take_table(call);
    REQUIRE_MESSAGE(table, table.error().text());
    return *std::move(table);
}

}  // namespace

ReassignTables::Round& ReassignTables::round_of(const WorkShare& share) {
    const size_t at = first_round_ + share.round - 1;
    while (rounds_.size() <= at) {
        if (!rounds_.empty()) rounds_.back().is_over = true;
        Round& round = rounds_.emplace_back();
        round.schema =
            table_of(layout_, fmt::format("job {} round {}", job_, rounds_.size() - first_round_),
                     kKeys, ValueType::kUInt64);
    }
    Round& round = rounds_[at];
    round.begun.resize(share.worker_count);
    return round;
}

TableSchema ReassignTables::log_schema() {
    return table_of(Layout::kSparse, "log", 0, ValueType::kUInt64);
}

std::vector<uint64_t> ReassignTables::part(uint64_t index, uint64_t iteration) {
    std::vector<uint64_t> values;
    for (uint64_t key = 0; key < kKeys; ++key)
        values.push_back(test::part(index, iteration, key));
    return values;
}

ReassignTables::Bounds ReassignTables::bounds_now() const {
    Bounds bounds;
    for (const Round& round : rounds_)
        bounds.rounds.push_back({.least = round.acknowledged});
    for (size_t i = 0; i < logs_.size(); ++i)
        bounds.logs[i].least = logs_[i].acknowledged;
    return bounds;
}

void ReassignTables::note_most(Bounds& bounds) const {
    bounds.rounds.resize(rounds_.size());
    for (size_t i = 0; i < rounds_.size(); ++i) {
        const std::vector<uint64_t>& begun = rounds_[i].begun;
        bounds.rounds[i].most = begun.empty() ? 0 : *std::ranges::min_element(begun);
    }
    for (size_t i = 0; i < logs_.size(); ++i)
        bounds.logs[i].most = logs_[i].begun;
}

/// The value is the sum of all parts of so many iterations.
uint64_t ReassignTables::iterations_in(const Round& round, uint64_t key, uint64_t value,
                                       uint64_t most) {
    uint64_t sum = 0;
    for (uint64_t iteration = 0; iteration <= most; ++iteration) {
        for (uint64_t index = 0; iteration > 0 && index < round.begun.size(); ++index)
            sum += test::part(index, iteration, key);
        if (sum == value) return iteration;
    }
    FAIL(round.schema.name << ": key " << key << " has " << value << ", which is not the sum of "
                           << round.begun.size() << " workers' parts of up to " << most
                           << " iterations");
    return 0;
}

void ReassignTables::check_round(const Round& round, const std::vector<uint64_t>& values,
                                 uint64_t least, uint64_t most) {
    for (uint64_t key = 0; key < kKeys; ++key) {
        INFO(round.schema.name << ", key " << key);
        if (round.values) {
            REQUIRE(values[key] == (*round.values)[key]);
        } else {
            REQUIRE(iterations_in(round, key, values[key], most) >= least);
        }
    }
}

/// How many of its pushes a worker's part of the log has: without a gap.
uint64_t ReassignTables::count_in_log(SimCluster& cluster, uint32_t worker, const TableInfo& table,
                                      uint32_t of, uint64_t begun) {
    std::vector<uint64_t> keys(begun + 2);
    for (uint64_t i = 0; i < keys.size(); ++i)
        keys[i] = of * kLogKeys + i;
    const std::vector<uint64_t> values = pull_as(cluster, worker, table, keys);
    const auto end = std::ranges::find(values, 0U);
    INFO("the log of worker " << of);
    REQUIRE(std::all_of(values.begin(), end, [](uint64_t value) { return value == 1; }));
    REQUIRE(std::all_of(end, values.end(), [](uint64_t value) { return value == 0; }));
    return static_cast<uint64_t>(end - values.begin());
}

void ReassignTables::check_all(SimCluster& cluster, uint32_t worker) const {
    Bounds bounds = bounds_now();
    note_most(bounds);
    const std::vector<uint64_t> keys = all_keys(kKeys);
    for (size_t i = 0; i < rounds_.size(); ++i) {
        const Round& round = rounds_[i];
        if (!round.values && bounds.rounds[i].most == 0) continue;  // it may have no table
        const TableInfo table = find_table(cluster, worker, round.schema);
        check_round(round, pull_as(cluster, worker, table, keys), bounds.rounds[i].least,
                    bounds.rounds[i].most);
    }
    const TableInfo log = find_table(cluster, worker, log_schema());
    for (uint32_t of = 0; of < kWorkersMax; ++of) {
        const uint64_t count = count_in_log(cluster, worker, log, of, logs_[of].begun);
        REQUIRE(count >= logs_[of].acknowledged);
        REQUIRE(count <= logs_[of].begun);
    }
}

void ReassignTables::resume(SimCluster& cluster, const checkpoint::Manifest& manifest,
                            const Bounds& bounds) {
    const std::vector<uint64_t> keys = all_keys(kKeys);
    std::deque<Round> kept;
    for (size_t i = 0; i < bounds.rounds.size(); ++i) {
        Round round = rounds_[i];
        const auto schema =
            std::ranges::find(manifest.tables, round.schema.name, &TableSchema::name);
        const auto [least, most] = bounds.rounds[i];
        if (schema == manifest.tables.end()) {
            REQUIRE(least == 0);
            REQUIRE_FALSE(round.values.has_value());
            continue;
        }
        const TableInfo table = find_table(cluster, 0, round.schema);
        std::vector<uint64_t> values = pull_as(cluster, 0, table, keys);
        check_round(round, values, least, most);
        // All shards have closed the same iterations of one that is not over.
        const uint64_t closed = manifest.closed_of(schema->id);
        for (uint64_t key = 0; key < kKeys && !round.values; ++key) {
            const uint64_t count = iterations_in(round, key, values[key], most);
            INFO(round.schema.name << " was closed up to " << closed);
            REQUIRE((round.is_over ? count <= closed : count == closed));
        }
        round.values = std::move(values);
        kept.push_back(std::move(round));
    }
    rounds_ = std::move(kept);
    const bool has_log = std::ranges::find(manifest.tables, log_schema().name,
                                           &TableSchema::name) != manifest.tables.end();
    for (uint32_t of = 0; of < kWorkersMax; ++of) {
        const uint64_t count = has_log
                                   ? count_in_log(cluster, 0, find_table(cluster, 0, log_schema()),
                                                  of, bounds.logs[of].most)
                                   : 0;
        REQUIRE(count >= bounds.logs[of].least);
        REQUIRE(count <= bounds.logs[of].most);
        logs_[of] = {count, count};
    }
    first_round_ = rounds_.size();
    ++job_;
}

}  // namespace weir::test
