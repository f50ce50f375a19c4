// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyBatch: from the keys of a mini-batch, in any order and with duplicates, to the sorted unique
/// keys that tables take, and back.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/key/key_span.h"
#include "lib/key/value_type.h"

namespace weir {

/// Rows are `width` values side by side. Each operation takes the rows of one side, in its order,
/// and makes those of the other.
///
/// Reuse one object for batch after batch: once it is large enough, nothing is allocated.
/// Borrow: what keys(), places() and counts() return is valid until the next assign(), and must
///         stay so until pushes and pulls of it have ended. The caller's own keys are not needed
///         after assign().
/// Thread: one.
class KeyBatch {
public:
    KeyBatch() = default;

    /// Less than 2^32 keys.
    explicit KeyBatch(KeySpan callers_keys) { assign(callers_keys); }

    void assign(KeySpan callers_keys);

    /// Sorted and unique: for Table::pull() and push().
    [[nodiscard]] std::span<const uint64_t> keys() const noexcept { return keys_; }

    /// keys()[places()[i]] is the caller's i-th key.
    [[nodiscard]] std::span<const uint32_t> places() const noexcept { return places_; }

    /// counts()[u]: how often the caller has keys()[u].
    [[nodiscard]] std::span<const uint32_t> counts() const noexcept { return counts_; }

    /// What was pulled for keys(), a row for each of the caller's keys: out row i is a copy of row
    /// places()[i].
    ///
    /// Shape:  rows.size() == keys().size() * width; out.size() == places().size() * width
    template <Value T>
    void spread(std::span<const T> rows, std::span<T> out, size_t width = 1) const {
        WEIR_CHECK(rows.size() == keys_.size() * width && out.size() == places_.size() * width);
        T* to = out.data();
        for (const uint32_t place : places_) {
            const T* const from = rows.data() + place * width;
            for (size_t i = 0; i < width; ++i)
                to[i] = from[i];
            to += width;
        }
    }

    /// The other way, for gradients: row u becomes the sum of the caller's rows of keys()[u].
    ///
    /// Shape:  callers.size() == places().size() * width; rows.size() == keys().size() * width
    template <Value T>
    void sum(std::span<const T> callers, std::span<T> rows, size_t width = 1) const {
        WEIR_CHECK(rows.size() == keys_.size() * width && callers.size() == places_.size() * width);
        for (T& value : rows)
            value = 0;
        const T* from = callers.data();
        for (const uint32_t place : places_) {
            T* const to = rows.data() + place * width;
            for (size_t i = 0; i < width; ++i)
                to[i] = static_cast<T>(to[i] + from[i]);
            from += width;
        }
    }

private:
    struct Item {
        uint64_t key;
        uint32_t place;
    };

    void sort();

    std::vector<Item> items_;
    std::vector<Item> other_;  ///< room to sort in
    std::vector<uint64_t> keys_;
    std::vector<uint32_t> places_;
    std::vector<uint32_t> counts_;
};

}  // namespace weir
