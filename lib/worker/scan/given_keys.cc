// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan/given_keys.h"

#include <algorithm>
#include <cstring>

namespace weir {

void GivenKeys::add(std::span<const uint64_t> keys) {
    while (!keys.empty()) {
        if (blocks_.empty() || blocks_.back().count == blocks_.back().room) add_block();
        Keys& last = blocks_.back();
        const size_t some = std::min(keys.size(), last.room - last.count);
        std::memcpy(last.data() + last.count, keys.data(), some * sizeof(uint64_t));
        last.count += some;
        count_ += some;
        keys = keys.subspan(some);
    }
}

/// As large as all before it together, within limits.
void GivenKeys::add_block() {
    constexpr size_t kRoomMin = size_t{1} << 12;
    constexpr size_t kRoomMax = size_t{1} << 17;
    Keys& next = blocks_.emplace_back();
    next.room = std::clamp(count_, kRoomMin, kRoomMax);
    next.block = Block::spare(*memory_, next.room * sizeof(uint64_t));
    if (!next.block) next.heap.resize(next.room);
}

void GivenKeys::move_to(std::vector<uint64_t>& keys) {
    for (Keys& block : blocks_)
        keys.insert(keys.end(), block.data(), block.data() + block.count);
    blocks_.clear();
    count_ = 0;
}

}  // namespace weir
