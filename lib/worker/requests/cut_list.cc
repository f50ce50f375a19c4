// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/cut_list.h"

#include <algorithm>
#include <tuple>

namespace weir {

CutList::CutList(std::span<const uint64_t> keys, std::span<const uint32_t> rows, const View& view,
                 const PositionMap& positions, SplitBy by) {
    struct Place {
        uint64_t of = 0;  ///< its segment or shard
        uint32_t index = 0;
    };

    std::vector<Place> places(keys.size());
    for (uint32_t i = 0; i < keys.size(); ++i) {
        const size_t segment = view.segment_index(positions.position(keys[i]));
        places[i] = {by == SplitBy::kSegment ? segment : view.segments()[segment].primary, i};
    }
    std::ranges::sort(places, {}, [](const Place& p) { return std::tuple(p.of, p.index); });
    keys_.reserve(keys.size());
    rows_.reserve(keys.size());
    for (size_t i = 0; i < places.size(); ++i) {
        const uint32_t index = places[i].index;
        if (i == 0 || places[i].of != places[i - 1].of) {
            const uint64_t position = positions.position(keys[index]);
            pieces_.push_back({view.owner(position), position, i, 0});
        }
        ++pieces_.back().count;
        keys_.push_back(keys[index]);
        rows_.push_back(rows.empty() ? index : rows[index]);
    }
}

}  // namespace weir
