// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KnownLists: what a shard knows of key lists that come by their hash: their rows, the segments in
/// which they have keys, and, while streams carry them, their keys. There is one for all tables of
/// a shard, and whether a list is known is decided here alone.

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_list.h"
#include "lib/key/position_slices.h"
#include "lib/store/memory.h"
#include "lib/store/memory_with_caches.h"
#include "lib/vclock/segment_list.h"

namespace weir {

/// The keys of a list that the stream to one learner carries, as Streams finds them.
struct StreamedKeys {
    uint32_t learner = 0;  ///< its shard
    uint64_t number = 0;   ///< by which the learner knows these keys; 0: it does not
    std::vector<uint64_t> keys = {};
    std::vector<uint32_t> places = {};         ///< of these keys in the list; none: the same
    std::vector<PositionRange> segments = {};  ///< that they are in; ascending
    bool has_come = false;                     ///< before
};

/// A list of one table. `rows` are right until rows of the list are dropped, or change their role:
/// then the list is forgotten.
struct KnownList {
    uint32_t table = 0;
    ListId id;
    PositionSlices positions;       ///< of all its keys
    Block rows = {};                ///< uint32_t each; none: only its keys are known
    TouchedSegments segments = {};  ///< in which it has keys; of their generation alone
    std::vector<StreamedKeys> streamed = {};
    uint64_t streamed_in = 0;  ///< the generation of Streams for which `streamed` is right; 0: none

    /// Whether it is known in which segments of `held` it has keys.
    [[nodiscard]] bool touches(const SegmentList& held) const noexcept {
        return segments.generation() == held.generation() && !segments.runs().empty();
    }
};

/// By table and list; the least recently used are forgotten first, but none that somebody holds. A
/// list whose keys have no row yet is not final and must not be kept. Who keeps a list has computed
/// its hash from the very keys whose rows it keeps; a peer's hash is never relied on.
///
/// Thread: owning shard
class KnownLists final : public Reclaimable {
public:
    /// What an entry takes beside its rows, with its places in two containers.
    static constexpr size_t kEntryBytes = 320;

    /// In use as long as a reference is held: it stays known then, unless forget() hits it.
    using Entry = std::shared_ptr<KnownList>;

    KnownLists(Memory& memory, size_t budget_bytes)
        : memory_(memory), budget_bytes_(budget_bytes) {}

    /// nullptr: it is not remembered.
    [[nodiscard]] Entry find(uint32_t table, const ListId& id);

    /// A list whose rows are known; if `held` is not null, with the segments of it that the list
    /// touches.
    /// Errors: Errc::kUnknownList
    [[nodiscard]] Result<Entry> known(uint32_t table, const ListId& id,
                                      const SegmentList* held = nullptr);

    /// What known() says of a list that it does not have.
    [[nodiscard]] static Error unknown(const ListId& id);

    /// Room for a list's rows, to be filled and then passed to keep() or dropped. Forgets old
    /// lists to stay within the budget. Empty if the list is short, too large for the budget, or
    /// memory is short.
    [[nodiscard]] Block reserve(size_t key_count);

    /// Remembers `rows`, a Block from reserve(), as those of `id`. `touched` has the position of
    /// every key of the list.
    Entry keep(uint32_t table, const ListId& id, Block rows,
               const PositionSlices& touched = PositionSlices::whole_ring());

    /// Remembers a list whose rows are not known. nullptr: there is no room.
    [[nodiscard]] Entry keep_without_rows(uint32_t table, const ListId& id);

    /// Remembers the segments of a list that is remembered. Forgets the list if there is no room for
    /// them.
    void set_segments(KnownList& list, const TouchedSegments& segments);

    /// For who finds the segments of the keys of one list.
    [[nodiscard]] SegmentMarks& marks() noexcept { return marks_; }

    /// Forgets the lists of `table` that touch any of `positions`.
    void forget(uint32_t table, const PositionSlices& positions) noexcept;

    /// Forgets which keys streams carry.
    void forget_streamed() noexcept;

    size_t give_back(size_t bytes) noexcept override;

    /// Of lists whose rows are known.
    [[nodiscard]] size_t list_count() const noexcept { return list_count_; }

    /// What rows, segments and entries take.
    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

private:
    using ByAge = std::list<Entry>;

    [[nodiscard]] static uint64_t place(uint32_t table, const ListId& id) noexcept;
    [[nodiscard]] static size_t bytes_of(const KnownList& list) noexcept;
    [[nodiscard]] bool make_room(size_t bytes) noexcept;
    Entry add(KnownList&& list);
    /// Returns the next older entry.
    ByAge::iterator forget(ByAge::iterator entry) noexcept;

    Memory& memory_;
    size_t budget_bytes_;
    size_t bytes_ = 0;
    size_t list_count_ = 0;
    ByAge by_age_;  // most recently used first
    std::unordered_map<uint64_t, ByAge::iterator> by_place_;
    SegmentMarks marks_;
};

}  // namespace weir
