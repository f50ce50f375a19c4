// SPDX-License-Identifier: Apache-2.0
#include "lib/store/key_list_cache.h"

namespace weir {

std::optional<std::span<const uint32_t>> KeyListCache::find(const ListId& id) {
    const auto found = by_hash_.find(id.hash);
    if (found == by_hash_.end() || found->second->id != id) return std::nullopt;
    by_age_.splice(by_age_.begin(), by_age_, found->second);
    return std::span(found->second->rows.as<const uint32_t>(), id.count);
}

Block KeyListCache::reserve(size_t key_count) {
    const size_t bytes = key_count * sizeof(uint32_t);
    if (key_count < kKeyCountMin || bytes > budget_bytes_) return {};
    while (bytes_ > budget_bytes_ - bytes)
        forget(std::prev(by_age_.end()));
    Block rows(memory_, bytes);
    while (!rows && !by_age_.empty()) {
        forget(std::prev(by_age_.end()));
        rows = Block(memory_, bytes);
    }
    return rows;
}

std::span<const uint32_t> KeyListCache::keep(const ListId& id, Block rows) {
    const auto found = by_hash_.find(id.hash);
    if (found != by_hash_.end()) forget(found->second);
    bytes_ += rows.bytes();
    by_age_.push_front({id, std::move(rows)});
    by_hash_[id.hash] = by_age_.begin();
    return {by_age_.front().rows.as<const uint32_t>(), id.count};
}

void KeyListCache::forget(std::list<Entry>::iterator entry) {
    bytes_ -= entry->rows.bytes();
    by_hash_.erase(entry->id.hash);
    by_age_.erase(entry);
}

}  // namespace weir
