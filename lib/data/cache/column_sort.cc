// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/column_sort.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lib/data/cache/page_memory.h"

namespace weir::data {
namespace {

/// What the scattered writes of a run reach: it should lie in the processor's cache, mostly.
constexpr uint64_t kRunBytes = uint64_t{32} << 20;
constexpr uint64_t kRunCount = 512;  // about: more data make longer runs
constexpr size_t kLookUpsAhead = 24;
constexpr uint64_t kRunCountMax = 0x7fff;  // their numbers have 16 bits
constexpr uint64_t kBufferWordsMax = uint64_t{256} << 10;
constexpr uint64_t kBufferWordsMin = uint64_t{1} << 10;

Error stopped_while_sorting() {
    return {Errc::kCancelled, "stopped while the cache was made"};
}

/// Some blocks, one behind the other, that are sorted together.
struct Run {
    uint64_t first_group = 0;
    uint64_t end_group = 0;
    uint64_t first_column = 0;
    uint64_t end_column = 0;
    uint64_t place = 0;       ///< in the file of runs, in words
    uint64_t words = 0;       ///< in the file of runs
    uint64_t file_begin = 0;  ///< in the cache
    uint64_t file_end = 0;
};

/// The non-zeros of all runs on disk: column, row and, if not all are 1, value. Each run has its
/// stretch of the file, of known size, and a buffer.
class RunFile {
public:
    RunFile(CacheFile file, std::vector<Run> runs, bool has_values, uint64_t buffer_bytes)
        : file_(std::move(file)), runs_(std::move(runs)), stride_(has_values ? 3 : 2) {
        const uint64_t words = std::clamp(buffer_bytes / 4 / std::max<size_t>(runs_.size(), 1),
                                          kBufferWordsMin, kBufferWordsMax);
        buffer_words_ = words / stride_ * stride_;
        buffers_.resize(runs_.size());
        words_ = PageMemory(4 * buffer_words_ * runs_.size());
    }

    [[nodiscard]] Status reserve() {
        uint64_t words = 0;
        for (const Run& run : runs_)
            words += run.words;
        return file_.reserve(4 * words);
    }

    /// value: its bits; only used if there are values
    [[nodiscard]] Status add(uint32_t run, uint32_t column, uint32_t row, uint32_t value) {
        Buffer& buffer = buffers_[run];
        uint32_t* const to = buffer_of(run) + buffer.word_count;
        to[0] = column;
        to[1] = row;
        if (stride_ == 3) to[2] = value;
        buffer.word_count += stride_;
        return buffer.word_count < buffer_words_ ? Status() : flush(run);
    }

    /// The last call of writing.
    [[nodiscard]] Status flush_all() {
        for (uint32_t run = 0; run < runs_.size(); ++run) {
            WEIR_TRY(flush(run));
            WEIR_CHECK(buffers_[run].written_words == runs_[run].words);
        }
        words_ = {};
        return {};
    }

    /// Calls visit(column, row, value) for the non-zeros of a run, in the order of add(), and gives
    /// back its space.
    template <class Visit>
    [[nodiscard]] Status drain(uint32_t run, Visit&& visit) {
        std::vector<uint32_t> words;
        const Run& of = runs_[run];
        const uint64_t most = kBufferWordsMax / stride_ * stride_;
        for (uint64_t at = 0; at < of.words; at += words.size()) {
            words.resize(std::min(most, of.words - at));
            WEIR_TRY(file_.read(4 * (of.place + at), std::as_writable_bytes(std::span(words))));
            for (uint64_t i = 0; i < words.size(); i += stride_)
                visit(words[i], words[i + 1], stride_ == 3 ? words[i + 2] : 0);
        }
        file_.give_back(4 * of.place, 4 * (of.place + of.words));
        return {};
    }

    [[nodiscard]] const std::vector<Run>& runs() const noexcept { return runs_; }

private:
    struct Buffer {
        uint64_t word_count = 0;     // in memory
        uint64_t written_words = 0;  // before them
    };

    [[nodiscard]] uint32_t* buffer_of(uint32_t run) const noexcept {
        return words_.list<uint32_t>(4 * buffer_words_ * run, buffer_words_).data();
    }

    [[nodiscard]] Status flush(uint32_t run) {
        Buffer& buffer = buffers_[run];
        const std::span<const uint32_t> words(buffer_of(run), buffer.word_count);
        WEIR_TRY(file_.write(4 * (runs_[run].place + buffer.written_words), std::as_bytes(words)));
        buffer.written_words += std::exchange(buffer.word_count, 0);
        return {};
    }

