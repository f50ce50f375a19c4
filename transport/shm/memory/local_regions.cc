// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory/local_regions.h"

namespace weir::transport::shm {

namespace {

bool contains(std::span<const std::byte> outer, std::span<const std::byte> inner) noexcept {
    const auto begin = reinterpret_cast<uintptr_t>(outer.data());
    const auto at = reinterpret_cast<uintptr_t>(inner.data());
    return at >= begin && is_inside(at - begin, inner.size(), outer.size());
}

}  // namespace

const RegionSnapshot& LocalRegions::now() {
    const uint64_t generation = table_.generation();
    if (snapshot_ == nullptr || generation != generation_) {
        generation_ = generation;
        snapshot_ = table_.snapshot();
        last_ = nullptr;
    }
    return *snapshot_;
}

bool LocalRegions::is_registered(std::span<const std::byte> memory) {
    if (memory.empty()) return true;
    const RegionSnapshot& all = now();
    if (last_ == nullptr || !contains(last_->bytes, memory)) last_ = all.find(memory);
    return last_ != nullptr;
}

}  // namespace weir::transport::shm
