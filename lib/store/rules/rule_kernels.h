// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The kernels of a rule, made from its update(): over values side by side, and over scattered
/// rows.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/kernel.h"
#include "lib/base/sum_of_terms.h"
#include "lib/store/rules/rule.h"

namespace weir::kernels {

/// How many rows ahead the kernels for scattered rows prefetch: enough to keep a core's line fill
/// buffers busy.
inline constexpr size_t kRowsAhead = 32;

inline constexpr size_t kLineBytes = 64;

/// Prefetches all lines of a row, up to 1 KiB. The processor's own prefetcher continues behind
/// those, but starts too late for rows of a few lines.
inline void prefetch_row(const std::byte* row, size_t bytes) noexcept {
    constexpr size_t kBytesMax = 1024;
    const std::byte* const end = row + std::min(bytes, kBytesMax);
    for (; row < end; row += kLineBytes)
        __builtin_prefetch(row, 1);
    __builtin_prefetch(end - 1, 1);  // a row may begin inside a line
}

/// Where the values and the state of wide rows are. In a sparse table they are one piece of memory.
class WideRows {
public:
    WideRows(const RowTarget& target, size_t value_bytes, size_t state_bytes) noexcept
        : values_(target.values),
          state_(target.state),
          value_bytes_(value_bytes),
          state_bytes_(state_bytes),
          is_one_piece_(target.state.granules == target.values.granules &&
                        target.state.offset_bytes == target.values.offset_bytes + value_bytes) {}

    struct Row {
        std::byte* values;
        std::byte* state;
    };

    [[nodiscard]] Row at(uint32_t row) const noexcept {
        std::byte* const values = values_.at(row);
        if (state_bytes_ == 0) return {values, nullptr};
        return {values, is_one_piece_ ? values + value_bytes_ : state_.at(row)};
    }

    void prefetch(uint32_t row) const noexcept {
        const Row its = at(row);
        prefetch_row(its.values, value_bytes_ + (is_one_piece_ ? state_bytes_ : 0));
        if (state_bytes_ != 0 && !is_one_piece_) prefetch_row(its.state, state_bytes_);
    }

private:
    RowView values_;
    RowView state_;
    size_t value_bytes_;
    size_t state_bytes_;
    bool is_one_piece_;
};

/// How many wide rows ahead to prefetch: as many lines as for narrow rows, or a few more.
constexpr size_t wide_rows_ahead(size_t row_bytes) noexcept {
    constexpr size_t kLinesAhead = 64;
    return std::clamp<size_t>(kLinesAhead / (row_bytes / kLineBytes + 1), 4, kRowsAhead);
}

/// Updates values side by side. Only parameters that are `__restrict` tell the compiler that values,
/// state and what was pushed lie apart; with locals of a loop's body it does not make vectors.
template <ElementwiseRule R, class T>
inline void update_values(T* __restrict values, T* __restrict state, const T* __restrict pushed,
                          size_t value_count, const RuleContext& context) {
    for (size_t i = 0; i < value_count; ++i)
        R::update(values[i], state + i * R::kStateValues, pushed + i * R::kPushedValues, context);
}

template <ElementwiseRule R, class T>
WEIR_KERNEL [[gnu::flatten]] void update_run(std::byte* values, std::byte* state,
                                             const std::byte* pushed, size_t row_count,
                                             uint32_t width, const RuleContext& context) {
    const RuleContext local = context;
    update_values<R, T>(reinterpret_cast<T*>(values), reinterpret_cast<T*>(state),
                        reinterpret_cast<const T*>(pushed), row_count * width, local);
}

/// The two ways to find rows of one value. The flat one is so quick that computing an address
/// again is cheaper than keeping it since its prefetch.
template <class T>
struct FlatPlaces {
    static constexpr bool kRemember = false;
    std::byte* first;
    size_t stride_bytes;

    T* operator()(uint32_t row) const noexcept {
        return reinterpret_cast<T*>(first + row * stride_bytes);
    }
};

template <class T>
struct GranulePlaces {
    static constexpr bool kRemember = true;
    RowView view;