    CacheFile file_;
    std::vector<Run> runs_;
    uint64_t stride_;
    uint64_t buffer_words_ = 0;
    std::vector<Buffer> buffers_;  // per run
    PageMemory words_;             // of all buffers
};

/// Whole groups, so many that a run's blocks take at most `run_bytes`, but at least one.
std::vector<Run> divide(const CacheIndex& index, uint64_t run_bytes) {
    const uint64_t stride = index.has_values ? 3 : 2;
    std::vector<Run> runs;
    for (uint64_t g = 0; g < index.blocks.size(); ++g) {
        const BlockPlace& block = index.blocks[g];
        const uint64_t end = block.place + block.shape.bytes();
        if (runs.empty() || end - runs.back().file_begin > run_bytes) {
            Run next;
            next.first_group = g;
            next.first_column = index.group_begin[g];
            next.place = runs.empty() ? 0 : runs.back().place + runs.back().words;
            next.file_begin = block.place;
            runs.push_back(next);
        }
        Run& run = runs.back();
        run.end_group = g + 1;
        run.end_column = index.group_begin[g + 1];
        run.words += stride * block.shape.nonzero_count;
        run.file_end = end;
    }
    return runs;
}

void look_up(std::span<const uint32_t> column_of, std::span<const uint32_t> features,
             std::vector<uint32_t>& columns) {
    columns.resize(features.size());
    for (size_t i = 0; i < features.size(); ++i) {
        if (i + kLookUpsAhead < features.size())
            __builtin_prefetch(&column_of[features[i + kLookUpsAhead]]);
        columns[i] = column_of[features[i]];
    }
}

Status scatter_to_runs(std::vector<RowSpill>&& spills, std::vector<uint32_t>&& column_of,
                       const CacheIndex& index, const SortOptions& options, RunFile& runs) {
    std::vector<uint16_t> run_of(index.keys.size());
    for (size_t r = 0; r < runs.runs().size(); ++r) {
        const Run& run = runs.runs()[r];
        std::fill(run_of.begin() + static_cast<int64_t>(run.first_column),
                  run_of.begin() + static_cast<int64_t>(run.end_column), static_cast<uint16_t>(r));
    }
    uint32_t row = 0;
    std::vector<uint32_t> columns;
    const auto scatter = [&](const SpilledRows& rows) -> Status {
        if (options.stop && options.stop()) return stopped_while_sorting();
        look_up(column_of, rows.features, columns);
        size_t i = 0;
        for (const uint32_t length : rows.lengths) {
            for (const size_t end = i + length; i < end; ++i) {
                if (i + kLookUpsAhead < columns.size())
                    __builtin_prefetch(&run_of[columns[i + kLookUpsAhead]]);
                const float value = rows.values.empty() ? 1.0F : rows.values[i];
                WEIR_TRY(
                    runs.add(run_of[columns[i]], columns[i], row, std::bit_cast<uint32_t>(value)));
            }
            ++row;
        }
        return {};
    };
    for (RowSpill& spill : spills)
        WEIR_TRY(spill.drain(scatter));
    column_of = {};
    return runs.flush_all();
}

/// The next free place of a column in its block.
struct Fill {
    uint32_t* row;
    float* value;
};

/// Makes the blocks of a run in `pages` and writes them.
Status sort_run(RunFile& runs, uint32_t number, CacheFile& file, CacheIndex& index) {
    const Run& run = runs.runs()[number];
    const PageMemory pages(run.file_end - run.file_begin);
    std::vector<Fill> fill(run.end_column - run.first_column);
    for (uint64_t g = run.first_group; g < run.end_group; ++g) {
        const BlockPlace& block = index.blocks[g];
        const BlockShape& shape = block.shape;
        const uint64_t begin = block.place - run.file_begin;
        const auto places = pages.list<uint64_t>(begin, shape.column_count + 1);
        const auto rows = pages.list<uint32_t>(begin + shape.rows_begin(), shape.nonzero_count);
        const auto values = pages.list<float>(begin + shape.values_begin(),
                                              shape.has_values ? shape.nonzero_count : 0);
        const uint64_t first = index.group_begin[g];
        for (uint64_t c = 0; c < shape.column_count; ++c) {
            places[c + 1] = places[c] + index.counts[first + c];
            fill[first - run.first_column + c] = {
                rows.data() + places[c], values.empty() ? nullptr : values.data() + places[c]};
        }
    }
    WEIR_TRY(runs.drain(number, [&](uint32_t column, uint32_t row, uint32_t value) {
        Fill& to = fill[column - run.first_column];
        *to.row++ = row;
        if (to.value != nullptr) *to.value++ = std::bit_cast<float>(value);
    }));
    for (uint64_t g = run.first_group; g < run.end_group; ++g) {
        BlockPlace& block = index.blocks[g];
        block.checksum = cache_checksum(
            pages.bytes().subspan(block.place - run.file_begin, block.shape.bytes()), g);
    }
    return file.write(run.file_begin, pages.bytes());
}

}  // namespace

Status sort_columns(std::vector<RowSpill>&& spills, std::vector<uint32_t>&& column_of,
                    const SortOptions& options, CacheFile& file, CacheIndex& index) {
    if (index.blocks.empty()) return {};
    const uint64_t bytes =
        index.blocks.back().place + index.blocks.back().shape.bytes() - index.blocks[0].place;
    const uint64_t run_bytes =
        std::max(std::min(std::max(kRunBytes, bytes / kRunCount), options.memory_bytes / 2),
                 bytes / kRunCountMax);
    std::vector<Run> divided = divide(index, run_bytes);
    WEIR_CHECK(divided.size() <= 2 * kRunCountMax + 1);  // two neighbours are longer than run_bytes
    WEIR_ASSIGN(CacheFile run_file, CacheFile::create_unnamed(options.run_path, file.names()));
    RunFile runs(std::move(run_file), std::move(divided), index.has_values,
                 options.memory_bytes / 4);
    WEIR_TRY(runs.reserve());
    WEIR_TRY(scatter_to_runs(std::move(spills), std::move(column_of), index, options, runs));
    for (uint32_t run = 0; run < runs.runs().size(); ++run) {
        if (options.stop && options.stop()) return stopped_while_sorting();
        WEIR_TRY(sort_run(runs, run, file, index));
    }
    return {};
}

}  // namespace weir::data
