// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstring>

#include "lib/base/check.h"
#include "lib/filter/select/selector.h"

namespace weir::filter {
namespace {

/// `kBytes`: of a row, known when this is compiled; else 0.
template <size_t kBytes>
size_t compact(std::span<const std::byte> kept, const std::byte* rows, size_t row_bytes,
               std::byte* to) noexcept {
    const size_t bytes = kBytes != 0 ? kBytes : row_bytes;
    size_t count = 0;
    for (size_t word = 0; word < kept_words(kept); ++word) {
        uint64_t bits = kept_word(kept, word);
        const std::byte* const from = rows + 64 * word * bytes;
        // Runs: in a call most neighbours are kept, or most are not.
        while (bits != 0) {
            const auto begin = static_cast<size_t>(std::countr_zero(bits));
            const auto run = static_cast<size_t>(std::countr_one(bits >> begin));
            std::memcpy(to + count * bytes, from + begin * bytes, run * bytes);
            count += run;
            if (begin + run == 64) break;
            bits &= ~uint64_t{0} << (begin + run);
        }
    }
    return count;
}

}  // namespace

size_t compact_rows(std::span<const std::byte> kept, std::span<const std::byte> rows,
                    size_t row_bytes, std::byte* to) noexcept {
    if (row_bytes == 4) return compact<4>(kept, rows.data(), row_bytes, to);
    if (row_bytes == 8) return compact<8>(kept, rows.data(), row_bytes, to);
    return compact<0>(kept, rows.data(), row_bytes, to);
}

void Selection::keep_all(const PushedRows& push) {
    reset_kept(kept, push.keys.size(), true);
    kept_count = push.keys.size();
    values.assign(push.values.begin(), push.values.end());
    rounded.clear();
}

void Selection::keep_of(std::span<const std::byte> rows, size_t row_bytes) {
    kept_count = 0;
    values.clear();
    rounded.clear();
    add_kept(kept, rows, row_bytes);
}

void Selection::begin(size_t key_count) {
    reset_kept(kept, key_count);
    kept_count = 0;
    values.clear();
    rounded.clear();
}

void Selection::add_kept(std::span<const std::byte> of_next, std::span<const std::byte> rows,
                         size_t row_bytes) {
    const size_t count = count_bits(of_next);
    values.resize((kept_count + count) * row_bytes);
    const size_t copied =
        compact_rows(of_next, rows, row_bytes, values.data() + kept_count * row_bytes);
    WEIR_CHECK(copied == count);
    kept_count += count;
}

}  // namespace weir::filter
