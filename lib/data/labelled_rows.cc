// SPDX-License-Identifier: Apache-2.0
#include "lib/data/labelled_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "lib/data/examples.h"
#include "lib/data/shortage.h"

namespace weir {
namespace {

/// The rank of each key among all, which are sorted.
std::vector<uint32_t> sort_keys(std::vector<uint64_t>& keys) {
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [&](uint32_t i) { return keys[i]; });
    std::vector<uint32_t> ranks(keys.size());
    for (size_t rank = 0; rank < order.size(); ++rank)
        ranks[order[rank]] = static_cast<uint32_t>(rank);
    std::ranges::sort(keys);
    return ranks;
}

/// Appends the rows of a chunk, and frees it.
void take(data::RowChunk chunk, std::span<const uint32_t> ranks, bool has_values,
          LabelledRows& all) {
    all.labels.insert(all.labels.end(), chunk.numbers.begin(), chunk.numbers.end());
    std::vector<std::pair<uint32_t, float>> row;
    size_t next = 0;
    for (const uint32_t length : chunk.lengths) {
        row.clear();
        for (const size_t end = next + length; next < end; ++next)
            row.emplace_back(ranks[chunk.features[next]],
                             chunk.values.empty() ? 1.0F : chunk.values[next]);
        std::ranges::sort(row);
        for (const auto& [column, value] : row) {
            all.rows.places.push_back(column);
            if (has_values) all.rows.values.push_back(value);
        }
        all.rows.offsets.push_back(static_cast<int64_t>(all.rows.places.size()));
    }
}

Result<LabelledRows> read(std::span<const std::string> paths, const LibsvmOptions& options) {
    if (options.parts == 0 || options.part >= options.parts) {
        return Error(Errc::kInvalidArgument, fmt::format("part {} of {}: parts are counted from 0",
                                                         options.part, options.parts));
    }
    data::ReadOptions reading;
    reading.thread_count = std::max(1U, options.threads);
    reading.parts.clear();
    for (uint32_t i = 0; i < reading.thread_count; ++i) {
        reading.parts.push_back(
            {options.part * reading.thread_count + i, options.parts * reading.thread_count});
    }
    reading.skip_bad = options.skip_bad;
    reading.format.any_label = true;
    WEIR_ASSIGN(data::Examples examples, data::read_libsvm(paths, reading));
    LabelledRows all;
    all.keys = std::move(examples.keys);
    all.bad_line_count = examples.report.bad_line_count;
    all.first_bad_line = std::move(examples.report.first_bad_line);
    const std::vector<uint32_t> ranks = sort_keys(all.keys);
    const bool has_values = std::ranges::any_of(
        examples.chunks, [](const data::RowChunk& chunk) { return !chunk.values.empty(); });
    all.rows.place_count = all.keys.size();
    all.rows.places.reserve(examples.report.nonzero_count);
    if (has_values) all.rows.values.reserve(examples.report.nonzero_count);
    for (data::RowChunk& chunk : examples.chunks)
        take(std::exchange(chunk, {}), ranks, has_values, all);
    return all;
}

}  // namespace

Result<LabelledRows> read_libsvm_rows(std::span<const std::string> paths,
                                      const LibsvmOptions& options) {
    return data::or_shortage([&] { return read(paths, options); });
}

}  // namespace weir
