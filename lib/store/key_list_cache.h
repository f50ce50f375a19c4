// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyListCache: where the keys of lists seen before lie, so that a repeated list costs no
/// look-ups.

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>

#include "lib/key/key_list.h"
#include "lib/store/memory.h"

namespace weir {

/// Rows by list, the least recently used forgotten first. Rows never move and keys are never
/// removed, so an entry stays right for ever; what is not final (a list with keys that have no row
/// yet) must not be kept. The hash of an entry is the owner's own, of keys it has read, never a
/// peer's word.
///
/// Thread: owning shard.
class KeyListCache {
public:
    /// Shorter lists are cheaper to look up than to remember. Senders must know: such a list is
    /// always sent in full.
    static constexpr size_t kKeyCountMin = 16;

    KeyListCache(Memory& memory, size_t budget_bytes)
        : memory_(memory), budget_bytes_(budget_bytes) {}

    /// The rows of a remembered list; valid until the next non-const call.
    [[nodiscard]] std::optional<std::span<const uint32_t>> find(const ListId& id);

    /// Room for a list's rows, to be filled and then kept or dropped. Forgets what is in the way;
    /// empty if the list is short, too large for the budget, or memory is short.
    [[nodiscard]] Block reserve(size_t key_count);

    /// Remembers `rows`, a Block from reserve(), as those of `id`.
    std::span<const uint32_t> keep(const ListId& id, Block rows);

    [[nodiscard]] size_t list_count() const noexcept { return by_age_.size(); }

    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

private:
    struct Entry {
        ListId id;
        Block rows;
    };

    void forget(std::list<Entry>::iterator entry);

    Memory& memory_;
    size_t budget_bytes_;
    size_t bytes_ = 0;
    std::list<Entry> by_age_;  // most recently used first
    std::unordered_map<uint64_t, std::list<Entry>::iterator> by_hash_;
};

}  // namespace weir
