// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The functions that every server has. functions.md beside this file says what users know of them.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <type_traits>
#include <vector>

#include "lib/base/sum_of_terms.h"
#include "lib/store/functions/function.h"

namespace weir::functions {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// As a T: an integer becomes the nearest that T has, towards 0.
template <class T>
[[nodiscard]] constexpr T as_value(double number) noexcept {
    if constexpr (std::is_floating_point_v<T>) {
        return static_cast<T>(number);
    } else {
        if (number <= static_cast<double>(std::numeric_limits<T>::min()))
            return std::numeric_limits<T>::min();
        if (number >= static_cast<double>(std::numeric_limits<T>::max()))
            return std::numeric_limits<T>::max();
        return static_cast<T>(number);
    }
}

struct OfFloats {
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;
};

// Functions that change.

/// y += a * x
struct Axpy : OfFloats {
    static constexpr std::array kNumbers = {FunctionNumber{"a"}};
    static constexpr uint32_t kTables = 1;

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        const T a = static_cast<T>(rows.numbers[0]);
        const T* const x = rows.with[0];
        T* const y = rows.values;
        for (size_t i = 0, n = rows.value_count(); i < n; ++i)
            y[i] += a * x[i];
    }
};

struct Scale : OfFloats {
    static constexpr std::array kNumbers = {FunctionNumber{"factor"}};

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        const T factor = static_cast<T>(rows.numbers[0]);
        T* const y = rows.values;
        for (size_t i = 0, n = rows.value_count(); i < n; ++i)
            y[i] *= factor;
    }
};

struct Copy {
    static constexpr uint32_t kTables = 1;

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        std::copy_n(rows.with[0], rows.value_count(), rows.values);
    }
};

struct Assign {
    static constexpr std::array kNumbers = {FunctionNumber{"value"}};

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        std::fill_n(rows.values, rows.value_count(), as_value<T>(rows.numbers[0]));
    }
};

/// Puts each value between two numbers.
struct Clip {
    static constexpr std::array kNumbers = {
        FunctionNumber{.name = "least", .otherwise = -kInfinity, .may_be_infinite = true},
        FunctionNumber{.name = "most", .otherwise = kInfinity, .may_be_infinite = true}};

    static const char* check(std::span<const double> numbers) {
        return numbers[0] <= numbers[1] ? nullptr : "'least' is above 'most'";
    }

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        const T least = as_value<T>(rows.numbers[0]);
        const T most = as_value<T>(rows.numbers[1]);
        T* const y = rows.values;
        for (size_t i = 0, n = rows.value_count(); i < n; ++i) {
            const T raised = y[i] < least ? least : y[i];
            y[i] = raised > most ? most : raised;
        }
    }
};

// Functions that read. Sums are of doubles.

struct Summing {
    static void begin(std::span<const double>, FunctionResult& result) { result.numbers = {0}; }
};

struct Dot : Summing {
    static constexpr uint32_t kTables = 1;

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const T* const x = rows.values;
        const T* const y = rows.with[0];
        result.numbers[0] += sum_of_terms<double>(0, rows.value_count(), [=](size_t i) {
            return static_cast<double>(x[i]) * static_cast<double>(y[i]);
        });
    }
};

struct Sum : Summing {
    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const T* const x = rows.values;
        result.numbers[0] += sum_of_terms<double>(
            0, rows.value_count(), [=](size_t i) { return static_cast<double>(x[i]); });
    }
};

struct Norm1 : Summing {
    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const T* const x = rows.values;
        result.numbers[0] += sum_of_terms<double>(
            0, rows.value_count(), [=](size_t i) { return std::abs(static_cast<double>(x[i])); });
    }
};

struct Norm2 : Summing {
    static void merge(FunctionResult& into, const FunctionResult& other, std::span<const double>) {
        into.numbers[0] = std::hypot(into.numbers[0], other.numbers[0]);
    }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const T* const x = rows.values;
        const double squares = sum_of_terms<double>(0, rows.value_count(), [=](size_t i) {
            return static_cast<double>(x[i]) * static_cast<double>(x[i]);
        });
        result.numbers[0] = std::hypot(result.numbers[0], std::sqrt(squares));
    }
};

/// The least or the greatest value; infinite without any. NaN is neither.
template <bool kIsLeast>
struct Extreme {
    static void begin(std::span<const double>, FunctionResult& result) {
        result.numbers = {kIsLeast ? kInfinity : -kInfinity};
    }

