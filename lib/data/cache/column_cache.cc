// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/column_cache.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <sys/stat.h>

#include "lib/base/fnv.h"
#include "lib/data/output_file.h"
#include "lib/data/shortage.h"

namespace weir::data {
namespace {

constexpr std::string_view kSuffix = ".columns";
constexpr size_t kListedPartsMax = 8;

/// "2-of-8", "1-5-9-of-12"; for many parts a hash of them.
std::string parts_text(std::span<const Part> parts) {
    const uint32_t count = parts.empty() ? 0 : parts[0].count;
    std::string list;
    for (const Part& part : parts)
        list += fmt::format("{}-", part.index + 1);
    if (parts.empty()) return "none";
    if (parts.size() > kListedPartsMax) list = fmt::format("{:016x}-", fnv1a(list));
    return fmt::format("{}of-{}", list, count);
}

/// What a cache is made of, a line for each fact. Files have their names without folders: they
/// may be mounted elsewhere.
Result<std::string> describe_source(std::span<const std::string> paths, const ReadOptions& read,
                                    const CacheNames& names) {
    std::string text = fmt::format("parts {}\n", parts_text(read.parts));
    text += fmt::format("labels {}\n", read.format.labels.text());
    text += fmt::format("lines without a label {}\n", read.format.label_optional ? "yes" : "no");
    text += fmt::format("bad lines that may be left out {}\n", read.skip_bad);
    for (const std::string& path : paths) {
        struct stat facts = {};
        const bool is_input = path == kStandardOutput || path.starts_with("/dev/std");
        if (!is_input && ::stat(path.c_str(), &facts) != 0)
            return Error(Errc::kNotFound, fmt::format("{}: cannot be found", path), errno);
        if (is_input || !S_ISREG(facts.st_mode)) {
            return Error(Errc::kInvalidArgument,
                         fmt::format("{}: cannot be cached, because it can only be read once; give "
                                     "files with {}",
                                     path, names.cache));
        }
        text += fmt::format("file {} of {} bytes, changed at {}.{:09}\n",
                            std::filesystem::path(path).filename().string(), facts.st_size,
                            facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
    }
    return text;
}

/// Takes the first line from `text`; "nothing" at its end.
std::string_view take_line(std::string_view& text) {
    if (text.empty()) return "nothing";
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    return line;
}

Status check_source(const CacheFile& file, std::string_view found, std::string_view wanted) {
    if (found == wanted) return {};
    std::string_view old_line = take_line(found);
    std::string_view new_line = take_line(wanted);
    while (old_line == new_line && !(found.empty() && wanted.empty())) {
        old_line = take_line(found);
        new_line = take_line(wanted);
    }
    return Error(
        Errc::kParse,
        fmt::format("{}: is a cache of other data: it was made with '{}', now it is '{}'; "
                    "give another folder with {}, or remove the file, and it is made again",
                    file.path(), old_line, new_line, file.names().cache));
}

/// What one thread reads.
struct SpillThread {
    RowSpill spill;
    ReadReport report;
    Status status = {};

    Status read(std::span<const std::string> paths, const StreamOptions& options,
                SpillFeatures& features) {
        const auto consume = [&](const ParsedLines& lines) { return spill.add(lines, features); };
        WEIR_ASSIGN(const ReadReport of_part, stream_libsvm(paths, options, consume));
        const double seconds = report.seconds + of_part.seconds;
        report.add(of_part);
        report.seconds = seconds;
        return {};
    }
};

/// Every thread reads every n-th of the parts, as in read_libsvm().
Status read_spills(std::span<const std::string> paths, const ReadOptions& read,
                   std::vector<SpillThread>& threads, SpillFeatures& features) {
    const auto read_share = [&](size_t number) {
        SpillThread& thread = threads[number];
        thread.status = or_shortage([&]() -> Status {
            for (size_t i = number; i < read.parts.size(); i += threads.size()) {
                WEIR_TRY(thread.read(paths, {read.parts[i], read.skip_bad, read.format, read.stop},
                                     features));
            }
            return {};
        });
    };
    {
        std::vector<std::jthread> started;  // joined at the end, also if one does not start
        started.reserve(threads.size());
        for (size_t number = 1; number < threads.size(); ++number)
            started.emplace_back([&read_share, number] { read_share(number); });
        read_share(0);
    }
    for (SpillThread& thread : threads)
        WEIR_TRY(std::move(thread.status));
    return {};
}

}  // namespace

std::string cache_name(std::span<const Part> parts) {
    return fmt::format("{}-{}{}", parts.size() == 1 ? "part" : "parts", parts_text(parts), kSuffix);
}

ColumnCache::~ColumnCache() {
    building_.remove();
}

Result<ColumnCache> ColumnCache::open(std::span<const std::string> paths, const ReadOptions& read,
                                      CacheOptions options) {
    return or_shortage([&]() -> Result<ColumnCache> {
        if (read.format.any_label)
            return Error(Errc::kInvalidArgument, "a column cache has only the labels -1 and +1");
        ColumnCache cache;
        cache.options_ = std::move(options);
        const CacheNames& names = cache.options_.names;
        const std::string& folder = cache.options_.folder;
        WEIR_ASSIGN(const std::string source, describe_source(paths, read, names));
        WEIR_TRY(make_cache_folder(folder, names));
        cache.path_ = (std::filesystem::path(folder) / cache_name(read.parts)).string();
        Result<CacheFile> found = CacheFile::open(cache.path_, names);
        if (found.code() == Errc::kNotFound) {
            WEIR_ASSIGN(cache.building_,
                        CacheFile::create_locked(cache.path_ + ".building", names));
            // Another process may have finished it meanwhile.
            found = CacheFile::open(cache.path_, names);
        }
        if (found.code() == Errc::kNotFound) {
            cache.index_.source = source;
            WEIR_TRY(cache.read_text(paths, read));
            return cache;
        }
        WEIR_ASSIGN(cache.found_, std::move(found));
        WEIR_ASSIGN(cache.index_, read_index(cache.found_));
        WEIR_TRY(check_source(cache.found_, cache.index_.source, source));
        return cache;
    });
}

Status ColumnCache::read_text(std::span<const std::string> paths, const ReadOptions& read) {
    std::vector<SpillThread> threads;
    for (uint32_t i = 0; i < std::max(1U, read.thread_count); ++i) {
        WEIR_ASSIGN(CacheFile file,
                    CacheFile::create_unnamed(fmt::format("{}.rows-{}", path_, i), options_.names));
        threads.push_back({RowSpill(std::move(file)), {}});
    }
    SpillFeatures features;
    WEIR_TRY(read_spills(paths, read, threads, features));
    for (const SpillThread& thread : threads)
        index_.report.add(thread.report);
    WEIR_TRY(check_report(index_.report, paths, read));
    index_.keys = features.take_keys();
    index_.counts = features.take_counts();
    index_.labels.reserve(index_.report.example_count);
    for (SpillThread& thread : threads) {
        const std::vector<int8_t> labels = std::exchange(thread.spill.labels, {});
        index_.labels.insert(index_.labels.end(), labels.begin(), labels.end());
        index_.has_values = index_.has_values || !thread.spill.all_ones;
        spills_.push_back(std::move(thread.spill));
    }
    return {};
}

uint32_t ColumnCache::block_count_min(uint32_t at_once) const noexcept {
    if (found_) return static_cast<uint32_t>(index_.blocks.size());
    constexpr double kMost = 1 << 16;
    const double nonzero_bytes = index_.has_values ? 8 : 4;
    const double all = nonzero_bytes * static_cast<double>(index_.report.nonzero_count) +
                       8 * static_cast<double>(index_.keys.size());
    const double free =
        static_cast<double>(options_.memory_bytes) - static_cast<double>(index_.memory_bytes());
    if (free <= 0) return 1;  // finish() says how much is needed
    return static_cast<uint32_t>(std::clamp(std::ceil(all * at_once / free), 1.0, kMost));
}

Status ColumnCache::check_groups(const FeatureGroups& groups) const {
    const auto fits = [&] {
        if (index_.blocks.size() != groups.count) return false;
        for (uint32_t g = 0; g < groups.count; ++g) {
            for (uint64_t c = index_.group_begin[g]; c < index_.group_begin[g + 1]; ++c)
                if (groups.of(index_.keys[c]) != g) return false;
        }
        return true;
    };
    if (fits()) return {};
    const std::string counts =
        index_.blocks.size() == groups.count
            ? ""
            : fmt::format(" ({} blocks, not {})", index_.blocks.size(), groups.count);
    return Error(
        Errc::kParse,
        fmt::format("{}: is a cache for another division of the features{}, such as with "
                    "another seed or other workers; give another folder with {}, or remove "
                    "all *.columns in this one, and they are made again",
                    path_, counts, options_.names.cache));
}

/// Lays out the columns in index_ and writes the cache.
Status ColumnCache::sort(const FeatureGroups& groups, const std::function<bool()>& stop) {
    ColumnOrder order = order_columns(std::exchange(index_.keys, {}), groups);
    index_.keys = std::move(order.keys);
    index_.group_begin = std::move(order.group_begin);
    std::vector<uint32_t> counts(index_.counts.size());
    for (size_t i = 0; i < counts.size(); ++i)
        counts[order.column_of[i]] = index_.counts[i];
    index_.counts = std::move(counts);
    index_.blocks.resize(groups.count);
    for (uint32_t g = 0; g < groups.count; ++g) {
        BlockShape& shape = index_.blocks[g].shape;
        shape.has_values = index_.has_values;
        shape.column_count = index_.group_begin[g + 1] - index_.group_begin[g];
        for (uint64_t c = index_.group_begin[g]; c < index_.group_begin[g + 1]; ++c)
            shape.nonzero_count += index_.counts[c];
    }
    const uint64_t file_bytes = place_blocks(index_);
    WEIR_TRY(check_memory(index_, options_.memory_bytes, options_.names));
    // Beside the buffers: the columns of all features, their counts and runs.
    const uint64_t column_bytes = 10 * index_.keys.size();
    const uint64_t free_bytes = options_.memory_bytes - index_.memory_bytes();
    const uint64_t memory_bytes =
        std::max(free_bytes - std::min(free_bytes, column_bytes), index_.largest_block_bytes());
    WEIR_TRY(sort_columns(std::exchange(spills_, {}), std::move(order.column_of),
                          {path_ + ".runs", memory_bytes, stop}, building_, index_));
    WEIR_TRY(write_index(building_, index_, file_bytes));
    return building_.finish(path_);
}

Result<ColumnBlocks> ColumnCache::finish(const FeatureGroups& groups,
                                         const std::function<bool()>& stop) && {
    return or_shortage([&]() -> Result<ColumnBlocks> {
        if (found_) {
            WEIR_TRY(check_groups(groups));
        } else {
            WEIR_TRY(sort(groups, stop));
            WEIR_ASSIGN(found_, CacheFile::open(path_, options_.names));
            building_ = {};
        }
        index_.counts = {};
        return ColumnBlocks::of_cache(std::move(found_), std::move(index_), options_.memory_bytes);
    });
}

}  // namespace weir::data
