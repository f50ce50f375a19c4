// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Sparse matrices by rows (CSR) and by columns (CSC), as views of arrays and with arrays of their own, and their
/// products with vectors and matrices.
///
/// The columns of X are numbers from 0 on, and the values of w lie in that order: where the columns stand for keys
/// of a table, in ascending order, w is what was pulled for these.
///
/// ```cpp
/// weir::linalg::multiply(x, w, margins, &threads);               // margins = X w
/// weir::linalg::multiply_transposed(x, slopes, gradient);        // gradient = X^T slopes
/// weir::linalg::multiply(weir::linalg::scaled(x.block(0, 1000), factors), w, margins);
/// ```

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "lib/base/check.h"
#include "lib/linalg/threads.h"
#include "lib/linalg/vector_expression.h"

namespace weir::linalg {

/// Lines of non-zeros: line l has values[k] at place places[k], for k from offsets[l] to offsets[l + 1] - 1.
template <class T, class Index, class Offset>
struct SparseLines {
    std::span<const Offset> offsets;  ///< one more than lines
    std::span<const Index> places;
    std::span<const T> values{};  ///< empty: all are 1
    size_t place_count = 0;

    [[nodiscard]] size_t line_count() const noexcept {
        return offsets.empty() ? 0 : offsets.size() - 1;
    }

    [[nodiscard]] size_t nonzero_count() const noexcept {
        return offsets.empty() ? 0 : static_cast<size_t>(offsets.back() - offsets.front());
    }

    [[nodiscard]] SparseLines some(size_t begin, size_t end) const noexcept {
        return {offsets.subspan(begin, end - begin + 1), places, values, place_count};
    }
};

/// What both views have.
template <class T, class Index, class Offset>
struct SparseView {
    SparseLines<T, Index, Offset> lines;

    SparseView() = default;

    SparseView(std::span<const Offset> offsets, std::span<const Index> places,
               std::span<const T> values, size_t place_count) noexcept
        : lines{offsets, places, values, place_count} {}

    explicit SparseView(const SparseLines<T, Index, Offset>& of) noexcept : lines(of) {}
};

/// A matrix by rows: the places of a row are its columns.
template <class T, class Index = int32_t, class Offset = Index>
struct RowsView : SparseView<T, Index, Offset> {
    using SparseView<T, Index, Offset>::SparseView;

    [[nodiscard]] size_t row_count() const noexcept { return this->lines.line_count(); }

    [[nodiscard]] size_t column_count() const noexcept { return this->lines.place_count; }

    /// Rows begin .. end - 1.
    [[nodiscard]] RowsView block(size_t begin, size_t end) const noexcept {
        return RowsView(this->lines.some(begin, end));
    }
};

/// A matrix by columns: the places of a column are its rows.
template <class T, class Index = int32_t, class Offset = Index>
struct ColumnsView : SparseView<T, Index, Offset> {
    using SparseView<T, Index, Offset>::SparseView;

    [[nodiscard]] size_t row_count() const noexcept { return this->lines.place_count; }

    [[nodiscard]] size_t column_count() const noexcept { return this->lines.line_count(); }

