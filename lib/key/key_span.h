// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeySpan: a view of keys in any contiguous container of 64-bit integers.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>

namespace weir {

/// std::vector<uint64_t>, std::span<const int64_t>, std::array<uint64_t, 3>, ...
template <class R>
concept KeyContainer = std::ranges::contiguous_range<const R> &&
                       std::ranges::sized_range<const R> &&
                       std::integral<std::ranges::range_value_t<const R>> &&
                       sizeof(std::ranges::range_value_t<const R>) == sizeof(uint64_t);

/// Borrows keys. A negative key stands for the unsigned key with the same bits; "sorted" means
/// sorted by the unsigned value.
class KeySpan {
public:
    template <KeyContainer R>
    KeySpan(const R& keys) noexcept  // NOLINT: implicit on purpose
        : keys_(reinterpret_cast<const uint64_t*>(std::ranges::data(keys)),
                static_cast<size_t>(std::ranges::size(keys))) {}

    [[nodiscard]] std::span<const uint64_t> span() const noexcept { return keys_; }

private:
    std::span<const uint64_t> keys_;
};

}  // namespace weir
