// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyBatch: turns the keys of a mini-batch, in any order and with duplicates, into the sorted
/// unique keys that tables take, and moves rows of values between the two.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/key/key_span.h"
#include "lib/key/value_type.h"

namespace weir {

/// A row is `width` values side by side. spread() makes the rows of the caller's keys from those
/// of keys(); sum() does the reverse.
///
/// Reuse one object for all batches: once it is large enough, it allocates nothing.
/// Borrow: the results of keys(), places() and counts() are valid until the next assign(). Do not
///         call assign() before the pushes and pulls that use them have ended. The caller's own
///         keys are not needed after assign().
/// Thread: one.
class KeyBatch {
public:
    KeyBatch() = default;

    /// As assign().
    template <KeyContainer R>
    explicit KeyBatch(const R& callers_keys) {
        assign(callers_keys);
    }

    /// Takes the keys of a new batch, which may be a temporary; aborts if there are 2^32 - 1 or more.
    template <KeyContainer R>
    void assign(const R& callers_keys) {
        take(callers_keys);
    }

    /// The keys of the batch, sorted and unique: for Table::pull() and push().
    [[nodiscard]] std::span<const uint64_t> keys() const& noexcept;

    void keys() && = delete;  // the batch would end before what uses them

    /// keys()[places()[i]] is the caller's i-th key.
    [[nodiscard]] std::span<const uint32_t> places() const noexcept;

    /// counts()[u]: how often the caller has keys()[u].
    [[nodiscard]] std::span<const uint32_t> counts() const noexcept;

    /// Copies what was pulled for keys() to a row for each of the caller's keys: row i of `out`
    /// is row places()[i] of `rows`.
    ///
    /// Shape:  rows.size() == keys().size() * width; out.size() == places().size() * width; else
    ///         aborts
    template <Value T>
    void spread(std::span<const T> rows, std::span<T> out, size_t width = 1) const {
        check_sizes("spread", rows.size(), out.size(), width);
        T* to = out.data();
        for (const uint32_t place : places_) {
            const T* const from = rows.data() + place * width;
            for (size_t i = 0; i < width; ++i)
                to[i] = from[i];
            to += width;
        }
    }

    /// The reverse, for gradients: row u of `rows` becomes the sum of the caller's rows of
    /// keys()[u].
    ///
    /// Shape:  callers.size() == places().size() * width; rows.size() == keys().size() * width;
    ///         else aborts
    template <Value T>
    void sum(std::span<const T> callers, std::span<T> rows, size_t width = 1) const {
        check_sizes("sum", rows.size(), callers.size(), width);
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

    /// Aborts and prints the sizes if they do not fit: no rows could be copied then.
    void check_sizes(const char* call, size_t rows, size_t callers, size_t width) const {
        if (rows != keys_.size() * width || callers != places_.size() * width)
            wrong_sizes(call, rows, callers, width);
    }

    void take(KeySpan callers_keys);
    [[noreturn]] void wrong_sizes(const char* call, size_t rows, size_t callers,
                                  size_t width) const noexcept;
    void sort();

    std::vector<Item> items_;
    std::vector<Item> other_;  ///< scratch memory of sort()
    std::vector<uint64_t> keys_;
    std::vector<uint32_t> places_;
    std::vector<uint32_t> counts_;
};

}  // namespace weir
