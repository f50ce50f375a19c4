// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeySpan and ValueSpan: views of the keys and values of a call, in any contiguous range. A call uses
/// them until its task has ended, so a temporary that owns its elements does not compile.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace weir {

/// std::vector<uint64_t>, std::span<const int64_t>, std::array<uint64_t, 3>, ...
template <class R>
concept KeyContainer = requires(const R& keys) {
    std::span(keys);
}

&&std::integral<typename decltype(std::span(std::declval<const R&>()))::element_type> &&
    sizeof(typename decltype(std::span(std::declval<const R&>()))::element_type) ==
        sizeof(uint64_t);

/// An argument whose elements live longer than itself: it has a name, or is a view such as std::span.
template <class R>
concept Lasting =
    std::is_lvalue_reference_v<R> || std::ranges::enable_borrowed_range<std::remove_cvref_t<R>>;

/// Borrows keys. A negative key stands for the unsigned key with the same bits; "sorted" means
/// sorted by the unsigned value.
class KeySpan {
public:
    template <class R>
    requires(!std::same_as<std::remove_cvref_t<R>, KeySpan> &&
             KeyContainer<std::remove_cvref_t<R>> && Lasting<R>) KeySpan(R&& keys)
    noexcept  // NOLINT: implicit on purpose
        : keys_(reinterpret_cast<const uint64_t*>(std::span(std::as_const(keys)).data()),
                std::span(std::as_const(keys)).size()) {}

    template <class R>
    requires(!std::same_as<std::remove_cvref_t<R>, KeySpan> &&
             KeyContainer<std::remove_cvref_t<R>> && !Lasting<R>)
        KeySpan(R&& keys_that_end_before_the_task)
    = delete;  // give them a name that lives longer

    [[nodiscard]] std::span<const uint64_t> span() const noexcept { return keys_; }

private:
    std::span<const uint64_t> keys_;
};

/// Borrows values: of a push (T is const), or memory for those of a pull.
template <class T>
class ValueSpan {
public:
    ValueSpan() = default;

    ValueSpan(T* values, size_t count) noexcept : values_(values, count) {}

    template <class R>
    requires(!std::same_as<std::remove_cvref_t<R>, ValueSpan> &&
             std::is_convertible_v<std::remove_reference_t<R>&, std::span<T>> && Lasting<R>)
        ValueSpan(R&& values)
    noexcept : values_(values) {}  // NOLINT: implicit on purpose

    template <class R>
    requires(!std::same_as<std::remove_cvref_t<R>, ValueSpan> &&
             std::is_convertible_v<std::remove_reference_t<R>&, std::span<T>> && !Lasting<R>)
        ValueSpan(R&& values_that_end_before_the_task)
    = delete;  // give them a name that lives longer

    [[nodiscard]] std::span<T> span() const noexcept { return values_; }

private:
    std::span<T> values_;
};

}  // namespace weir
