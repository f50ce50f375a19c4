// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/touched_lists.h"

#include <algorithm>

namespace weir {
namespace {

constexpr size_t kBlockKeys = 512;

}  // namespace

uint64_t TouchedLists::place(uint32_t table, const ListId& id) noexcept {
    return id.hash + table * 0x9e3779b97f4a7c15ULL;
}

size_t TouchedLists::bytes_of(const TouchedSegments& touched) noexcept {
    constexpr size_t kNodeBytes = 4 * sizeof(void*);
    return sizeof(decltype(by_place_)::value_type) + kNodeBytes +
           touched.runs().size() * sizeof(SegmentRun);
}

const TouchedSegments* TouchedLists::find(uint32_t table, const ListId& id,
                                          const SegmentList& held) const {
    const auto found = by_place_.find(place(table, id));
    if (found == by_place_.end()) return nullptr;
    const Entry& entry = found->second;
    const bool is_it =
        entry.table == table && entry.id == id && entry.touched.generation() == held.generation();
    return is_it ? &entry.touched : nullptr;
}

const TouchedSegments& TouchedLists::look_up(uint32_t table, const PositionMap& positions,
                                             std::span<const uint64_t> keys, const ListId& id,
                                             const SegmentList& held) {
    const bool comes_by_hash = keys.size() >= kRememberedKeysMin;
    if (comes_by_hash) hasher_.reset(keys.size());
    marks_.reset(held);
    size_t begin = 0;
    for (; begin < keys.size() && !marks_.has_all(); begin += block_.size()) {
        const auto block = keys.subspan(begin, std::min(kBlockKeys, keys.size() - begin));
        block_.assign(block.begin(), block.end());  // what is marked is what is hashed
        if (comes_by_hash) hasher_.add(block_);
        mark(positions, block_, held);
    }
    // Random keys soon lie in all segments: the rest of a long list is only hashed, where it lies.
    if (comes_by_hash) hasher_.add(keys.subspan(begin));
    const TouchedSegments& touched = marks_.touched();
    if (comes_by_hash && hasher_.hash() == id.hash) remember(table, id, touched);
    return touched;
}

void TouchedLists::mark(const PositionMap& positions, std::span<const uint64_t> keys,
                        const SegmentList& held) {
    for (auto key = keys.begin(); key != keys.end(); ++key) {
        const uint32_t segment = held.find(positions.position(*key));
        if (segment == SegmentList::kNone) continue;
        marks_.mark(segment);
        if (!positions.is_dense()) continue;
        // The keys that follow in the same segment are skipped: a position costs a division.
        const uint64_t end_key = positions.end_key_at(held.segments()[segment].last);
        key = std::lower_bound(key + 1, keys.end(), end_key) - 1;
    }
}

void TouchedLists::remember(uint32_t table, const ListId& id, const TouchedSegments& touched) {
    const size_t bytes = bytes_of(touched);
    const auto before = by_place_.find(place(table, id));
    if (before != by_place_.end()) {
        bytes_ -= bytes_of(before->second.touched);
        by_place_.erase(before);
    }
    if (bytes > bytes_max_) return;
    if (bytes_ + bytes > bytes_max_) {
        by_place_.clear();
        bytes_ = 0;
    }
    by_place_.emplace(place(table, id), Entry{table, id, touched});
    bytes_ += bytes;
}

}  // namespace weir
