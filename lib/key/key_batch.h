// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyBatch: turns the keys of a mini-batch, in any order and with duplicates, into the sorted
/// unique keys that tables take, and moves rows of values between the two.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lib/key/value_type.h"

namespace weir {

/// What a contiguous container is of.
template <class R>
using ElementOf = typename decltype(std::span(std::declval<const R&>()))::element_type;

/// Keys of a batch: as KeyContainer, also of 32 bits. A negative key stands for the unsigned 64-bit
/// number that it converts to, -1 for 2^64 - 1, whatever its size.
template <class R>
concept BatchKeys = std::integral<ElementOf<R>> &&(sizeof(ElementOf<R>) >= 4);

/// What calls that push or pull a batch keep with it, from one batch to the next.
class KeyBatchRows {
public:
    KeyBatchRows() = default;
    virtual ~KeyBatchRows() = default;
    KeyBatchRows(const KeyBatchRows&) = delete;
    KeyBatchRows& operator=(const KeyBatchRows&) = delete;

    /// Whether one of them has not ended.
    [[nodiscard]] virtual bool is_in_use() const noexcept = 0;
};

/// Tables push and pull the rows of a batch by themselves (Table::push(), with a KeyBatch in place of keys).
/// spread() and sum() are for who does it with keys(): a row is `width` values side by side. spread()
/// makes the rows of the caller's keys from those of keys(); sum() does the reverse.
///
/// Reuse one object for all batches: once it is large enough, it allocates nothing.
/// Borrow: the results of keys(), places() and counts() are valid until the next assign(). Do not
///         call assign() before the pushes and pulls that use them have ended: if they were given the
///         batch itself, it aborts. The caller's own keys are not needed after assign().
/// Thread: one.
class KeyBatch {
public:
    KeyBatch() = default;

    /// As assign().
    template <BatchKeys R>
    explicit KeyBatch(const R& callers_keys) {
        assign(callers_keys);
    }

    /// Takes the keys of a new batch, which may be a temporary; aborts if there are 2^32 - 1 or more.
    template <BatchKeys R>
    void assign(const R& callers_keys) {
        const auto callers = std::span(callers_keys);
        begin(callers.size());
        for (size_t i = 0; i < callers.size(); ++i)
            items_[i] = {static_cast<uint64_t>(callers[i]), static_cast<uint32_t>(i)};
        find_places();
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

    /// Of the calls that have been given the batch; a copy of the batch has none.
    [[nodiscard]] std::shared_ptr<KeyBatchRows>& rows() noexcept { return kept_.rows; }

private:
    struct Kept {
        Kept() = default;
        Kept(Kept&&) noexcept = default;
        Kept& operator=(Kept&&) noexcept = default;

        Kept(const Kept&) noexcept {}

        // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): nothing is copied
        Kept& operator=(const Kept&) noexcept { return *this; }

        ~Kept() = default;

        std::shared_ptr<KeyBatchRows> rows;
    };

    struct Item {
        uint64_t key;
        uint32_t place;
    };

    /// Aborts and prints the sizes if they do not fit: no rows could be copied then.
    void check_sizes(const char* call, size_t rows, size_t callers, size_t width) const {
        if (rows != keys_.size() * width || callers != places_.size() * width)
            wrong_sizes(call, rows, callers, width);
    }

    void begin(size_t key_count);
    void find_places();
    [[noreturn]] void wrong_sizes(const char* call, size_t rows, size_t callers,
                                  size_t width) const noexcept;
    void sort();

    std::vector<Item> items_;
    std::vector<Item> other_;  ///< scratch memory of sort()
    std::vector<uint64_t> keys_;
    std::vector<uint32_t> places_;
    std::vector<uint32_t> counts_;
    Kept kept_;
};

}  // namespace weir
