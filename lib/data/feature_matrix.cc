// SPDX-License-Identifier: Apache-2.0
#include "lib/data/feature_matrix.h"

#include <array>
#include <numeric>
#include <utility>

#include <sys/mman.h>

namespace weir::data {

namespace {

/// The indices of `keys`, sorted by key, by a radix sort that skips the digits in which all keys
/// agree.
std::vector<uint32_t> sorted_order(const std::vector<uint64_t>& keys) {
    constexpr uint32_t kDigitBits = 11;
    constexpr uint32_t kDigitCount = 1U << kDigitBits;
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0U);
    uint64_t differing = 0;
    for (const uint64_t key : keys)
        differing |= key ^ keys[0];
    std::vector<uint32_t> next(keys.size());
    for (uint32_t shift = 0; shift < 64; shift += kDigitBits) {
        if (((differing >> shift) & (kDigitCount - 1)) == 0) continue;
        std::array<uint32_t, kDigitCount + 1> begin = {};
        for (const uint64_t key : keys)
            ++begin[((key >> shift) & (kDigitCount - 1)) + 1];
        std::partial_sum(begin.begin(), begin.end(), begin.begin());
        for (const uint32_t index : order) {
            next[begin[(keys[index] >> shift) & (kDigitCount - 1)]++] = index;
        }
        order.swap(next);
    }
    return order;
}

/// Counts the non-zeros of every feature and lays out the columns. Returns the place of the first
/// non-zero of each feature. It counts by feature, not by column, because features that came
/// early are the common ones, so that most look-ups hit the cache.
std::vector<uint64_t> lay_out(const Examples& examples, const std::vector<uint32_t>& column_of,
                              FeatureMatrix& matrix) {
    std::vector<uint64_t> fill(column_of.size(), 0);
    for (const RowChunk& chunk : examples.chunks) {
        for (const uint32_t feature : chunk.features)
            ++fill[feature];
    }
    matrix.offsets.assign(column_of.size() + 1, 0);
    for (uint64_t i = 0; i < fill.size(); ++i)
        matrix.offsets[column_of[i] + 1] = fill[i];
    std::partial_sum(matrix.offsets.begin(), matrix.offsets.end(), matrix.offsets.begin());
    for (uint64_t i = 0; i < fill.size(); ++i)
        fill[i] = matrix.offsets[column_of[i]];
    return fill;
}

/// Moves the non-zeros of one chunk to their columns. `fill` has the next free place per feature.
void scatter(const RowChunk& chunk, uint32_t first_row, std::vector<uint64_t>& fill,
             FeatureMatrix& matrix) {
    constexpr uint64_t kAhead = 16;  // prefetched stores
    const std::vector<uint32_t>& features = chunk.features;
    const uint64_t count = features.size();
    uint32_t* const rows = matrix.rows.data();
    float* const values = matrix.values.empty() ? nullptr : matrix.values.data();
    uint64_t i = 0;
    for (uint64_t row = 0; row < chunk.lengths.size(); ++row) {
        for (const uint64_t end = i + chunk.lengths[row]; i < end; ++i) {
            if (i + kAhead < count) __builtin_prefetch(rows + fill[features[i + kAhead]], 1);
            const uint64_t place = fill[features[i]]++;
            rows[place] = static_cast<uint32_t>(first_row + row);
            if (values != nullptr) values[place] = chunk.values.empty() ? 1.0F : chunk.values[i];
        }
    }
}

/// A zeroed list for random access, in huge pages if the system has some free.
template <class T>
std::vector<T> make_large(uint64_t count) {
    constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
    std::vector<T> list;
    list.reserve(count);
    const auto begin = (reinterpret_cast<uintptr_t>(list.data()) + kHugePageBytes - 1) /
                       kHugePageBytes * kHugePageBytes;
    const auto end =
        reinterpret_cast<uintptr_t>(list.data() + count) / kHugePageBytes * kHugePageBytes;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the pages inside the list
    if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
    list.resize(count);
    return list;
}

template <class T>
uint64_t bytes_of(const std::vector<T>& list) {
    return list.size() * sizeof(T);
}

}  // namespace

uint64_t FeatureMatrix::data_bytes() const noexcept {
    return bytes_of(keys) + bytes_of(offsets) + bytes_of(rows) + bytes_of(values) +
           bytes_of(labels) + bytes_of(targets) + bytes_of(group_begin);
}

ColumnOrder order_columns(std::vector<uint64_t>&& keys, const FeatureGroups& groups) {
    const std::vector<uint32_t> order = sorted_order(keys);
    ColumnOrder result;
    std::vector<uint32_t>& column_of = result.column_of;  // first the group, then the column
    column_of.resize(keys.size());
    std::vector<uint64_t> begin(groups.count + 1, 0);
    for (uint64_t i = 0; i < keys.size(); ++i) {
        column_of[i] = groups.of(keys[i]);
        WEIR_CHECK(column_of[i] < groups.count);
        ++begin[column_of[i] + 1];
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    result.group_begin = begin;
    result.keys.resize(keys.size());
    for (const uint32_t index : order) {
        const uint64_t column = begin[column_of[index]]++;
        result.keys[column] = keys[index];
        column_of[index] = static_cast<uint32_t>(column);
    }
    return result;
}

FeatureMatrix make_feature_matrix(Examples&& examples, const FeatureGroups& groups) {
    FeatureMatrix matrix;
    ColumnOrder order = order_columns(std::exchange(examples.keys, {}), groups);
    matrix.keys = std::move(order.keys);
    matrix.group_begin = std::move(order.group_begin);
    const std::vector<uint32_t> column_of = std::move(order.column_of);
    std::vector<uint64_t> fill = lay_out(examples, column_of, matrix);
    uint64_t row_count = 0;
    bool all_ones = true;
    for (const RowChunk& chunk : examples.chunks) {
        row_count += chunk.labels.size();
        all_ones = all_ones && chunk.values.empty();
    }
    matrix.rows = make_large<uint32_t>(matrix.offsets.back());
    if (!all_ones) matrix.values = make_large<float>(matrix.offsets.back());
    matrix.labels.reserve(row_count);
    for (RowChunk& chunk : examples.chunks) {
        scatter(chunk, static_cast<uint32_t>(matrix.labels.size()), fill, matrix);
        matrix.labels.insert(matrix.labels.end(), chunk.labels.begin(), chunk.labels.end());
        matrix.targets.insert(matrix.targets.end(), chunk.numbers.begin(), chunk.numbers.end());
        chunk = {};
    }
    examples.chunks.clear();
    return matrix;
}

}  // namespace weir::data
