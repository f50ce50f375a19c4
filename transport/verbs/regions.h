// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The memory that is registered with a device: a table behind a lock, and a copy per endpoint.
/// The copy is refreshed only when the table has changed, so that the data path takes no lock.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "transport/transport.h"

namespace weir::transport::verbs {

struct VerbsRegion {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint32_t lkey = 0;
    uint32_t rkey = 0;
    Access access = Access::kLocal;
    RegionId id = 0;
};

/// Thread: any.
class VerbsRegionTable {
public:
    void add(const VerbsRegion& region) {
        const std::lock_guard lock(mutex_);
        const auto later = [](const VerbsRegion& a, const VerbsRegion& b) {
            return a.begin < b.begin;
        };
        regions_.insert(std::upper_bound(regions_.begin(), regions_.end(), region, later), region);
        changed();
    }

    void remove(RegionId id) {
        const std::lock_guard lock(mutex_);
        std::erase_if(regions_, [&](const VerbsRegion& region) { return region.id == id; });
        changed();
    }

    [[nodiscard]] uint64_t version() const noexcept {
        // acquire: pairs with changed(); the caller then copies the table under the lock
        return version_.load(std::memory_order_acquire);
    }

    /// Copies all regions, sorted by `begin`. Returns the copy's version.
    uint64_t copy(std::vector<VerbsRegion>& into) const {
        const std::lock_guard lock(mutex_);
        into = regions_;
        return version_.load(std::memory_order_relaxed);  // the lock orders it
    }

private:
    void changed() noexcept { version_.fetch_add(1, std::memory_order_release); }

    mutable std::mutex mutex_;
    std::vector<VerbsRegion> regions_;
    std::atomic<uint64_t> version_{1};
};

/// Thread: one endpoint's.
class RegionView {
public:
    explicit RegionView(const VerbsRegionTable& table) : table_(table) {}

    /// A region that holds all of `bytes` and allows `wanted`, or nullptr.
    [[nodiscard]] const VerbsRegion* find(std::span<const std::byte> bytes, Access wanted) {
        if (table_.version() != version_) refresh();
        const auto begin = reinterpret_cast<uint64_t>(bytes.data());
        const auto holds = [&](const VerbsRegion& region) {
            return region.begin <= begin && begin <= region.end &&
                   bytes.size() <= region.end - begin && allows(region.access, wanted);
        };
        if (last_ < regions_.size() && holds(regions_[last_])) return &regions_[last_];
        const auto behind = std::upper_bound(
            regions_.begin(), regions_.end(), begin,
            [](uint64_t at, const VerbsRegion& region) { return at < region.begin; });
        // Regions may overlap: go back as long as an earlier one may reach this address.
        for (auto i = static_cast<size_t>(behind - regions_.begin()); i > 0; --i) {
            if (reach_[i - 1] < begin) break;
            if (holds(regions_[i - 1])) {
                last_ = i - 1;
                return &regions_[i - 1];
            }
        }
        return nullptr;
    }

private:
    void refresh() {
        version_ = table_.copy(regions_);
        last_ = 0;
        reach_.resize(regions_.size());
        uint64_t reach = 0;
        for (size_t i = 0; i < regions_.size(); ++i) {
            reach = std::max(reach, regions_[i].end);
            reach_[i] = reach;
        }
    }

    const VerbsRegionTable& table_;
    uint64_t version_ = 0;
    size_t last_ = 0;
    std::vector<VerbsRegion> regions_;
    std::vector<uint64_t> reach_;  ///< the greatest end of regions 0..i
};

}  // namespace weir::transport::verbs