    T* operator()(uint32_t row) const noexcept { return reinterpret_cast<T*>(view.at(row)); }
};

template <ElementwiseRule R, class T, class Places>
inline void update_places(Places values, Places state, std::span<const uint32_t> rows,
                          const std::byte* pushed, const RuleContext& context) {
    const uint32_t* row = rows.data();
    const size_t count = rows.size();
    const T* p = reinterpret_cast<const T*>(pushed);
    T* value_at[kRowsAhead];
    T* state_at[kRowsAhead];
    const auto ask = [&](size_t i) {
        T* v = values(row[i]);
        __builtin_prefetch(v, 1);
        if constexpr (Places::kRemember) value_at[i % kRowsAhead] = v;
        if constexpr (R::kStateValues > 0) {
            T* s = state(row[i]);
            __builtin_prefetch(s, 1);
            if constexpr (Places::kRemember) state_at[i % kRowsAhead] = s;
        }
    };
    const auto apply = [&](size_t i) {
        T* v = nullptr;
        T* s = nullptr;
        if constexpr (Places::kRemember) {
            v = value_at[i % kRowsAhead];
            if constexpr (R::kStateValues > 0) s = state_at[i % kRowsAhead];
        } else {
            v = values(row[i]);
            if constexpr (R::kStateValues > 0) s = state(row[i]);
        }
        R::update(*v, s, p + i * R::kPushedValues, context);
    };
    for (size_t i = 0; i < std::min(kRowsAhead, count); ++i)
        ask(i);
    size_t i = 0;
    for (; i + kRowsAhead < count; ++i) {
        apply(i);
        ask(i + kRowsAhead);
    }
    for (; i < count; ++i)
        apply(i);
}

/// Rows of one value each, the most frequent kind.
template <ElementwiseRule R, class T>
WEIR_KERNEL void update_single_values(const RowTarget& target, std::span<const uint32_t> rows,
                                      const std::byte* pushed, const RuleContext& context) {
    const RuleContext local = context;
    RowView values = target.values;
    RowView state = target.state;
    if constexpr (R::kStateValues == 0)
        values.stride_bytes = sizeof(T);  // now the compiler knows it
    if (values.flat != nullptr && (R::kStateValues == 0 || state.flat != nullptr)) {
        update_places<R, T>(FlatPlaces<T>{values.flat, values.stride_bytes},
                            FlatPlaces<T>{state.flat, state.stride_bytes}, rows, pushed, local);
    } else {
        update_places<R, T>(GranulePlaces<T>{values}, GranulePlaces<T>{state}, rows, pushed, local);
    }
}

template <ElementwiseRule R, class T>
WEIR_KERNEL [[gnu::flatten]] void update_wide_rows(const RowTarget& target,
                                                   std::span<const uint32_t> rows,
                                                   const std::byte* pushed,
                                                   const RuleContext& context) {
    const RuleContext local = context;
    const size_t width = target.width;
    const size_t value_bytes = width * sizeof(T);
    const WideRows at(target, value_bytes, value_bytes * R::kStateValues);
    const T* p = reinterpret_cast<const T*>(pushed);
    const size_t ahead =
        std::min(rows.size(), wide_rows_ahead(value_bytes * (1 + R::kStateValues)));
    for (size_t r = 0; r < ahead; ++r)
        at.prefetch(rows[r]);
    for (size_t r = 0; r < rows.size(); ++r) {
        if (r + ahead < rows.size()) at.prefetch(rows[r + ahead]);
        const WideRows::Row row = at.at(rows[r]);
        update_values<R, T>(reinterpret_cast<T*>(row.values), reinterpret_cast<T*>(row.state), p,
                            width, local);
        p += width * R::kPushedValues;
    }
}

template <ElementwiseRule R, class T>
void update_rows(const RowTarget& target, std::span<const uint32_t> rows, const std::byte* pushed,
                 const RuleContext& context) {
    // Without state, rows of one value lie side by side, unless they have stamps.
    const bool is_known = R::kStateValues > 0 || target.values.stride_bytes == sizeof(T);
    if (target.width == 1 && is_known) {
        update_single_values<R, T>(target, rows, pushed, context);
    } else {
        update_wide_rows<R, T>(target, rows, pushed, context);
    }
}

/// The state of a row, rounded up so that what follows it is aligned.
template <RowRule R, class T>
constexpr size_t row_state_bytes(size_t width) {
    return (R::template state_bytes<T>(width) + sizeof(T) - 1) / sizeof(T) * sizeof(T);
}

/// Calls update_row() for rows that lie side by side. `flatten`: everything that a rule calls becomes
/// part of the kernel, and so uses the vectors that it may use.
template <RowRule R, class T>
WEIR_KERNEL [[gnu::flatten]] void update_row_run(std::byte* values, std::byte* state,
                                                 const std::byte* pushed, size_t row_count,
                                                 uint32_t width, const RuleContext& context) {
    const RuleContext local = context;
    if constexpr (UpdatesSingles<R, T>) {
        if (width == 1)
            return R::update_singles(reinterpret_cast<T*>(values), state,
                                     reinterpret_cast<const T*>(pushed), row_count, local);
    }
    const size_t state_bytes = row_state_bytes<R, T>(width);
    RuleRow<T> row{.values = reinterpret_cast<T*>(values),
                   .state = state,
                   .pushed = reinterpret_cast<const T*>(pushed),
                   .width = width};
    for (size_t r = 0; r < row_count; ++r) {
        if constexpr (WantsKeys<R>) row.key = *local.at = local.keys[r];
        R::update_row(row, local);
        row.values += width;
        row.state += state_bytes;
        row.pushed += size_t{width} * R::kPushedValues;
    }
}

template <RowRule R, class T>
WEIR_KERNEL [[gnu::flatten]] void update_whole_rows(const RowTarget& target,
                                                    std::span<const uint32_t> rows,
                                                    const std::byte* pushed,
                                                    const RuleContext& context) {
    const RuleContext local = context;
    const uint32_t width = target.width;
    const size_t value_bytes = width * sizeof(T);
    const size_t state_bytes = row_state_bytes<R, T>(width);
    const WideRows at(target, value_bytes, state_bytes);
    const size_t ahead = std::min(rows.size(), wide_rows_ahead(value_bytes + state_bytes));
    for (size_t r = 0; r < ahead; ++r)
        at.prefetch(rows[r]);
    RuleRow<T> row{.pushed = reinterpret_cast<const T*>(pushed), .width = width};
    for (size_t r = 0; r < rows.size(); ++r) {
        if (r + ahead < rows.size()) at.prefetch(rows[r + ahead]);
        const WideRows::Row its = at.at(rows[r]);
        row.values = reinterpret_cast<T*>(its.values);
        row.state = its.state;
        if constexpr (WantsKeys<R>) row.key = *local.at = local.keys[r];
        R::update_row(row, local);
        row.pushed += size_t{width} * R::kPushedValues;
    }
}

/// As RuleEntry::Penalty.
template <class R, class T>
[[gnu::flatten]] double penalty(const std::byte* values, size_t count, const RuleParameters& p) {
    const T* const of = reinterpret_cast<const T*>(values);
    return sum_of_terms<double>(
        0, count, [&](size_t i) { return R::penalty(static_cast<double>(of[i]), p); });
}

template <UpdateRule R, class T>
[[nodiscard]] RuleKernels make() {
    if constexpr (!R::template kSupports<T>) {
        return {};
    } else if constexpr (RowRule<R>) {
        return {&update_row_run<R, T>, &update_whole_rows<R, T>, &row_state_bytes<R, T>};
    } else {
        return {&update_run<R, T>, &update_rows<R, T>,
                [](size_t width) { return width * R::kStateValues * sizeof(T); }};
    }
}

}  // namespace weir::kernels