    /// Columns begin .. end - 1.
    [[nodiscard]] ColumnsView block(size_t begin, size_t end) const noexcept {
        return ColumnsView(this->lines.some(begin, end));
    }
};

/// As scaled() makes it.
template <class M, class S>
struct ScaledColumns {
    M matrix;
    std::span<const S> factors;
};

/// X with column j times factors[j], read where both lie.
/// Shape: factors.size() == X's columns
template <class M, class R>
[[nodiscard]] auto scaled(const M& x, const R& factors) noexcept {
    return ScaledColumns<M, std::remove_cvref_t<decltype(std::span(factors)[0])>>{x, factors};
}

namespace kernels {

/// What takes no more is in a cache soon, and prefetching it costs more than it brings.
inline constexpr size_t kCachedBytes = size_t{256} << 10;
inline constexpr size_t kNonzerosAhead = 24;               ///< that are prefetched
inline constexpr size_t kLeastNonzeros = size_t{1} << 14;  ///< less are not worth a thread

/// to[l] = the sum over line l of value * from[place].
template <bool kPrefetches, class T, class Index, class Offset, class V, class W>
void gather(const SparseLines<T, Index, Offset>& lines, const V* from, W* to) {
    const Index* const places = lines.places.data();
    const T* const values = lines.values.data();
    const auto last = static_cast<size_t>(lines.offsets.back());
    const auto sum_of_line = [&](size_t begin, size_t end, const auto& term) {
        double sums[2] = {};
        size_t k = begin;
        for (; k + 2 <= end; k += 2) {
            if constexpr (kPrefetches) {
                if (k + kNonzerosAhead + 1 < last) {
                    __builtin_prefetch(from + places[k + kNonzerosAhead]);
                    __builtin_prefetch(from + places[k + kNonzerosAhead + 1]);
                }
            }
            sums[0] += static_cast<double>(term(k));
            sums[1] += static_cast<double>(term(k + 1));
        }
        if (k < end) sums[0] += static_cast<double>(term(k));
        return sums[0] + sums[1];
    };
    for (size_t l = 0; l < lines.line_count(); ++l) {
        const auto begin = static_cast<size_t>(lines.offsets[l]);
        const auto end = static_cast<size_t>(lines.offsets[l + 1]);
        const double sum =
            values == nullptr
                ? sum_of_line(begin, end, [&](size_t k) { return from[places[k]]; })
                : sum_of_line(begin, end, [&](size_t k) { return values[k] * from[places[k]]; });
        to[l] = static_cast<W>(sum);
    }
}

/// to[place] += value * from[l], for each non-zero of line l.
template <bool kPrefetches, class T, class Index, class Offset, class V, class W>
void scatter(const SparseLines<T, Index, Offset>& lines, const V* from, W* to) {
    const Index* const places = lines.places.data();
    const T* const values = lines.values.data();
    const auto last = static_cast<size_t>(lines.offsets.back());
    const auto add_line = [&](size_t begin, size_t end, const auto& term) {
        for (size_t k = begin; k < end; ++k) {
            if constexpr (kPrefetches) {
                if (k + kNonzerosAhead < last)
                    __builtin_prefetch(to + places[k + kNonzerosAhead], 1);
            }
            to[places[k]] += term(k);
        }
    };
    for (size_t l = 0; l < lines.line_count(); ++l) {
        const auto factor = static_cast<W>(from[l]);
        const auto begin = static_cast<size_t>(lines.offsets[l]);
        const auto end = static_cast<size_t>(lines.offsets[l + 1]);
        if (values == nullptr) {
            add_line(begin, end, [&](size_t) { return factor; });
        } else {
            add_line(begin, end, [&](size_t k) { return static_cast<W>(values[k]) * factor; });
        }
    }
}

/// Lines in parts of about as many non-zeros.
template <class Lines, class Work>
void split_lines(const Lines& lines, Threads* threads, const Work& work) {
    const size_t nonzeros = lines.nonzero_count();
    const size_t parts = threads == nullptr ? 1 : threads->parts_of(nonzeros, kLeastNonzeros);
    if (parts <= 1) return work(size_t{0}, lines.line_count(), uint32_t{0});
    const auto line_at = [&](size_t part) {
        if (part == parts) return lines.line_count();
        const auto wanted = static_cast<size_t>(lines.offsets.front()) + nonzeros * part / parts;
        return static_cast<size_t>(
            std::ranges::lower_bound(lines.offsets.first(lines.line_count()), wanted, {},
                                     [](auto offset) { return static_cast<size_t>(offset); }) -
            lines.offsets.begin());
    };
    threads->run([&](uint32_t part) {
        if (part < parts) work(line_at(part), line_at(part + 1), part);
    });
}

template <class T, class Index, class Offset, class V, class W>
void gather_all(const SparseLines<T, Index, Offset>& lines, std::span<const V> from,
                std::span<W> to, Threads* threads) {
    WEIR_CHECK(from.size() == lines.place_count && to.size() == lines.line_count());
    if (to.empty()) return;
    split_lines(lines, threads, [&](size_t begin, size_t end, uint32_t) {
        if (begin == end) return;
        const auto some = lines.some(begin, end);
        from.size_bytes() > kCachedBytes ? gather<true>(some, from.data(), to.data() + begin)
                                         : gather<false>(some, from.data(), to.data() + begin);
    });
}

template <class T, class Index, class Offset, class V, class W>
void scatter_all(const SparseLines<T, Index, Offset>& lines, std::span<const V> from,
                 std::span<W> to, Threads* threads) {
    WEIR_CHECK(from.size() == lines.line_count() && to.size() == lines.place_count);
    std::ranges::fill(to, W{0});
    if (from.empty()) return;
    // All but the first part add to memory of their own.
    std::vector<std::vector<W>> others(threads == nullptr ? 1 : threads->count());
    split_lines(lines, threads, [&](size_t begin, size_t end, uint32_t part) {
        if (begin == end) return;
        if (part > 0) others[part].resize(to.size());
        const auto some = lines.some(begin, end);
        W* const mine = part == 0 ? to.data() : others[part].data();
        to.size_bytes() > kCachedBytes ? scatter<true>(some, from.data() + begin, mine)
                                       : scatter<false>(some, from.data() + begin, mine);
    });
    const bool has_others =
        std::ranges::any_of(others, [](const auto& one) { return !one.empty(); });
    if (!has_others) return;
    split_over(threads, to.size(), kLeastNonzeros, [&](size_t begin, size_t end, uint32_t) {
        for (const std::vector<W>& one : others) {
            for (size_t i = begin; i < end && !one.empty(); ++i)
                to[i] += one[i];
        }
    });
}

template <class V, class S>
[[nodiscard]] std::vector<V> times(std::span<const V> values, std::span<const S> factors) {
    WEIR_CHECK(values.size() == factors.size());
    std::vector<V> products(values.size());
    for (size_t i = 0; i < values.size(); ++i)
        products[i] = static_cast<V>(values[i] * factors[i]);
    return products;
}

}  // namespace kernels

/// A Vector, or any contiguous range of numbers.
template <class R>
concept Numbers = requires(R& r) {
    std::span(r);
}

|| requires(R& r) {
    std::span(r.values());
    r.has_one_list();  // so it is no Matrix
};

namespace kernels {

template <Numbers R>
[[nodiscard]] auto span_of(R& r) {
    if constexpr (requires { std::span(r); }) {
        return std::span(r);
    } else {
        return std::span(r.values());
    }
}

/// The same, to be read.
template <Numbers R>
[[nodiscard]] auto read_span_of(const R& r) {
    const auto values = span_of(r);
    return std::span<const typename decltype(values)::element_type>(values);
}

}  // namespace kernels

// X w and X^T g, of vectors or any contiguous ranges. `threads`: null: the caller's alone. Each thread but one needs
// memory as the result's where the lines of X run across it: X w by columns, X^T g by rows.
//
// Shape: w.size() == X's columns, g.size() == X's rows; and the result's

template <class T, class Index, class Offset, Numbers In, Numbers Out>
void multiply(const RowsView<T, Index, Offset>& x, const In& w, Out&& out,
              Threads* threads = nullptr) {
    kernels::gather_all(x.lines, kernels::read_span_of(w), kernels::span_of(out), threads);
}

template <class T, class Index, class Offset, Numbers In, Numbers Out>
void multiply(const ColumnsView<T, Index, Offset>& x, const In& w, Out&& out,
              Threads* threads = nullptr) {
    kernels::scatter_all(x.lines, kernels::read_span_of(w), kernels::span_of(out), threads);
}

template <class T, class Index, class Offset, Numbers In, Numbers Out>
void multiply_transposed(const RowsView<T, Index, Offset>& x, const In& g, Out&& out,
                         Threads* threads = nullptr) {
    kernels::scatter_all(x.lines, kernels::read_span_of(g), kernels::span_of(out), threads);
}

template <class T, class Index, class Offset, Numbers In, Numbers Out>
void multiply_transposed(const ColumnsView<T, Index, Offset>& x, const In& g, Out&& out,
                         Threads* threads = nullptr) {
    kernels::gather_all(x.lines, kernels::read_span_of(g), kernels::span_of(out), threads);
}

template <class M, class S, Numbers In, Numbers Out>
void multiply(const ScaledColumns<M, S>& x, const In& w, Out&& out, Threads* threads = nullptr) {
    multiply(x.matrix, kernels::times(kernels::read_span_of(w), x.factors), out, threads);
}

template <class M, class S, Numbers In, Numbers Out>
void multiply_transposed(const ScaledColumns<M, S>& x, const In& g, Out&& out,
                         Threads* threads = nullptr) {
    multiply_transposed(x.matrix, g, out, threads);
    const auto values = kernels::span_of(out);
    using W = typename decltype(values)::element_type;
    for (size_t j = 0; j < values.size(); ++j)
        values[j] = static_cast<W>(values[j] * x.factors[j]);
}

/// X W, where W has a row for each column of X: as a table of vectors that was pulled.
template <class T, class Index, class Offset, class V, class W>
void multiply(const RowsView<T, Index, Offset>& x, const Matrix<V>& w, const Matrix<W>& out,
              Threads* threads = nullptr) {
    WEIR_CHECK(w.row_count() == x.column_count() && out.row_count() == x.row_count() &&
               w.width() == out.width());
    const auto& lines = x.lines;
    const size_t width = w.width();
    kernels::split_lines(lines, threads, [&](size_t begin, size_t end, uint32_t) {
        for (size_t l = begin; l < end; ++l) {
            const std::span<W> to = out.row(l);
            std::ranges::fill(to, W{0});
            const auto last = static_cast<size_t>(lines.offsets[l + 1]);
            for (auto k = static_cast<size_t>(lines.offsets[l]); k < last; ++k) {
                const auto factor = lines.values.empty() ? W{1} : static_cast<W>(lines.values[k]);
                const V* const from =
                    w.values().data() + static_cast<size_t>(lines.places[k]) * width;
                for (size_t c = 0; c < width; ++c)
                    to[c] += factor * static_cast<W>(from[c]);
            }
        }
    });
}

/// A sparse matrix with arrays of its own.
template <class View>
struct SparseArrays;

template <template <class, class, class> class View, class T, class Index, class Offset>
struct SparseArrays<View<T, Index, Offset>> {
    std::vector<Offset> offsets{0};
    std::vector<Index> places;
    std::vector<T> values;  ///< empty: all are 1
    size_t place_count = 0;

