// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CallKeys: the keys of a call, or of what it has brought.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/key/key_range.h"

namespace weir {

/// Borrows keys: a list without duplicates, in ascending order, or a range.
class CallKeys {
public:
    explicit CallKeys(std::span<const uint64_t> list) noexcept
        : list_(list.data()), size_(list.size()) {}

    explicit CallKeys(KeyRange range) noexcept
        : first_(range.begin), size_(static_cast<size_t>(range.key_count())) {}

    [[nodiscard]] size_t size() const noexcept { return size_; }

    /// `count` keys, from key `begin` on.
    [[nodiscard]] CallKeys part(size_t begin, size_t count) const noexcept {
        if (list_ != nullptr) return CallKeys(std::span(list_ + begin, count));
        return CallKeys(KeyRange{first_ + begin, first_ + begin + count});
    }

    /// Of a list its keys; null: a range.
    [[nodiscard]] const uint64_t* list() const noexcept { return list_; }

    [[nodiscard]] uint64_t operator[](size_t i) const noexcept {
        return list_ != nullptr ? list_[i] : first_ + i;
    }

    /// How many keys are below this one, of those from place `from` on, where all before are. It looks near
    /// `from` first.
    [[nodiscard]] size_t place_of(uint64_t key, size_t from = 0) const noexcept {
        if (list_ == nullptr) {
            if (key <= first_) return from;
            return std::max(from, static_cast<size_t>(std::min<uint64_t>(key - first_, size_)));
        }
        for (int near = 0; near < 4; ++near, ++from) {
            if (from >= size_ || list_[from] >= key) return from;
        }
        size_t step = 4;
        size_t end = from;
        while (end < size_ && list_[end] < key) {
            from = end + 1;
            end = std::min(size_, from + step);
            step *= 2;
        }
        return static_cast<size_t>(
            std::lower_bound(list_ + from, list_ + std::min(end, size_), key) - list_);
    }

    friend bool operator==(const CallKeys& a, const CallKeys& b) noexcept {
        if (a.size_ != b.size_) return false;
        if (a.size_ == 0) return true;
        if (a.list_ == b.list_) return a.list_ != nullptr || a.first_ == b.first_;
        if (a.list_ == nullptr) return b.is_run_from(a.first_);
        if (b.list_ == nullptr) return a.is_run_from(b.first_);
        return std::equal(a.list_, a.list_ + a.size_, b.list_);
    }

private:
    /// A list whose keys follow each other: the ends tell, because they ascend.
    [[nodiscard]] bool is_run_from(uint64_t first) const noexcept {
        return list_[0] == first && list_[size_ - 1] - first == size_ - 1;
    }

    const uint64_t* list_ = nullptr;
    uint64_t first_ = 0;
    size_t size_;
};

}  // namespace weir
