// SPDX-License-Identifier: Apache-2.0
#include "lib/store/sparse_store.h"

#include <algorithm>

#include "lib/store/row_copy.h"

namespace weir {

Status SparseStore::find_or_insert_rows(std::span<const uint64_t> keys, std::span<uint32_t> rows) {
    WEIR_CHECK(rows.size() == keys.size());
    // So few at a time that the buckets that find() read are still in cache for insert_missing().
    constexpr size_t kChunk = 1024;
    for (size_t begin = 0; begin < keys.size(); begin += kChunk) {
        const size_t count = std::min(kChunk, keys.size() - begin);
        const auto some_keys = keys.subspan(begin, count);
        const auto some_rows = rows.subspan(begin, count);
        if (index_.has_room_for(count) && rows_.capacity() >= index_.size() + count) {
            index_.upsert(some_keys, some_rows);
            continue;
        }
        const size_t missing = index_.find(some_keys, some_rows);
        if (missing == 0) continue;
        WEIR_TRY(reserve_rows(index_.size() + missing));
        WEIR_TRY(index_.insert_missing(some_keys, some_rows, missing));
    }
    return {};
}

Status SparseStore::reserve_rows(size_t row_count) {
    // If the number of keys is known before, all rows lie side by side, memory permitting.
    if (row_count <= expected_keys_) {
        if (rows_.reserve(expected_keys_)) return {};
        expected_keys_ = 0;  // too little memory: grow step by step
    }
    return rows_.reserve(row_count);
}

void SparseStore::pull(std::span<const uint32_t> rows, std::byte* out) const noexcept {
    copy_rows(rows_.view(), rows, values_bytes_, rows_.initial().data(), out);
}

}  // namespace weir