    [[nodiscard]] View<T, Index, Offset> view() const noexcept {
        return {offsets, places, values, place_count};
    }
};

template <class T, class Index = int32_t, class Offset = Index>
using SparseRows = SparseArrays<RowsView<T, Index, Offset>>;
template <class T, class Index = int32_t, class Offset = Index>
using SparseColumns = SparseArrays<ColumnsView<T, Index, Offset>>;

namespace kernels {

/// The same non-zeros by their places.
template <class Turned, class T, class Index, class Offset>
[[nodiscard]] Turned turn(const SparseLines<T, Index, Offset>& lines) {
    Turned turned;
    turned.place_count = lines.line_count();
    turned.offsets.assign(lines.place_count + 1, 0);
    const auto begin = lines.offsets.empty() ? 0 : static_cast<size_t>(lines.offsets.front());
    const size_t end = begin + lines.nonzero_count();
    for (size_t k = begin; k < end; ++k)
        ++turned.offsets[static_cast<size_t>(lines.places[k]) + 1];
    for (size_t i = 1; i < turned.offsets.size(); ++i)
        turned.offsets[i] += turned.offsets[i - 1];
    turned.places.resize(end - begin);
    if (!lines.values.empty()) turned.values.resize(end - begin);
    std::vector<Offset> next(turned.offsets.begin(), turned.offsets.end() - 1);
    for (size_t l = 0; l < lines.line_count(); ++l) {
        const auto last = static_cast<size_t>(lines.offsets[l + 1]);
        for (auto k = static_cast<size_t>(lines.offsets[l]); k < last; ++k) {
            const auto to = static_cast<size_t>(next[static_cast<size_t>(lines.places[k])]++);
            turned.places[to] = static_cast<Index>(l);
            if (!lines.values.empty()) turned.values[to] = lines.values[k];
        }
    }
    return turned;
}

}  // namespace kernels

/// The same matrix, by columns; rows of a column ascend.
template <class T, class Index, class Offset>
[[nodiscard]] SparseColumns<T, Index, Offset> by_columns(const RowsView<T, Index, Offset>& x) {
    return kernels::turn<SparseColumns<T, Index, Offset>>(x.lines);
}

/// The same matrix, by rows; columns of a row ascend.
template <class T, class Index, class Offset>
[[nodiscard]] SparseRows<T, Index, Offset> by_rows(const ColumnsView<T, Index, Offset>& x) {
    return kernels::turn<SparseRows<T, Index, Offset>>(x.lines);
}

}  // namespace weir::linalg
