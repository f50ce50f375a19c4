// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyIndex: which row a key of a sparse table has.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/store/memory.h"
#include "lib/store/row_store.h"

namespace weir {

/// Open addressing over cache lines. A bucket is one line of five keys with their rows; a full
/// bucket overflows into the next one. Keys come in lists: the
/// lines of the next 32 are on their way while one is compared. Bucket numbers are the leading bits
/// of a hash, so doubling the table reads and writes both tables from front to back. Any uint64 may
/// be a key; keys are never removed.
///
/// Thread: owning shard.
class KeyIndex {
public:
    static constexpr size_t kKeysPerBucket = 5;
    static constexpr uint32_t kRowCountMax = kNoRow - 1;

    /// `expected_keys` fit before the table first grows, if there is memory for so many.
    explicit KeyIndex(Memory& memory, size_t expected_keys = 0)
        : memory_(memory), expected_keys_(std::min<size_t>(expected_keys, kRowCountMax)) {}

    /// The row of each key, kNoRow for those that are not there; returns the number of these.
    /// Shape:   rows.size() == keys.size()
    size_t find(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept;

    /// Gives the keys whose row is kNoRow the next row numbers, in order, and writes them to
    /// `rows`. `rows` and `missing_count` are what find() said about `keys`, which must be
    /// distinct. Errors:  Errc::kNoMemory; the index is unchanged
    [[nodiscard]] Status insert_missing(std::span<const uint64_t> keys, std::span<uint32_t> rows,
                                        size_t missing_count);

    /// The number of keys, and so of rows: 0..size()-1.
    [[nodiscard]] size_t size() const noexcept { return size_; }

    [[nodiscard]] size_t bytes() const noexcept { return buckets_.bytes(); }

private:
    struct alignas(64) Bucket {
        uint64_t keys[kKeysPerBucket];
        uint32_t rows_plus_one[kKeysPerBucket];  // 0: free; filled from the front
        uint16_t used;                           // places that are not free
        uint16_t overflowed;                     // 1 if keys of this bucket stand in the next
    };

    static_assert(sizeof(Bucket) == 64);

    template <class Match>
    size_t find_with(Match match, std::span<const uint64_t> keys,
                     std::span<uint32_t> rows) const noexcept;
    size_t find_avx512(std::span<const uint64_t> keys, std::span<uint32_t> rows) const noexcept;
    [[nodiscard]] Status reserve(size_t key_count);
    [[nodiscard]] uint32_t find_behind(uint64_t key, size_t bucket) const noexcept;
    static void place(Bucket* buckets, size_t mask, size_t home, uint64_t key,
                      uint32_t row_plus_one) noexcept;
    void rehash(Bucket* to, size_t to_mask, uint32_t to_shift) const noexcept;

    Memory& memory_;
    Block buckets_;
    size_t expected_keys_;
    size_t bucket_count_ = 0;  // a power of two, or 0 before the first key
    uint32_t shift_ = 63;      // hash >> shift_ is the bucket
    size_t size_ = 0;
};

}  // namespace weir
