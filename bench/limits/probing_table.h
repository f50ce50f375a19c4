// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The hash table that a careful programmer writes for this one job: linear probing over {key,
/// value}, look-ups in prefetched batches. The limit for pushes of lists not seen
/// before.

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::limits {

/// Keys from 1 on (0 marks a free place); no deletion. Thread: one.
class ProbingTable {
public:
    struct Entry {
        uint64_t key;
        float value;
    };

    static_assert(sizeof(Entry) == 16);

    /// The number of entries for `key_count` keys: a power of two, at most three quarters full.
    [[nodiscard]] static size_t entries_for(size_t key_count) noexcept;

    /// `entries` is zeroed, its size a power of two.
    explicit ProbingTable(std::span<Entry> entries) noexcept;

    /// Adds deltas[i] to the value of keys[i], which comes into being if it is not there.
    void add(std::span<const uint64_t> keys, const float* deltas) noexcept;

    /// Goes on in `entries`, zeroed and larger; by sequential reads and writes.
    void grow(std::span<Entry> entries) noexcept;

    /// More keys than this should not be added before it has grown.
    [[nodiscard]] size_t capacity() const noexcept { return entries_.size() / 4 * 3; }

    [[nodiscard]] size_t entry_count() const noexcept { return entries_.size(); }

    [[nodiscard]] size_t size() const noexcept { return size_; }

private:
    std::span<Entry> entries_;
    uint32_t shift_;
    size_t size_ = 0;
};

}  // namespace weir::limits
