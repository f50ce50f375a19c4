// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShmRegionTable: the memory that one device has registered. Endpoints use snapshots of it, so
/// that the data path takes no lock. Other processes map the table's "live page", which shows whether
/// a region that they know is still registered.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "transport/shm/memory/shared_memory.h"
#include "transport/transport.h"

namespace weir::transport::shm {

/// The most regions that a device can have registered at a time; also the words of its live page.
inline constexpr uint32_t kRegionsMax = 16384;
inline constexpr uint64_t kLivePageBytes = uint64_t{kRegionsMax} * sizeof(uint32_t);

/// A region's key is its slot and a random tag, so that no key can be guessed from another. The
/// live page holds, for each slot, the tag of the region in it, or 0. A RegionId is such a key.
[[nodiscard]] constexpr uint64_t make_key(uint32_t slot, uint32_t tag) noexcept {
    return uint64_t{tag} << 32 | slot;
}

[[nodiscard]] constexpr uint32_t slot_of(uint64_t key) noexcept {
    return static_cast<uint32_t>(key);
}

[[nodiscard]] constexpr uint32_t tag_of(uint64_t key) noexcept {
    return static_cast<uint32_t>(key >> 32);
}

/// Whether the owner of this live page still has the region registered. The page may be a peer's.
[[nodiscard]] inline bool is_live(std::span<std::byte> live_page, uint64_t key) noexcept {
    if (slot_of(key) >= kRegionsMax || tag_of(key) == 0) return false;
    auto* const words = reinterpret_cast<uint32_t*>(live_page.data());
    // acquire: a reader that sees a region gone also sees all that its owner did before
    return std::atomic_ref<uint32_t>(words[slot_of(key)]).load(std::memory_order_acquire) ==
           tag_of(key);
}

struct ShmRegion {
    std::span<std::byte> bytes;
    Access access = Access::kLocal;
    uint64_t key = 0;
    std::shared_ptr<const Descriptor> fd;  ///< a copy of the caller's, only if peers may map it
    uint64_t fd_offset = 0;
};

/// All regions at one moment, sorted by address.
class RegionSnapshot {
public:
    explicit RegionSnapshot(std::vector<ShmRegion> regions);

    /// A region that wholly contains `memory`, preferably one that peers may access; nullptr if
    /// there is none.
    [[nodiscard]] const ShmRegion* find(std::span<const std::byte> memory) const noexcept;
    [[nodiscard]] const ShmRegion* find_key(uint64_t key) const noexcept;

    [[nodiscard]] const std::vector<ShmRegion>& regions() const noexcept { return regions_; }

private:
    std::vector<ShmRegion> regions_;                     // sorted by address
    std::vector<uintptr_t> ends_max_;                    // the greatest end of regions 0..i
    std::vector<std::pair<uint64_t, uint32_t>> by_key_;  // {key, index}, sorted by key
};

/// Thread: any.
class ShmRegionTable {
public:
    /// Errors: kNoMemory
    [[nodiscard]] static Result<std::unique_ptr<ShmRegionTable>> make();

    /// Errors: kInvalidArgument (empty memory), kNoMemory (too many regions or descriptors)
    [[nodiscard]] Result<RegionId> add(const MemoryBlock& block, Access access);
    /// Returns the access that the region allowed; nullopt if it is not registered.
    std::optional<Access> remove(RegionId region);

    [[nodiscard]] std::shared_ptr<const RegionSnapshot> snapshot() const;

    /// Changes with every add and remove. seq_cst: see quiescence.h.
    [[nodiscard]] uint64_t generation() const noexcept {
        return generation_.load(std::memory_order_seq_cst);
    }

    [[nodiscard]] int live_page_fd() const noexcept { return live_page_.fd.get(); }

private:
    explicit ShmRegionTable(SharedBlock live_page);

    void replace(std::vector<ShmRegion> regions);
    void set_live(uint32_t slot, uint32_t tag) noexcept;

    SharedBlock live_page_;
    mutable std::mutex mutex_;
    std::shared_ptr<const RegionSnapshot> snapshot_;
    std::vector<uint32_t> free_slots_;
    std::atomic<uint64_t> generation_{1};
};

}  // namespace weir::transport::shm
