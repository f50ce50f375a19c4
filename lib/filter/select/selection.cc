// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/pack/pack_rows.h"
#include "lib/filter/select/selector.h"

namespace weir {

void Selection::keep_all(const PushedRows& push) {
    reset_bits(kept, push.keys.size(), true);
    kept_count = push.keys.size();
    values.assign(push.values.begin(), push.values.end());
}

void Selection::keep_of(std::span<const std::byte> rows, size_t row_bytes) {
    kept_count = 0;
    values.clear();
    add_kept(kept, rows, row_bytes);
}

void Selection::begin(size_t key_count) {
    reset_bits(kept, key_count);
    kept_count = 0;
    values.clear();
}

void Selection::add_kept(std::span<const std::byte> of_next, std::span<const std::byte> rows,
                         size_t row_bytes) {
    const size_t before = values.size();
    const size_t count = count_bits(of_next);
    values.resize(before + count * row_bytes);
    pack_rows(rows, row_bytes, of_next, std::span(values).subspan(before));
    kept_count += count;
}

}  // namespace weir
