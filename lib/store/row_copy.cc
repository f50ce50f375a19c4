// SPDX-License-Identifier: Apache-2.0
#include "lib/store/row_copy.h"

#include <algorithm>
#include <cstring>

#include "lib/base/kernel.h"
#include "lib/store/rules/rule_kernels.h"

namespace weir {
namespace {

/// `kRemember`: keeps a row's address from prefetch to copy, because computing it again takes
/// longer.
template <class Word, bool kRemember, class Places>
inline void copy_from_places(Places place, std::span<const uint32_t> rows,
                             std::byte* out) noexcept {
    constexpr size_t kAhead = kernels::kRowsAhead;
    const size_t count = rows.size();
    const std::byte* at[kAhead];
    const auto ask = [&](size_t i) {
        const std::byte* row = place(rows[i]);
        __builtin_prefetch(row);
        if constexpr (kRemember) at[i % kAhead] = row;
    };
    const auto copy = [&](size_t i) {
        const std::byte* row = nullptr;
        if constexpr (kRemember) {
            row = at[i % kAhead];
        } else {
            row = place(rows[i]);
        }
        std::memcpy(out + i * sizeof(Word), row, sizeof(Word));
    };
    for (size_t i = 0; i < std::min(kAhead, count); ++i)
        ask(i);
    size_t i = 0;
    for (; i + kAhead < count; ++i) {
        copy(i);
        ask(i + kAhead);
    }
    for (; i < count; ++i)
        copy(i);
}

/// Copies one value of 2, 4 or 8 bytes per row.
template <class Word>
WEIR_KERNEL void copy_words(const RowView& view, std::span<const uint32_t> rows,
                            const std::byte* missing, std::byte* out) noexcept {
    const RowView local = view;
    uint32_t any_missing = 0;
    for (const uint32_t row : rows)
        any_missing |= static_cast<uint32_t>(row == kNoRow);
    if (any_missing != 0) {
        copy_from_places<Word, true>(
            [&](uint32_t row) { return row == kNoRow ? missing : local.at(row); }, rows, out);
    } else if (local.flat != nullptr && local.stride_bytes == sizeof(Word)) {
        copy_from_places<Word, false>([&](uint32_t row) { return local.flat + row * sizeof(Word); },
                                      rows, out);
    } else {
        copy_from_places<Word, true>([&](uint32_t row) { return local.at(row); }, rows, out);
    }
}

void copy_wide(const RowView& view, std::span<const uint32_t> rows, size_t bytes,
               const std::byte* missing, std::byte* out) noexcept {
    const auto ask = [&](size_t i) {
        if (rows[i] != kNoRow) kernels::prefetch_row(view.at(rows[i]), bytes);
    };
    const size_t ahead = std::min(rows.size(), kernels::wide_rows_ahead(bytes));
    for (size_t i = 0; i < ahead; ++i)
        ask(i);
    for (size_t i = 0; i < rows.size(); ++i) {
        if (i + ahead < rows.size()) ask(i + ahead);
        const std::byte* row = rows[i] == kNoRow ? missing : view.at(rows[i]);
        std::memcpy(out + i * bytes, row, bytes);
    }
}

/// Writes one value of 2, 4 or 8 bytes per row.
template <class Word>
WEIR_KERNEL void put_words(const RowView& view, std::span<const uint32_t> rows,
                           const std::byte* in) noexcept {
    constexpr size_t kAhead = kernels::kRowsAhead;
    const RowView local = view;
    std::byte* at[kAhead];
    const auto ask = [&](size_t i) {
        at[i % kAhead] = local.at(rows[i]);
        __builtin_prefetch(at[i % kAhead], 1);
    };
    const auto put = [&](size_t i) {
        std::memcpy(at[i % kAhead], in + i * sizeof(Word), sizeof(Word));
    };
    const size_t count = rows.size();
    for (size_t i = 0; i < std::min(kAhead, count); ++i)
        ask(i);
    size_t i = 0;
    for (; i + kAhead < count; ++i) {
        put(i);
        ask(i + kAhead);
    }
    for (; i < count; ++i)
        put(i);
}

void put_wide(const RowView& view, std::span<const uint32_t> rows, size_t bytes,
              const std::byte* in) noexcept {
    const auto ask = [&](size_t i) { kernels::prefetch_row(view.at(rows[i]), bytes); };
    const size_t ahead = std::min(rows.size(), kernels::wide_rows_ahead(bytes));
    for (size_t i = 0; i < ahead; ++i)
        ask(i);
    for (size_t i = 0; i < rows.size(); ++i) {
        if (i + ahead < rows.size()) ask(i + ahead);
        std::memcpy(view.at(rows[i]), in + i * bytes, bytes);
    }
}

/// The bits in which `rows` differ from first, first + 1, ...; 0 if there are none.
WEIR_KERNEL uint32_t differs(const uint32_t* rows, size_t count, uint32_t first) noexcept {
    uint32_t difference = 0;
    for (size_t i = 0; i < count; ++i)
        difference |= rows[i] ^ (first + static_cast<uint32_t>(i));
    return difference;
}

}  // namespace

void copy_rows(const RowView& view, std::span<const uint32_t> rows, size_t bytes,
               const std::byte* missing, std::byte* out) noexcept {
    constexpr size_t kChunk = 4096;  // row numbers stay in cache after the search for kNoRow
    for (size_t begin = 0; begin < rows.size(); begin += kChunk) {
        const auto some = rows.subspan(begin, std::min(kChunk, rows.size() - begin));
        if (bytes == sizeof(uint32_t)) {
            copy_words<uint32_t>(view, some, missing, out);
        } else if (bytes == sizeof(uint64_t)) {
            copy_words<uint64_t>(view, some, missing, out);
        } else if (bytes == sizeof(uint16_t)) {
            copy_words<uint16_t>(view, some, missing, out);
        } else {
            copy_wide(view, some, bytes, missing, out);
        }
        out += some.size() * bytes;
    }
}

void copy_run(const RowView& view, RowStore::Run run, size_t bytes, std::byte* out) noexcept {
    while (run.row_count > 0) {
        const uint32_t some = std::min(run.row_count, view.run(run.first_row));
        const std::byte* const from = view.at(run.first_row);
        if (view.stride_bytes == bytes) {
            std::memcpy(out, from, some * bytes);
        } else {
            for (size_t i = 0; i < some; ++i)
                std::memcpy(out + i * bytes, from + i * view.stride_bytes, bytes);
        }
        out += some * bytes;
        run.first_row += some;
        run.row_count -= some;
    }
}

void put_rows(const RowView& view, std::span<const uint32_t> rows, size_t bytes,
              const std::byte* in) noexcept {
    constexpr size_t kRunRowsMin = 16;
    constexpr size_t kChunk = 1024;  // where rows are scattered; behind them there may be a run
    while (!rows.empty()) {
        const bool is_run = view.stride_bytes == bytes && rows.size() >= kRunRowsMin &&
                            rows[kRunRowsMin - 1] == rows[0] + kRunRowsMin - 1;
        size_t some = std::min(kChunk, rows.size());
        if (is_run) {
            some = std::min<size_t>(consecutive_rows(rows), view.run(rows[0]));
            std::memcpy(view.at(rows[0]), in, some * bytes);
        } else if (bytes == sizeof(uint32_t)) {
            put_words<uint32_t>(view, rows.first(some), in);
        } else if (bytes == sizeof(uint64_t)) {
            put_words<uint64_t>(view, rows.first(some), in);
        } else if (bytes == sizeof(uint16_t)) {
            put_words<uint16_t>(view, rows.first(some), in);
        } else {
            put_wide(view, rows.first(some), bytes, in);
        }
        rows = rows.subspan(some);
        in += some * bytes;
    }
}

size_t consecutive_rows(std::span<const uint32_t> rows) noexcept {
    if (rows.empty()) return 0;
    if (rows[0] == kNoRow) return 1;
    constexpr size_t kBlock = 256;
    size_t done = 0;
    while (done + kBlock <= rows.size() &&
           differs(rows.data() + done, kBlock, rows[0] + static_cast<uint32_t>(done)) == 0) {
        done += kBlock;
    }
    done = std::max<size_t>(done, 1);
    while (done < rows.size() && rows[done] == rows[0] + done && rows[done] != kNoRow)
        ++done;
    return done;
}

}  // namespace weir
