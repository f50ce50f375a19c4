// SPDX-License-Identifier: Apache-2.0
#include "lib/store/index/key_list_cache.h"

namespace weir {

/// If two lists have the same place, only the later one is remembered.
uint64_t KeyListCache::place(uint32_t table, const ListId& id) noexcept {
    return id.hash + table * 0x9e3779b97f4a7c15ULL;
}

KeyListCache::Rows KeyListCache::find(uint32_t table, const ListId& id) {
    const auto found = by_place_.find(place(table, id));
    if (found == by_place_.end()) return nullptr;
    const auto entry = found->second;
    if (entry->table != table || entry->id != id) return nullptr;
    by_age_.splice(by_age_.begin(), by_age_, entry);
    return entry->rows;
}

Block KeyListCache::reserve(size_t key_count) {
    const size_t bytes = key_count * sizeof(uint32_t);
    if (key_count < kRememberedKeysMin || bytes + kEntryBytes > budget_bytes_) return {};
    while (bytes_ > budget_bytes_ - bytes - kEntryBytes)
        forget(std::prev(by_age_.end()));
    return {memory_, bytes};
}

KeyListCache::Rows KeyListCache::keep(uint32_t table, const ListId& id, Block rows,
                                      const PositionSlices& touched) {
    const auto found = by_place_.find(place(table, id));
    if (found != by_place_.end()) forget(found->second);
    bytes_ += rows.bytes() + kEntryBytes;
    by_age_.push_front({table, id, touched, std::make_shared<const Block>(std::move(rows))});
    by_place_[place(table, id)] = by_age_.begin();
    return by_age_.front().rows;
}

void KeyListCache::forget(uint32_t table, const PositionSlices& positions) noexcept {
    for (auto entry = by_age_.begin(); entry != by_age_.end();) {
        const bool is_hit = entry->table == table && entry->touched.intersects(positions);
        entry = is_hit ? forget(entry) : std::next(entry);
    }
}

size_t KeyListCache::give_back(size_t bytes) noexcept {
    size_t freed = 0;
    for (auto entry = by_age_.end(); freed < bytes && entry != by_age_.begin();) {
        --entry;
        if (entry->rows.use_count() > 1) continue;  // an open request uses them
        freed += entry->rows->bytes();
        entry = forget(entry);
    }
    return freed;
}

KeyListCache::ByAge::iterator KeyListCache::forget(ByAge::iterator entry) noexcept {
    bytes_ -= entry->rows->bytes() + kEntryBytes;
    by_place_.erase(place(entry->table, entry->id));
    return by_age_.erase(entry);
}

}  // namespace weir