    static void merge(FunctionResult& into, const FunctionResult& other, std::span<const double>) {
        into.numbers[0] = better(other.numbers[0], into.numbers[0]);
    }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        constexpr size_t kLanes = 32;
        using Limits = std::numeric_limits<T>;
        const T* const x = rows.values;
        const size_t n = rows.value_count();
        if (n == 0) return;
        T worst = kIsLeast ? Limits::max() : Limits::lowest();
        if constexpr (Limits::has_infinity)
            worst = kIsLeast ? Limits::infinity() : -Limits::infinity();
        T best[kLanes];
        std::fill_n(best, kLanes, worst);
        size_t i = 0;
        for (; i + kLanes <= n; i += kLanes) {
            for (size_t k = 0; k < kLanes; ++k)
                best[k] = better(x[i + k], best[k]);
        }
        for (; i < n; ++i)
            best[0] = better(x[i], best[0]);
        for (const T one : best)
            best[0] = better(one, best[0]);
        result.numbers[0] = better(static_cast<double>(best[0]), result.numbers[0]);
    }

private:
    template <class T>
    [[nodiscard]] static T better(T one, T other) noexcept {
        return (kIsLeast ? one < other : one > other) ? one : other;
    }
};

using Min = Extreme<true>;
using Max = Extreme<false>;

/// How many values, or sizes of values, lie between two numbers, these included.
struct Count : Summing {
    static constexpr std::array kNumbers = {
        FunctionNumber{.name = "least", .otherwise = -kInfinity, .may_be_infinite = true},
        FunctionNumber{.name = "most", .otherwise = kInfinity, .may_be_infinite = true},
        FunctionNumber{.name = "of_sizes", .otherwise = 0}};

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const double least = rows.numbers[0];
        const double most = rows.numbers[1];
        const bool of_sizes = rows.numbers[2] != 0;
        const T* const x = rows.values;
        size_t found = 0;
        for (size_t i = 0, n = rows.value_count(); i < n; ++i) {
            const double value = static_cast<double>(x[i]);
            const double counted = of_sizes ? std::abs(value) : value;
            found += counted >= least && counted <= most ? 1 : 0;
        }
        result.numbers[0] += static_cast<double>(found);
    }
};

/// How many values lie in each of some intervals of one length: first those below them, then theirs, those at the end
/// or above, and NaN.
struct Histogram {
    static constexpr std::array kNumbers = {FunctionNumber{"first"}, FunctionNumber{"end"},
                                            FunctionNumber{"intervals"}};
    static constexpr double kCost = 4;
    static constexpr double kIntervalsMax = 1 << 16;

    static const char* check(std::span<const double> numbers) {
        if (!(numbers[0] < numbers[1]) || std::isinf(numbers[1] - numbers[0]))
            return "'end' must be above 'first'";
        const double count = numbers[2];
        if (std::isinf(count / (numbers[1] - numbers[0]))) return "'end' is too near to 'first'";
        return count >= 1 && count <= kIntervalsMax && count == std::floor(count)
                   ? nullptr
                   : "'intervals' must be a whole number, 1 to 65536";
    }

    static size_t results_max(std::span<const double> numbers) {
        return static_cast<size_t>(numbers[2]) + 3;
    }

    static void begin(std::span<const double> numbers, FunctionResult& result) {
        result.numbers.assign(static_cast<size_t>(numbers[2]) + 3, 0);
    }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const double first = rows.numbers[0];
        const double count = rows.numbers[2];
        const double end = rows.numbers[1];
        const double per_interval = count / (end - first);
        const size_t last = result.numbers.size() - 1;
        for (const T value : std::span(rows.values, rows.value_count())) {
            const auto number = static_cast<double>(value);
            const double at =
                std::clamp(std::floor((number - first) * per_interval), 0.0, count - 1);
            const size_t i = std::isnan(number) ? last
                             : number < first   ? 0
                             : number >= end    ? last - 1
                                                : 1 + static_cast<size_t>(at);
            ++result.numbers[i];
        }
    }
};

/// The rows with the greatest values, or sizes of values, the greatest first, and of equal ones the least key: of each
/// row the one that counts, and its key.
struct Top {
    static constexpr std::array kNumbers = {FunctionNumber{"rows"},
                                            FunctionNumber{.name = "of_sizes", .otherwise = 0}};
    static constexpr bool kWantsKeys = true;
    static constexpr double kCost = 4;
    static constexpr double kRowsMax = 1 << 15;

