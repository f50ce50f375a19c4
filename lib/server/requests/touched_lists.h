// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TouchedLists: in which segments the key lists of pushes have keys, so that a list that comes by
/// its hash raises the right times. There is one for all tables of a shard.

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/key/key_list.h"
#include "lib/key/position.h"
#include "lib/vclock/range_clock.h"
#include "lib/vclock/segment_list.h"

namespace weir {

/// The segments in which a push has keys: a run, or those of a list, or none.
struct Touched {
    SegmentRun run;
    const TouchedSegments* list = nullptr;  ///< valid until TouchedLists::look_up()

    /// `held`: the segments to which they refer.
    void raise(RangeClock& clock, const SegmentList& held, uint64_t time) const {
        list != nullptr ? clock.raise(held, *list, time) : clock.raise(held, run, time);
    }
};

/// A list that is not found comes in full once more, so any may be forgotten at any time.
///
/// Thread: the shard's
class TouchedLists {
public:
    explicit TouchedLists(size_t bytes_max) noexcept : bytes_max_(bytes_max) {}

    /// nullptr if they are not known, or only those of another generation of `held`.
    [[nodiscard]] const TouchedSegments* find(uint32_t table, const ListId& id,
                                              const SegmentList& held) const;
    /// The segments in which these keys lie. Remembers them if the list is long enough to come by
    /// its hash, and is still `id`: its sender may change it while it is read. Forgets all other lists
    /// if there is no room. Valid until the next call.
    [[nodiscard]] const TouchedSegments& look_up(uint32_t table, const PositionMap& positions,
                                                 std::span<const uint64_t> keys, const ListId& id,
                                                 const SegmentList& held);

    [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

private:
    struct Entry {
        uint32_t table = 0;
        ListId id;
        TouchedSegments touched;
    };

    /// Marks the segments of some keys of the list.
    void mark(const PositionMap& positions, std::span<const uint64_t> keys,
              const SegmentList& held);
    void remember(uint32_t table, const ListId& id, const TouchedSegments& touched);
    [[nodiscard]] static uint64_t place(uint32_t table, const ListId& id) noexcept;
    [[nodiscard]] static size_t bytes_of(const TouchedSegments& touched) noexcept;

    size_t bytes_max_;
    size_t bytes_ = 0;
    SegmentMarks marks_;
    ListHasher hasher_;
    std::vector<uint64_t> block_;
    std::unordered_map<uint64_t, Entry> by_place_;  ///< of lists with the same place, the last one
};

}  // namespace weir
