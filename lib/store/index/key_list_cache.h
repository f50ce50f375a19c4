// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KeyListCache: remembers the rows of key lists, so that a repeated list costs no look-ups.
/// There is one for all tables of a shard.

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "lib/key/key_list.h"
#include "lib/key/position_slices.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"

namespace weir {

/// Rows by table and list; the least recently used are forgotten first. Rows keep their numbers, so an
/// entry is right until rows of it are dropped, or change their role. Each entry notes which
/// positions it touches, and is forgotten when one of them is given up: so whoever finds a list
/// need not look whether its keys are still held. A list with keys that have no row yet is not
/// final and must not be kept. The shard itself computes the hash of an entry from keys that
/// it has read; it never relies on a peer's hash.
///
/// Thread: owning shard
class KeyListCache final : public Reclaimable {
public:
    /// What an entry takes beside its rows, with its places in two containers.
    static constexpr size_t kEntryBytes = 256;

    /// The rows of a list, uint32_t each. They stay valid while a reference is held.
    using Rows = std::shared_ptr<const Block>;

    KeyListCache(Memory& memory, size_t budget_bytes)
        : memory_(memory), budget_bytes_(budget_bytes) {}

    /// The rows of a remembered list; nullptr if it is not remembered.
    [[nodiscard]] Rows find(uint32_t table, const ListId& id);

    /// Room for a list's rows, to be filled and then passed to keep() or dropped. Forgets old
    /// lists to stay within the budget. Empty if the list is short, too large for the budget, or
    /// memory is short.
    [[nodiscard]] Block reserve(size_t key_count);

    /// Remembers `rows`, a Block from reserve(), as those of `id`. `touched` has the position of
    /// every key of the list.
    Rows keep(uint32_t table, const ListId& id, Block rows,
              const PositionSlices& touched = PositionSlices::whole_ring());

    /// Forgets the lists of `table` that touch any of `positions`.
    void forget(uint32_t table, const PositionSlices& positions) noexcept;

    size_t give_back(size_t bytes) noexcept override;

    [[nodiscard]] size_t list_count() const noexcept { return by_age_.size(); }

    /// What the rows and their entries take.
    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

private:
    struct Entry {
        uint32_t table;
        ListId id;
        PositionSlices touched;
        Rows rows;
    };

    using ByAge = std::list<Entry>;

    [[nodiscard]] static uint64_t place(uint32_t table, const ListId& id) noexcept;
    /// Returns the next older entry.
    ByAge::iterator forget(ByAge::iterator entry) noexcept;

    Memory& memory_;
    size_t budget_bytes_;
    size_t bytes_ = 0;
    ByAge by_age_;  // most recently used first
    std::unordered_map<uint64_t, ByAge::iterator> by_place_;
};

}  // namespace weir
