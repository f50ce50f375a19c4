// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Calls of push for tests of selectors, and what has become of all that was pushed.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/filter/select/held_back.h"
#include "lib/filter/select/selector.h"

namespace weir::testing {

/// A list of keys and rows of whole numbers, so that sums are exact.
template <class T>
struct Call {
    std::vector<uint64_t> keys;
    std::vector<T> values;

    [[nodiscard]] PushedRows pushed() const {
        return {CallKeys(std::span<const uint64_t>(keys)), std::as_bytes(std::span(values))};
    }
};

/// Up to 100 keys below `keys_end`, values from -range to range.
template <class T>
Call<T> random_call(Random& random, uint32_t width, uint64_t keys_end, uint64_t range) {
    Call<T> call;
    const uint64_t count = random.below(101);
    for (uint64_t i = 0; i < count; ++i)
        call.keys.push_back(random.below(keys_end));
    std::ranges::sort(call.keys);
    call.keys.erase(std::unique(call.keys.begin(), call.keys.end()), call.keys.end());
    for (size_t i = 0; i < call.keys.size() * width; ++i) {
        const auto number = static_cast<int64_t>(random.below(2 * range + 1));
        call.values.push_back(static_cast<T>(number - static_cast<int64_t>(range)));
    }
    return call;
}

template <class T>
std::vector<T> typed(std::span<const std::byte> bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

/// The sums of rows by key.
template <class T>
using Sums = std::map<uint64_t, std::vector<T>>;

template <class T>
void add_row(Sums<T>& sums, uint64_t key, const T* row, uint32_t width) {
    auto& sum = sums[key];
    sum.resize(width);
    for (uint32_t i = 0; i < width; ++i)
        sum[i] = static_cast<T>(sum[i] + row[i]);
}

template <class T>
void add_call(Sums<T>& sums, const Call<T>& call, uint32_t width) {
    for (size_t i = 0; i < call.keys.size(); ++i)
        add_row(sums, call.keys[i], call.values.data() + i * width, width);
}

/// What of a call travels. Also checks that a selection is well-formed.
template <class T>
void add_selection(Sums<T>& sums, const Call<T>& call, const Selection& selection, uint32_t width) {
    REQUIRE(selection.kept.size() == bitmap_bytes(call.keys.size()));
    REQUIRE(count_bits(selection.kept) == selection.kept_count);
    const auto values = typed<T>(selection.values);
    REQUIRE(values.size() == selection.kept_count * width);
    size_t next = 0;
    for_each_bit(selection.kept, [&](size_t i) {
        REQUIRE(i < call.keys.size());
        add_row(sums, call.keys[i], values.data() + next++ * width, width);
    });
}

/// A flush.
template <class T>
void add_held(Sums<T>& sums, HeldBack& held, uint32_t width) {
    std::vector<uint64_t> keys;
    std::vector<std::byte> rows;
    held.take_all(keys, rows);
    REQUIRE(std::ranges::is_sorted(keys));
    const auto values = typed<T>(rows);
    for (size_t i = 0; i < keys.size(); ++i)
        add_row(sums, keys[i], values.data() + i * width, width);
}

/// The same sums: a key that is missing has zeros.
template <class T>
bool same_sums(const Sums<T>& a, const Sums<T>& b) {
    const auto within = [](const Sums<T>& one, const Sums<T>& other) {
        return std::ranges::all_of(one, [&](const auto& entry) {
            const auto at = other.find(entry.first);
            if (at != other.end()) return at->second == entry.second;
            return std::ranges::all_of(entry.second, [](T value) { return value == T{0}; });
        });
    };
    return within(a, b) && within(b, a);
}

}  // namespace weir::testing
