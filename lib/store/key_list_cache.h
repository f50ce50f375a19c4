// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyListCache: where the keys of lists seen before lie, so that a repeated list costs no
/// look-ups. One for all tables of a shard.

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "lib/key/key_list.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"

namespace weir {

/// Rows by table and list, the least recently used forgotten first. Rows never move and keys are
/// never removed, so an entry stays right for ever; what is not final (a list with keys that have
/// no row yet) must not be kept. The hash of an entry is the owner's own, of keys it has read,
/// never a peer's word.
///
/// Thread: owning shard.
class KeyListCache final : public Reclaimable {
public:
    /// Shorter lists are cheaper to look up than to remember. Senders must know: such a list is
    /// always sent in full.
    static constexpr size_t kKeyCountMin = 16;

    /// What a list takes beside its rows: the entry, its place in two containers.
    static constexpr size_t kEntryBytes = 256;

    /// A list's rows, uint32_t each; they live as long as somebody holds them.
    using Rows = std::shared_ptr<const Block>;

    KeyListCache(Memory& memory, size_t budget_bytes)
        : memory_(memory), budget_bytes_(budget_bytes) {}

    /// The rows of a remembered list; nullptr if it is not.
    [[nodiscard]] Rows find(uint32_t table, const ListId& id);

    /// Room for a list's rows, to be filled and then kept or dropped. Forgets what is beyond the
    /// budget; empty if the list is short, too large for the budget, or memory is short.
    [[nodiscard]] Block reserve(size_t key_count);

    /// Remembers `rows`, a Block from reserve(), as those of `id`.
    Rows keep(uint32_t table, const ListId& id, Block rows);

    size_t give_back(size_t bytes) noexcept override;

    [[nodiscard]] size_t list_count() const noexcept { return by_age_.size(); }

    /// Of the rows, and of all that is kept about them.
    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

private:
    struct Entry {
        uint32_t table;
        ListId id;
        Rows rows;
    };

    using ByAge = std::list<Entry>;

    [[nodiscard]] static uint64_t place(uint32_t table, const ListId& id) noexcept;
    /// Returns the next older one.
    ByAge::iterator forget(ByAge::iterator entry) noexcept;

    Memory& memory_;
    size_t budget_bytes_;
    size_t bytes_ = 0;
    ByAge by_age_;  // most recently used first
    std::unordered_map<uint64_t, ByAge::iterator> by_place_;
};

}  // namespace weir