    static const char* check(std::span<const double> numbers) {
        return numbers[0] >= 1 && numbers[0] <= kRowsMax && numbers[0] == std::floor(numbers[0])
                   ? nullptr
                   : "'rows' must be a whole number, 1 to 32768";
    }

    static size_t results_max(std::span<const double> numbers) {
        return static_cast<size_t>(numbers[0]);
    }

    static void begin(std::span<const double>, FunctionResult&) {}

    static void merge(FunctionResult& into, const FunctionResult& other,
                      std::span<const double> numbers) {
        into.numbers.insert(into.numbers.end(), other.numbers.begin(), other.numbers.end());
        into.keys.insert(into.keys.end(), other.keys.begin(), other.keys.end());
        shorten(into, numbers);
    }

    /// Keeps more rows than are wanted, and only some of them in order: to sort them costs more than to read the next.
    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        const auto count = static_cast<size_t>(rows.numbers[0]);
        const bool of_sizes = rows.numbers[1] != 0;
        Row least = least_of(result, count, of_sizes);
        for (size_t r = 0; r < rows.row_count; ++r) {
            const T* const row = rows.values + r * rows.width;
            double best = static_cast<double>(row[0]);
            for (uint32_t i = 1; i < rows.width; ++i) {
                const double value = static_cast<double>(row[i]);
                if (score(value, of_sizes) > score(best, of_sizes) || std::isnan(best))
                    best = value;
            }
            if (std::isnan(best) || !Row{score(best, of_sizes), rows.keys[r]}.is_before(least))
                continue;
            result.numbers.push_back(best);
            result.keys.push_back(rows.keys[r]);
            if (result.numbers.size() < 2 * count + 64) continue;
            keep_first(result, rows.numbers);
            least = least_of(result, count, of_sizes);
        }
    }

    static void end(FunctionResult& result, std::span<const double> numbers) {
        shorten(result, numbers);
    }

private:
    [[nodiscard]] static double score(double value, bool of_sizes) noexcept {
        return of_sizes ? std::abs(value) : value;
    }

    struct Row {
        double score = 0;
        uint64_t key = 0;

        [[nodiscard]] bool is_before(const Row& other) const noexcept {
            return score > other.score || (score == other.score && key < other.key);
        }
    };

    [[nodiscard]] static Row row_of(const FunctionResult& result, size_t i,
                                    bool of_sizes) noexcept {
        return {score(result.numbers[i], of_sizes), result.keys[i]};
    }

    /// Before which a row must be to be among them. keep_first() puts it behind the others.
    [[nodiscard]] static Row least_of(const FunctionResult& result, size_t count,
                                      bool of_sizes) noexcept {
        if (result.numbers.size() < count) return {-kInfinity, ~uint64_t{0}};
        return row_of(result, count - 1, of_sizes);
    }

    /// Only the last of those that stay is where it belongs.
    static void keep_first(FunctionResult& result, std::span<const double> numbers) {
        put_in_order(result, numbers, [](auto begin, auto last, auto end, const auto& is_before) {
            if (begin != last) std::nth_element(begin, last - 1, end, is_before);
        });
    }

    /// The first ones, in their order.
    static void shorten(FunctionResult& result, std::span<const double> numbers) {
        put_in_order(result, numbers, [](auto begin, auto last, auto end, const auto& is_before) {
            std::partial_sort(begin, last, end, is_before);
        });
    }

    template <class Order>
    static void put_in_order(FunctionResult& result, std::span<const double> numbers,
                             const Order& order) {
        const bool of_sizes = numbers[1] != 0;
        std::vector<size_t> rows(result.numbers.size());
        std::iota(rows.begin(), rows.end(), size_t{0});
        const auto last = rows.begin() + static_cast<ptrdiff_t>(std::min(
                                             rows.size(), static_cast<size_t>(numbers[0])));
        order(rows.begin(), last, rows.end(), [&](size_t a, size_t b) {
            return row_of(result, a, of_sizes).is_before(row_of(result, b, of_sizes));
        });
        rows.erase(last, rows.end());
        FunctionResult kept;
        for (const size_t i : rows) {
            kept.numbers.push_back(result.numbers[i]);
            kept.keys.push_back(result.keys[i]);
        }
        result = std::move(kept);
    }
};

}  // namespace weir::functions
