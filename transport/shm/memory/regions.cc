// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory/regions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>

#include "lib/base/log.h"
#include "transport/net/secret.h"

namespace weir::transport::shm {

namespace {

uintptr_t begin_of(std::span<const std::byte> bytes) {
    return reinterpret_cast<uintptr_t>(bytes.data());
}

uintptr_t end_of(std::span<const std::byte> bytes) {
    return begin_of(bytes) + bytes.size();
}

uint32_t random_tag() {
    uint32_t tag = 0;
    while (tag == 0) {
        const auto bytes = random_bytes();
        std::memcpy(&tag, bytes.data(), sizeof(tag));
    }
    return tag;
}

/// A copy of the block's descriptor if peers may map the block, else nullptr.
Result<std::shared_ptr<const Descriptor>> copy_of_fd(const MemoryBlock& block, Access access) {
    if (block.fd < 0 || access == Access::kLocal) return std::shared_ptr<const Descriptor>();
    if (!sealed_against_shrinking(block.fd)) {
        log(LogLevel::kWarning,
            "shm: registered memory of {} bytes comes with descriptor {}, which is not a memfd "
            "sealed with F_SEAL_SHRINK; peers cannot map it and must copy through the kernel",
            block.bytes.size(), block.fd);
        return std::shared_ptr<const Descriptor>();
    }
    auto copy = std::make_shared<Descriptor>(fcntl(block.fd, F_DUPFD_CLOEXEC, 0));
    if (!*copy) {
        return Error(Errc::kNoMemory,
                     "shm: no descriptor is left for registered memory (see `ulimit -n`)", errno);
    }
    return std::shared_ptr<const Descriptor>(std::move(copy));
}

}  // namespace

RegionSnapshot::RegionSnapshot(std::vector<ShmRegion> regions) : regions_(std::move(regions)) {
    std::sort(regions_.begin(), regions_.end(), [](const ShmRegion& a, const ShmRegion& b) {
        return begin_of(a.bytes) < begin_of(b.bytes);
    });
    uintptr_t end_max = 0;
    for (uint32_t i = 0; i < regions_.size(); ++i) {
        end_max = std::max(end_max, end_of(regions_[i].bytes));
        ends_max_.push_back(end_max);
        by_key_.emplace_back(regions_[i].key, i);
    }
    std::sort(by_key_.begin(), by_key_.end());
}

const ShmRegion* RegionSnapshot::find(std::span<const std::byte> memory) const noexcept {
    const uintptr_t begin = begin_of(memory);
    const uintptr_t end = end_of(memory);
    if (end < begin) return nullptr;
    auto next = static_cast<size_t>(std::upper_bound(regions_.begin(), regions_.end(), begin,
                                                     [](uintptr_t at, const ShmRegion& region) {
                                                         return at < begin_of(region.bytes);
                                                     }) -
                                    regions_.begin());
    const ShmRegion* local = nullptr;
    while (next > 0 && ends_max_[next - 1] >= end) {
        const ShmRegion& region = regions_[--next];
        if (end_of(region.bytes) < end) continue;
        if (region.access != Access::kLocal) return &region;
        local = &region;
    }
    return local;
}

const ShmRegion* RegionSnapshot::find_key(uint64_t key) const noexcept {
    const auto found = std::lower_bound(by_key_.begin(), by_key_.end(), std::pair{key, 0U});
    if (found == by_key_.end() || found->first != key) return nullptr;
    return &regions_[found->second];
}

Result<std::unique_ptr<ShmRegionTable>> ShmRegionTable::make() {
    WEIR_ASSIGN(SharedBlock page, make_shared(kLivePageBytes, Peers::kMayOnlyRead,
                                              "the list of a device's registered regions"));
    return std::unique_ptr<ShmRegionTable>(new ShmRegionTable(std::move(page)));
}

ShmRegionTable::ShmRegionTable(SharedBlock live_page)
    : live_page_(std::move(live_page)),
      snapshot_(std::make_shared<RegionSnapshot>(std::vector<ShmRegion>())) {
    for (uint32_t slot = kRegionsMax; slot > 0; --slot)
        free_slots_.push_back(slot - 1);
}

Result<RegionId> ShmRegionTable::add(const MemoryBlock& block, Access access) {
    if (block.bytes.empty() || block.bytes.data() == nullptr) {
        return Error(Errc::kInvalidArgument, "shm: cannot register empty memory");
    }
    WEIR_ASSIGN(auto fd, copy_of_fd(block, access));
    const std::lock_guard lock(mutex_);
    if (free_slots_.empty()) {
        return Error(Errc::kNoMemory,
                     fmt::format("shm: {} regions are registered already, which is the limit: "
                                 "register larger pieces",
                                 kRegionsMax));
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    const uint32_t tag = random_tag();
    std::vector<ShmRegion> regions = snapshot_->regions();
    regions.push_back({block.bytes, access, make_key(slot, tag), std::move(fd), block.fd_offset});
    replace(std::move(regions));
    set_live(slot, tag);
    return make_key(slot, tag);
}

std::optional<Access> ShmRegionTable::remove(RegionId region) {
    const std::lock_guard lock(mutex_);
    std::vector<ShmRegion> regions = snapshot_->regions();
    const auto gone = std::ranges::find(regions, region, &ShmRegion::key);
    if (gone == regions.end()) return std::nullopt;
    const Access access = gone->access;
    regions.erase(gone);
    set_live(slot_of(region), 0);
    replace(std::move(regions));
    free_slots_.push_back(slot_of(region));
    return access;
}

std::shared_ptr<const RegionSnapshot> ShmRegionTable::snapshot() const {
    const std::lock_guard lock(mutex_);
    return snapshot_;
}

void ShmRegionTable::replace(std::vector<ShmRegion> regions) {
    snapshot_ = std::make_shared<RegionSnapshot>(std::move(regions));
    generation_.fetch_add(1, std::memory_order_seq_cst);  // see quiescence.h
}

void ShmRegionTable::set_live(uint32_t slot, uint32_t tag) noexcept {
    auto* const words = reinterpret_cast<uint32_t*>(live_page_.mapping.bytes().data());
    // release: pairs with is_live()
    std::atomic_ref<uint32_t>(words[slot]).store(tag, std::memory_order_release);
}

}  // namespace weir::transport::shm
