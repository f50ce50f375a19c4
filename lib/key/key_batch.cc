// SPDX-License-Identifier: Apache-2.0
#include "lib/key/key_batch.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

namespace weir {
namespace {

constexpr size_t kDigits = sizeof(uint64_t);
constexpr size_t kRadix = 256;
/// With fewer keys, comparing them is faster than counting digits.
constexpr size_t kCountedMin = 512;

constexpr size_t digit(uint64_t key, size_t i) {
    return (key >> (8 * i)) & (kRadix - 1);
}

}  // namespace

std::span<const uint64_t> KeyBatch::keys() const& noexcept {
    return keys_;
}

std::span<const uint32_t> KeyBatch::places() const noexcept {
    return places_;
}

std::span<const uint32_t> KeyBatch::counts() const noexcept {
    return counts_;
}

void KeyBatch::begin(size_t key_count) {
    if (key_count >= std::numeric_limits<uint32_t>::max()) {
        std::fprintf(stderr, "weir: KeyBatch: %zu keys are too many; a batch has up to 2^32 - 2\n",
                     key_count);
        std::abort();
    }
    if (kept_.rows != nullptr && kept_.rows->is_in_use()) {
        std::fprintf(stderr,
                     "weir: KeyBatch::assign: a push or pull of the batch before has not "
                     "ended; wait for its task first\n");
        std::abort();
    }
    items_.resize(key_count);
}

void KeyBatch::find_places() {
    sort();
    keys_.clear();
    counts_.clear();
    places_.resize(items_.size());
    for (const Item& item : items_) {
        if (keys_.empty() || keys_.back() != item.key) {
            keys_.push_back(item.key);
            counts_.push_back(0);
        }
        ++counts_.back();
        places_[item.place] = static_cast<uint32_t>(keys_.size() - 1);
    }
}

void KeyBatch::wrong_sizes(const char* call, size_t rows, size_t callers,
                           size_t width) const noexcept {
    std::fprintf(stderr,
                 "weir: KeyBatch::%s: the rows of keys() have %zu values, and need %zu; those of "
                 "the caller's keys have %zu, and need %zu\n",
                 call, rows, keys_.size() * width, callers, places_.size() * width);
    std::abort();
}

/// Radix sort from the lowest digit on; each pass keeps the order of equal digits. A digit that
/// all keys share is skipped.
void KeyBatch::sort() {
    const auto less = [](const Item& a, const Item& b) { return a.key < b.key; };
    if (std::is_sorted(items_.begin(), items_.end(), less)) return;
    if (items_.size() < kCountedMin) return std::sort(items_.begin(), items_.end(), less);
    std::array<std::array<uint32_t, kRadix>, kDigits> counts{};
    for (const Item& item : items_) {
        for (size_t i = 0; i < kDigits; ++i)
            ++counts[i][digit(item.key, i)];
    }
    other_.resize(items_.size());
    for (size_t i = 0; i < kDigits; ++i) {
        std::array<uint32_t, kRadix>& ends = counts[i];
        if (ends[digit(items_[0].key, i)] == items_.size()) continue;
        uint32_t begin = 0;
        for (uint32_t& end : ends)
            begin += std::exchange(end, begin);
        for (const Item& item : items_)
            other_[ends[digit(item.key, i)]++] = item;
        items_.swap(other_);
    }
}

}  // namespace weir
