// SPDX-License-Identifier: Apache-2.0
// Online learning with one worker and one server beside the same loop on a hash table in one thread: the same file, read and
// parsed alike, the same losses, and the same steps of FTRL-proximal, but after each example. By turns in the same run.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/core.h>
#include <unistd.h>

#include "lib/apps/online/online_run.h"
#include "lib/base/config.h"
#include "lib/data/example_stream.h"
#include "lib/data/synth.h"
#include "lib/job/job.h"

namespace weir::bench {
namespace {

/// A click log in the folder for temporary files.
class ClickLog {
public:
    explicit ClickLog(uint64_t examples)
        : path_((std::filesystem::temp_directory_path() /
                 fmt::format("weir-online-{}-{}.svm", ::getpid(), examples))
                    .string()) {
        WEIR_CHECK(data::write_click_log(
            path_, {.example_count = examples, .feature_count = 10 * examples}));
    }

    ClickLog(const ClickLog&) = delete;
    ClickLog& operator=(const ClickLog&) = delete;

    ~ClickLog() { std::filesystem::remove(path_); }

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

struct Learned {
    double seconds = 0;
    double features = 0;
    double loss = 0;  ///< mean
};

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// What one thread can do: rows with their keys in one array, found by linear probing and prefetched for a batch.
class HashTable {
public:
    struct Row {
        uint64_t key_and_one = 0;  ///< 0: free
        float weight = 0;
        float z = 0;
        float n = 0;
    };

    explicit HashTable(uint64_t keys) : rows_(std::bit_ceil(2 * keys)) {}

    /// Of each key its row; new keys get one.
    void find(const std::vector<uint64_t>& keys, std::vector<Row*>& out) {
        slots_.resize(keys.size());
        out.resize(keys.size());
        for (size_t i = 0; i < keys.size(); ++i) {
            slots_[i] = (keys[i] * 0x9e3779b97f4a7c15ULL >> 20) & (rows_.size() - 1);
            __builtin_prefetch(&rows_[slots_[i]], 1);
        }
        for (size_t i = 0; i < keys.size(); ++i) {
            size_t slot = slots_[i];
            while (rows_[slot].key_and_one != 0 && rows_[slot].key_and_one != keys[i] + 1)
                slot = (slot + 1) & (rows_.size() - 1);
            rows_[slot].key_and_one = keys[i] + 1;
            out[i] = &rows_[slot];
        }
    }

private:
    std::vector<Row> rows_;
    std::vector<size_t> slots_;
};

Learned learn_alone(const std::string& path, const apps::OnlineOptions& options,
                    uint64_t features) {
    HashTable table(features);
    const std::vector<std::string> paths{path};
    auto stream = data::ExampleStream::open(paths, {});
    WEIR_CHECK(stream);
    const double begun_s = now_s();
    const auto rate = static_cast<float>(options.rate());
    const auto beta = static_cast<float>(options.beta);
    const auto l1 = static_cast<float>(options.l1);
    const auto l2 = static_cast<float>(options.l2);
    data::ParsedLines lines;
    std::vector<HashTable::Row*> rows;
    Learned learned;
    uint64_t examples = 0;
    while (*stream->next(lines, options.batch)) {
        table.find(lines.keys, rows);
        size_t begin = 0;
        for (size_t example = 0; example < lines.labels.size(); ++example) {
            const size_t end = begin + lines.lengths[example];
            float score = 0;
            for (size_t i = begin; i < end; ++i)
                score += rows[i]->weight * lines.values[i];
            const auto label = static_cast<float>(lines.labels[example]);
            learned.loss += std::log1p(std::exp(static_cast<double>(-label * score)));
            const float slope = -label / (1 + std::exp(label * score));
            for (size_t i = begin; i < end; ++i) {
                HashTable::Row& row = *rows[i];
                const float g = slope * lines.values[i];
                const float root = std::sqrt(row.n + g * g);
                row.z += g - (root - std::sqrt(row.n)) / rate * row.weight;
                row.n += g * g;
                row.weight = std::abs(row.z) <= l1 ? 0
                                                   : -(row.z - std::copysign(l1, row.z)) /
                                                         ((beta + root) / rate + l2);
            }
            begin = end;
        }
        examples += lines.labels.size();
        learned.features += static_cast<double>(lines.keys.size());
    }
    learned.loss /= static_cast<double>(examples);
    learned.seconds = now_s() - begun_s;
    return learned;
}

Learned learn_with_server(const apps::OnlineOptions& options) {
    JobOptions shape;
    auto job = Job::start(shape, Config(Environment(Environment::Map{{"WEIR_POOL_MIB", "64"}})));
    WEIR_CHECK(job);
    Learned learned;
    const Status done = (*job)->run_workers([&](Client& client) -> Status {
        apps::OnlineRounds rounds;
        WEIR_ASSIGN(const apps::OnlineRun run, run_online(client, options, rounds));
        learned = {run.total.seconds, static_cast<double>(run.total.features), run.total.loss};
        return {};
    });
    WEIR_CHECK(done);
    WEIR_CHECK((*job)->serve());
    return learned;
}

/// Both times are those of the loop, from when tables are there until all is learned.
void online(benchmark::State& state) {
    const auto examples = static_cast<uint64_t>(state.range(0));
    const ClickLog log(examples);
    apps::OnlineOptions options;
    options.stream = {log.path()};
    Learned ours{};
    Learned limit{};
    double ours_s = 0;
    double limit_s = 0;
    for ([[maybe_unused]] auto _ : state) {
        ours = learn_with_server(options);
        limit = learn_alone(log.path(), options, 10 * examples);
        state.SetIterationTime(ours.seconds);
        ours_s += ours.seconds;
        limit_s += limit.seconds;
    }
    const double all = ours.features * static_cast<double>(state.iterations());
    state.counters["ours_per_s"] = all / ours_s;
    state.counters["limit_per_s"] = all / limit_s;
    state.counters["share"] = limit_s / ours_s;
    state.counters["ours_loss"] = ours.loss;
    state.counters["limit_loss"] = limit.loss;
}

BENCHMARK(online)->Arg(20'000)->Arg(1'000'000)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weir::bench
