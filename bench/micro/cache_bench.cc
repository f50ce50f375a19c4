// SPDX-License-Identifier: Apache-2.0
// Sweeps over all columns as a solver by blocks makes them, gradient and margins, from a column
// cache with memory for a quarter of its blocks, beside the same sweeps over a matrix in memory.
// Elapsed time: the cache's thread and the disk count.
//
// `cold`: the file is dropped from the system's page cache before each sweep, as if it were larger
// than the machine's memory; else it is all there, and reading is copying.
//
// The argument is the number of rows; each has about 30 non-zeros. The files are in TMPDIR.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/micro/beside.h"
#include "lib/base/check.h"
#include "lib/base/descriptor.h"
#include "lib/base/random.h"
#include "lib/data/cache/column_cache.h"

namespace weir::bench {
namespace {

using namespace weir::data;

constexpr uint32_t kGroupCount = 64;
constexpr uint64_t kPerRow = 30;
constexpr uint64_t kFeatureBits = 20;

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

uint32_t group_of(uint64_t key) {
    return static_cast<uint32_t>(mix64(key) % kGroupCount);
}

/// A matrix in memory and its cache on disk.
struct Both {
    explicit Both(uint64_t row_count) {
        std::string name = (std::filesystem::temp_directory_path() / "weir-cache-XXXXXX").string();
        WEIR_CHECK(::mkdtemp(name.data()) != nullptr);
        folder = name;
        paths = {folder / "train.svm"};
        write_text(row_count);
        const ReadOptions read{.thread_count = 2};
        Result<Examples> examples = read_libsvm(paths, read);
        memory.emplace(make_feature_matrix(std::move(examples.value()), groups));
        const double begin_s = now_s();
        ColumnCache made =
            std::move(ColumnCache::open(paths, read, options(uint64_t{1} << 40)).value());
        const uint64_t all = std::move(made).finish(groups).value().data_bytes();
        build_s = now_s() - begin_s;
        const uint64_t index_bytes = all - block_bytes(*memory);
        const uint64_t limit = index_bytes + (all - index_bytes) / 4;
        ColumnCache found = std::move(ColumnCache::open(paths, read, options(limit)).value());
        disk.emplace(std::move(found).finish(groups).value());
        slopes.assign(memory->row_count(), 0.5);
        margins.assign(memory->row_count(), 0.0);
        std::filesystem::remove(paths[0]);
    }

    ~Both() { std::filesystem::remove_all(folder); }

    Both(const Both&) = delete;
    Both& operator=(const Both&) = delete;

    [[nodiscard]] CacheOptions options(uint64_t memory_bytes) const {
        return {folder.string(), memory_bytes, {}};
    }

    static uint64_t block_bytes(const ColumnBlocks& blocks) {
        return 4 * blocks.nonzero_count() + 8 * (blocks.column_count() + kGroupCount);
    }

    /// Few features are common, many are rare, as in click logs.
    void write_text(uint64_t row_count) const {
        Random random(7);
        std::ofstream file(paths[0], std::ios::binary);
        std::string text;
        for (uint64_t row = 0; row < row_count; ++row) {
            text += random.below(2) == 0 ? "1" : "-1";
            for (uint64_t k = 0; k < kPerRow; ++k) {
                const uint64_t key = (k << kFeatureBits) + (random.below(1 << kFeatureBits) >>
                                                            random.below(kFeatureBits));
                fmt::format_to(std::back_inserter(text), " {}:1", key);
            }
            text += '\n';
            if (text.size() < (size_t{1} << 20)) continue;
            file << text;
            text.clear();
        }
        file << text;
        WEIR_CHECK(file.good());
    }

    void drop_pages() const {
        const std::string path = folder / cache_name(std::vector<Part>{{}});
        const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        WEIR_CHECK(file && ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
    }

    double sweep(ColumnBlocks& blocks) {
        const double begin_s = now_s();
        for (uint32_t g = 0; g < kGroupCount; ++g) {
            for (uint32_t ahead = g + 1; ahead < std::min(g + 3, kGroupCount); ++ahead)
                blocks.will_need(ahead);
            const Result<linalg::Columns> columns = blocks.open(g);
            const linalg::ColumnRange all{0, columns.value().line_count()};
            sums.assign(all.size(), 0);
            linalg::gradient(*columns, all, slopes, sums);
            for (double& sum : sums)
                sum *= -1e-9;
            linalg::add_to_margins(*columns, all, sums, margins);
            blocks.done(g);
        }
        return now_s() - begin_s;
    }

    FeatureGroups groups = {kGroupCount, group_of};
    std::filesystem::path folder;
    std::vector<std::string> paths;
    std::optional<ColumnBlocks> memory;
    std::optional<ColumnBlocks> disk;
    double build_s = 0;
    std::vector<double> slopes;
    std::vector<double> margins;
    std::vector<double> sums;
};

void sweeps(benchmark::State& state, bool cold) {
    auto& on = prepared<Both>(static_cast<uint64_t>(state.range(0)));
    double disk_s = 0;
    double memory_s = 0;
    const BlockReader::Counts before = on.disk->counts();
    for ([[maybe_unused]] auto _ : state) {
        if (cold) on.drop_pages();
        const double seconds = on.sweep(*on.disk);
        state.SetIterationTime(seconds);
        disk_s += seconds;
        memory_s += on.sweep(*on.memory);
    }
    const BlockReader::Counts after = on.disk->counts();
    const auto times = static_cast<double>(state.iterations());
    const double bytes = times * static_cast<double>(on.disk->data_bytes());
    state.counters["disk_MB_per_s"] = bytes / disk_s / 1e6;
    state.counters["memory_MB_per_s"] = bytes / memory_s / 1e6;
    state.counters["share"] = memory_s / disk_s;
    state.counters["read"] = static_cast<double>(after.read_bytes - before.read_bytes) / bytes;
    state.counters["held"] =
        static_cast<double>(after.held_bytes_max) / static_cast<double>(on.disk->data_bytes());
    state.counters["waited"] = (after.wait_seconds - before.wait_seconds) / disk_s;
    state.counters["build_s"] = on.build_s;
}

BENCHMARK_CAPTURE(sweeps, warm, false)->Arg(20000)->Arg(4000000)->UseManualTime();
BENCHMARK_CAPTURE(sweeps, cold, true)->Arg(20000)->Arg(4000000)->UseManualTime();

}  // namespace
}  // namespace weir::bench
