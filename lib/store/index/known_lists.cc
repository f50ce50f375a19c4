// SPDX-License-Identifier: Apache-2.0
#include "lib/store/index/known_lists.h"

#include <utility>

#include <fmt/core.h>

namespace weir {

/// If two lists have the same place, only the later one is remembered.
uint64_t KnownLists::place(uint32_t table, const ListId& id) noexcept {
    return id.hash + table * 0x9e3779b97f4a7c15ULL;
}

size_t KnownLists::bytes_of(const KnownList& list) noexcept {
    return list.rows.bytes() + kEntryBytes + list.segments.runs().size_bytes();
}

KnownLists::Entry KnownLists::find(uint32_t table, const ListId& id) {
    const auto found = by_place_.find(place(table, id));
    if (found == by_place_.end()) return nullptr;
    const auto entry = found->second;
    if ((*entry)->table != table || (*entry)->id != id) return nullptr;
    by_age_.splice(by_age_.begin(), by_age_, entry);
    return *entry;
}

Result<KnownLists::Entry> KnownLists::known(uint32_t table, const ListId& id,
                                            const SegmentList* held) {
    Entry entry = find(table, id);
    const bool is_known =
        entry != nullptr && entry->rows && (held == nullptr || entry->touches(*held));
    if (!is_known) return unknown(id);
    return entry;
}

Error KnownLists::unknown(const ListId& id) {
    return Error(Errc::kUnknownList, fmt::format("the list of {} keys with hash {:016x} is not "
                                                 "remembered; send it in full",
                                                 id.count, id.hash));
}

/// False: what is in use leaves no room for so many more bytes.
bool KnownLists::make_room(size_t bytes) noexcept {
    for (auto entry = by_age_.end(); bytes_ + bytes > budget_bytes_ && entry != by_age_.begin();) {
        --entry;
        if (entry->use_count() == 1) entry = forget(entry);
    }
    return bytes_ + bytes <= budget_bytes_;
}

Block KnownLists::reserve(size_t key_count) {
    const size_t bytes = key_count * sizeof(uint32_t);
    if (key_count < kRememberedKeysMin || bytes + kEntryBytes > budget_bytes_) return {};
    if (!make_room(bytes + kEntryBytes)) return {};
    return {memory_, bytes};
}

KnownLists::Entry KnownLists::add(KnownList&& list) {
    const uint64_t at = place(list.table, list.id);
    const auto found = by_place_.find(at);
    if (found != by_place_.end()) forget(found->second);
    bytes_ += bytes_of(list);
    if (list.rows) ++list_count_;
    by_age_.push_front(std::make_shared<KnownList>(std::move(list)));
    by_place_[at] = by_age_.begin();
    return by_age_.front();
}

KnownLists::Entry KnownLists::keep(uint32_t table, const ListId& id, Block rows,
                                   const PositionSlices& touched) {
    return add({.table = table, .id = id, .positions = touched, .rows = std::move(rows)});
}

KnownLists::Entry KnownLists::keep_without_rows(uint32_t table, const ListId& id) {
    if (!make_room(kEntryBytes)) return nullptr;
    return add({.table = table, .id = id, .positions = PositionSlices::whole_ring()});
}

void KnownLists::set_segments(KnownList& list, const TouchedSegments& segments) {
    const auto found = by_place_.find(place(list.table, list.id));
    WEIR_CHECK(found != by_place_.end() && found->second->get() == &list);
    bytes_ -= bytes_of(list);
    list.segments = segments;
    bytes_ += bytes_of(list);
    if (!make_room(0)) forget(found->second);
}

void KnownLists::forget(uint32_t table, const PositionSlices& positions) noexcept {
    for (auto entry = by_age_.begin(); entry != by_age_.end();) {
        const bool is_hit = (*entry)->table == table && (*entry)->positions.intersects(positions);
        entry = is_hit ? forget(entry) : std::next(entry);
    }
}

void KnownLists::forget_streamed() noexcept {
    for (const Entry& entry : by_age_) {
        entry->streamed = {};
        entry->streamed_in = 0;
    }
}

size_t KnownLists::give_back(size_t bytes) noexcept {
    size_t freed = 0;
    for (auto entry = by_age_.end(); freed < bytes && entry != by_age_.begin();) {
        --entry;
        if (entry->use_count() > 1 || !(*entry)->rows) continue;  // an open request uses it
        freed += (*entry)->rows.bytes();
        entry = forget(entry);
    }
    return freed;
}

/// It may be in use, and then goes when that ends: what is counted is what is remembered.
KnownLists::ByAge::iterator KnownLists::forget(ByAge::iterator entry) noexcept {
    WEIR_CHECK(bytes_ >= bytes_of(**entry));
    bytes_ -= bytes_of(**entry);
    if ((*entry)->rows) --list_count_;
    by_place_.erase(place((*entry)->table, (*entry)->id));
    return by_age_.erase(entry);
}

}  // namespace weir
