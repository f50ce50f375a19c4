// SPDX-License-Identifier: Apache-2.0
#include "lib/store/free_rows.h"

#include <algorithm>
#include <bit>

#include "lib/base/check.h"

namespace weir {
namespace {

constexpr size_t kWordRows = 64;

/// Calls use(word's index, bits) for each word that has some of these rows.
template <class Use>
void each_word(uint32_t first, uint32_t row_count, Use use) {
    const size_t end = size_t{first} + row_count;
    for (size_t row = first; row < end;) {
        const size_t some = std::min(end - row, kWordRows - row % kWordRows);
        use(row / kWordRows, (~uint64_t{0} >> (kWordRows - some)) << (row % kWordRows));
        row += some;
    }
}

}  // namespace

void FreeRows::add(uint32_t row) {
    const size_t word = row / kWordRows;
    if (word >= words_.size()) words_.resize(std::max(word + 1, words_.size() * 2));
    const uint64_t bit = uint64_t{1} << (row % kWordRows);
    WEIR_CHECK((words_[word] & bit) == 0);
    words_[word] |= bit;
    first_word_ = std::min(first_word_, word);
    ++count_;
}

void FreeRows::add_run(uint32_t first, uint32_t row_count) {
    if (row_count == 0) return;
    const size_t last_word = (size_t{first} + row_count - 1) / kWordRows;
    if (last_word >= words_.size()) words_.resize(last_word + 1);
    each_word(first, row_count, [&](size_t word, uint64_t bits) { words_[word] |= bits; });
    first_word_ = std::min<size_t>(first_word_, first / kWordRows);
    count_ += row_count;
}

void FreeRows::remove_run(uint32_t first, uint32_t row_count) noexcept {
    each_word(first, row_count, [&](size_t word, uint64_t bits) { words_[word] &= ~bits; });
    count_ -= row_count;
}

bool FreeRows::has_run(uint32_t first, uint32_t row_count) const noexcept {
    bool all = true;
    each_word(first, row_count, [&](size_t word, uint64_t bits) {
        all = all && word < words_.size() && (words_[word] & bits) == bits;
    });
    return all;
}

void FreeRows::take(std::span<uint32_t> rows) noexcept {
    WEIR_CHECK(rows.size() <= count_);
    count_ -= rows.size();
    for (uint32_t& row : rows) {
        while (words_[first_word_] == 0)
            ++first_word_;
        uint64_t& word = words_[first_word_];
        row = static_cast<uint32_t>(first_word_ * kWordRows) +
              static_cast<uint32_t>(std::countr_zero(word));
        word &= word - 1;
    }
}

void FreeRows::clear() noexcept {
    words_.clear();
    words_.shrink_to_fit();
    first_word_ = 0;
    count_ = 0;
}

}  // namespace weir
