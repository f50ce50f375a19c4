// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/probing_table.h"

#include <algorithm>
#include <bit>

namespace weir::limits {

size_t ProbingTable::entries_for(size_t key_count) noexcept {
    return std::bit_ceil(key_count + key_count / 3 + 1);
}

ProbingTable::ProbingTable(std::span<Entry> entries) noexcept
    : entries_(entries), shift_(static_cast<uint32_t>(64 - std::countr_zero(entries.size()))) {}

void ProbingTable::add(std::span<const uint64_t> keys, const float* deltas) noexcept {
    constexpr size_t kAhead = 32;  // a power of two; the best of 8, 16, 32, 64 on Sapphire Rapids
    size_t home[kAhead];
    const auto ask = [&](size_t i) {
        home[i % kAhead] = (keys[i] * 0x9e3779b97f4a7c15ULL) >> shift_;
        __builtin_prefetch(&entries_[home[i % kAhead]], 1);
    };
    const size_t mask = entries_.size() - 1;
    for (size_t i = 0; i < std::min(kAhead, keys.size()); ++i)
        ask(i);
    for (size_t i = 0; i < keys.size(); ++i) {
        size_t at = home[i % kAhead];
        if (i + kAhead < keys.size()) ask(i + kAhead);
        while (entries_[at].key != keys[i] && entries_[at].key != 0)
            at = (at + 1) & mask;
        size_ += entries_[at].key == 0 ? 1 : 0;
        entries_[at].key = keys[i];
        entries_[at].value += deltas[i];
    }
}

void ProbingTable::grow(std::span<Entry> entries) noexcept {
    const ProbingTable before = *this;
    *this = ProbingTable(entries);
    size_ = before.size_;
    const size_t mask = entries_.size() - 1;
    for (const Entry& entry : before.entries_) {
        if (entry.key == 0) continue;
        size_t at = (entry.key * 0x9e3779b97f4a7c15ULL) >> shift_;
        while (entries_[at].key != 0)
            at = (at + 1) & mask;
        entries_[at] = entry;
    }
}

}  // namespace weir::limits
