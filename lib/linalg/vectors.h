// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What vectors by key are used for: products, norms, and sums that are added to others.
///
/// ```cpp
/// const weir::linalg::Vector w(keys, pulled);       // std::vector<uint64_t>, std::vector<float>
/// const weir::linalg::Vector u(other_keys, other);  // other keys
/// const double slope = weir::linalg::dot(w + 0.5 * u, g);
/// weir::linalg::axpy(-rate, g, w);
/// ```
/// Sums are of doubles, in no fixed order.
///
/// Thread: any; `threads` that several functions are given work for one at a time

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "lib/base/sum_of_terms.h"
#include "lib/linalg/threads.h"
#include "lib/linalg/vector_expression.h"

namespace weir::linalg {

namespace kernels {

/// In several sums at once, so that no addition waits for the one before; with the vectors that the processor has.
[[nodiscard]] double dot(std::span<const float> x, std::span<const float> y) noexcept;
[[nodiscard]] double dot(std::span<const double> x, std::span<const double> y) noexcept;
[[nodiscard]] double norm1(std::span<const float> x) noexcept;
[[nodiscard]] double norm1(std::span<const double> x) noexcept;
/// y += factor * x
void axpy(double factor, std::span<const float> x, std::span<float> y) noexcept;
void axpy(double factor, std::span<const double> x, std::span<double> y) noexcept;

inline constexpr size_t kLeast = size_t{1} << 15;  ///< values: less are not worth a thread

template <class T>
concept Float = std::same_as<T, float> || std::same_as<T, double>;

template <class E>
inline constexpr bool kIsVector = false;
template <class T>
requires Float<std::remove_const_t<T>>
inline constexpr bool kIsVector<Vector<T>> = true;

/// The sum of sum(begin, end, part) over parts of 0 .. size - 1.
template <class Part>
[[nodiscard]] double sum_of_parts(Threads* threads, size_t size, const Part& sum) {
    if (threads == nullptr) return sum(size_t{0}, size);
    std::vector<double> sums(threads->count());
    threads->split(size, kLeast,
                   [&](size_t begin, size_t end, uint32_t part) { sums[part] = sum(begin, end); });
    double all = 0;
    for (const double one : sums)
        all += one;
    return all;
}

/// What terms of such values are added up as.
template <class T>
using Summed = std::conditional_t<Float<T>, T, double>;

/// The sum of f(value) over an expression whose keys are one list.
template <Expression E, class F>
[[nodiscard]] double sum_over(const E& e, Threads* threads, const F& f) {
    using T = Summed<typename E::Value>;
    return sum_of_parts(threads, e.keys().size(), [&](size_t begin, size_t end) {
        return sum_of_terms<T>(begin, end, [&](size_t i) { return f(static_cast<T>(e.at(i))); });
    });
}

/// Calls use(a's cursor, b's cursor) at each key that both have.
template <Expression A, Expression B, class Use>
void at_common_keys(const A& a, const B& b, const Use& use) {
    auto x = a.cursor();
    auto y = b.cursor();
    while (!x.is_over() && !y.is_over()) {
        if (x.key() < y.key()) {
            x.skip_to(y.key());
        } else if (y.key() < x.key()) {
            y.skip_to(x.key());
        } else {
            use(x, y);
            x.next();
            y.next();
        }
    }
}

/// Lists, neither of which is so much longer that skipping keys of it is worth more than it costs.
[[nodiscard]] inline bool are_merged(const CallKeys& a, const CallKeys& b) noexcept {
    constexpr size_t kTimes = 8;
    return a.list() != nullptr && b.list() != nullptr && a.size() / kTimes <= b.size() &&
           b.size() / kTimes <= a.size();
}

/// Without a branch that depends on keys: half of these would be foreseen wrongly.
template <Expression A, Expression B>
[[nodiscard]] double dot_of_lists(const A& a, const B& b) {
    const uint64_t* const x = a.keys().list();
    const uint64_t* const y = b.keys().list();
    const size_t x_count = a.keys().size();
    const size_t y_count = b.keys().size();
    double sum = 0;
    for (size_t i = 0, k = 0; i < x_count && k < y_count;) {
        const uint64_t left = x[i];
        const uint64_t right = y[k];
        const double product = static_cast<double>(a.at(i)) * static_cast<double>(b.at(k));
        sum += left == right ? product : 0;
        i += left <= right ? 1 : 0;
        k += right <= left ? 1 : 0;
    }
    return sum;
}

}  // namespace kernels

/// Calls use(key, value), by ascending key.
template <Expression E, class Use>
void for_each(const E& e, const Use& use) {
    if (e.has_one_list()) {
        const CallKeys keys = e.keys();
        for (size_t i = 0; i < keys.size(); ++i)
            use(keys[i], e.at(i));
        return;
    }
    for (auto at = e.cursor(); !at.is_over(); at.next())
        use(at.key(), at.value());
}

/// The sum of products of values whose key both have.
template <Expression A, Expression B>
[[nodiscard]] double dot(const A& a, const B& b, Threads* threads = nullptr) {
    if (!a.has_one_list() || !b.has_one_list() || !(a.keys() == b.keys())) {
        if (a.has_one_list() && b.has_one_list() && kernels::are_merged(a.keys(), b.keys()))
            return kernels::dot_of_lists(a, b);
        double sum = 0;
        kernels::at_common_keys(a, b, [&](const auto& x, const auto& y) {
            sum += static_cast<double>(x.value()) * static_cast<double>(y.value());
        });
        return sum;
    }
    using T = kernels::Summed<std::common_type_t<typename A::Value, typename B::Value>>;
    return kernels::sum_of_parts(threads, a.keys().size(), [&](size_t begin, size_t end) {
        if constexpr (kernels::kIsVector<A> && kernels::kIsVector<B> &&
                      std::same_as<typename A::Value, typename B::Value>) {
            return kernels::dot(std::span<const T>(a.values()).subspan(begin, end - begin),
                                std::span<const T>(b.values()).subspan(begin, end - begin));
        } else {
            return sum_of_terms<T>(begin, end, [&](size_t i) {
                return static_cast<T>(a.at(i)) * static_cast<T>(b.at(i));
            });
        }
    });
}

/// The sum of f(value), where f takes floats and doubles, and returns what it takes.
template <Expression E, class F>
[[nodiscard]] double sum_of(const E& e, const F& f, Threads* threads = nullptr) {
    if (e.has_one_list()) return kernels::sum_over(e, threads, f);
    double sum = 0;
    for_each(e, [&](uint64_t, auto value) { sum += f(static_cast<double>(value)); });
    return sum;
}

template <Expression E>
[[nodiscard]] double sum(const E& e, Threads* threads = nullptr) {
    return sum_of(
        e, [](auto value) { return value; }, threads);
}

/// The sum of absolute values.
template <Expression E>
[[nodiscard]] double norm1(const E& e, Threads* threads = nullptr) {
    if constexpr (kernels::kIsVector<E>) {
        return kernels::sum_of_parts(threads, e.size(), [&](size_t begin, size_t end) {
            using T = const typename E::Value;
            return kernels::norm1(std::span<T>(e.values()).subspan(begin, end - begin));
        });
    } else {
        return sum_of(
            e, [](auto value) { return std::abs(value); }, threads);
    }
}

/// The root of the sum of squares.
template <Expression E>
[[nodiscard]] double norm2(const E& e, Threads* threads = nullptr) {
    return std::sqrt(dot(e, e, threads));
}

/// The greatest absolute value; 0 without values.
template <Expression E>
[[nodiscard]] double norm_max(const E& e) {
    double most = 0;
    for_each(e, [&](uint64_t, auto value) {
        most = std::max(most, std::abs(static_cast<double>(value)));
    });
    return most;
}

/// y += factor * x, at the keys that y has. Returns how many of x's it does not have.
template <Expression E, class T>
size_t axpy(double factor, const E& x, const Vector<T>& y, Threads* threads = nullptr) {
    const std::span<T> to = y.values();
    if (x.has_one_list() && x.keys() == y.keys()) {
        split_over(threads, to.size(), kernels::kLeast, [&](size_t begin, size_t end, uint32_t) {
            if constexpr (kernels::kIsVector<E> && kernels::Float<T> &&
                          std::same_as<typename E::Value, T>) {
                kernels::axpy(factor, std::span<const T>(x.values()).subspan(begin, end - begin),
                              to.subspan(begin, end - begin));
            } else {
                for (size_t i = begin; i < end; ++i)
                    to[i] = static_cast<T>(to[i] + factor * static_cast<double>(x.at(i)));
            }
        });
        return 0;
    }
    size_t lacking = 0;
    size_t i = 0;
    const CallKeys& keys = y.keys();
    for_each(x, [&](uint64_t key, auto value) {
        i = keys.place_of(key, i);
        if (i < to.size() && keys[i] == key) {
            to[i] = static_cast<T>(to[i] + factor * static_cast<double>(value));
        } else {
            ++lacking;
        }
    });
    return lacking;
}

/// y = x, at the keys that y has: 0 where x does not have them. Neither may be a part of the other, unless their
/// keys are the same.
template <Expression E, class T>
void assign(const E& x, const Vector<T>& y) {
    const std::span<T> to = y.values();
    if (x.has_one_list() && x.keys() == y.keys()) {
        for (size_t i = 0; i < to.size(); ++i)
            to[i] = static_cast<T>(x.at(i));
        return;
    }
    std::ranges::fill(to, T{0});
    (void)axpy(1, x, y);
}

/// All keys that it has a value for: for the memory of what is assigned of it.
template <Expression E>
[[nodiscard]] std::vector<uint64_t> keys_of(const E& e) {
    std::vector<uint64_t> keys;
    if (e.has_one_list()) keys.reserve(e.keys().size());
    for_each(e, [&](uint64_t key, auto) { keys.push_back(key); });
    return keys;
}

}  // namespace weir::linalg
