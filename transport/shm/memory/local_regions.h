// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LocalRegions: the device's registered memory as one endpoint sees it. The data path looks at a
/// snapshot, which is replaced when the device registers or deregisters memory.

#include <memory>
#include <span>

#include "transport/shm/memory/quiescence.h"
#include "transport/shm/memory/regions.h"

namespace weir::transport::shm {

[[nodiscard]] constexpr bool is_inside(uint64_t offset, uint64_t length_bytes,
                                       uint64_t region_bytes) noexcept {
    return offset <= region_bytes && length_bytes <= region_bytes - offset;
}

/// Thread: the endpoint's.
class LocalRegions {
public:
    /// Both outlive it.
    LocalRegions(const ShmRegionTable& table, Quiescence& quiescence)
        : table_(table), quiescence_(quiescence), reader_(quiescence.join()) {}

    LocalRegions(const LocalRegions&) = delete;
    LocalRegions& operator=(const LocalRegions&) = delete;

    ~LocalRegions() { quiescence_.part(reader_); }

    /// Valid until the next call.
    [[nodiscard]] const RegionSnapshot& now();
    [[nodiscard]] bool is_registered(std::span<const std::byte> memory);

    /// Keeps deregister_memory() of other threads waiting until release(). Call it before memory
    /// of an endpoint of this device is looked up.
    void hold() noexcept {
        if (!reader_->entered()) reader_->enter();
    }

    /// Until end_turn(), release() does nothing: map() gave out an address.
    void hold_for_the_turn() noexcept { held_for_the_turn_ = true; }

    void release() noexcept {
        if (!held_for_the_turn_ && reader_->entered()) reader_->leave();
    }

    void end_turn() noexcept {
        if (!held_for_the_turn_) return;
        held_for_the_turn_ = false;
        release();
    }

private:
    const ShmRegionTable& table_;
    Quiescence& quiescence_;
    const std::shared_ptr<Quiescence::Reader> reader_;
    std::shared_ptr<const RegionSnapshot> snapshot_;
    uint64_t generation_ = 0;          ///< of the snapshot
    const ShmRegion* last_ = nullptr;  ///< in the snapshot; probably the next one
    bool held_for_the_turn_ = false;
};

}  // namespace weir::transport::shm
