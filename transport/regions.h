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
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "transport/transport.h"

namespace weir::transport {

struct Region {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t local_key = 0;
    uint64_t remote_key = 0;
    Access access = Access::kLocal;
    RegionId id = 0;
};

/// Thread: any.
class RegionTable {
public:
    void add(const Region& region) {
        const std::lock_guard lock(mutex_);
        const auto later = [](const Region& a, const Region& b) { return a.begin < b.begin; };
        regions_.insert(std::upper_bound(regions_.begin(), regions_.end(), region, later), region);
        changed();
    }

    void remove(RegionId id) {
        const std::lock_guard lock(mutex_);
        std::erase_if(regions_, [&](const Region& region) { return region.id == id; });
        changed();
    }

    [[nodiscard]] uint64_t version() const noexcept {
        // acquire: pairs with changed(); the caller then copies the table under the lock
        return version_.load(std::memory_order_acquire);
    }

    /// Copies all regions, sorted by `begin`. Returns the copy's version.
    uint64_t copy(std::vector<Region>& into) const {
        const std::lock_guard lock(mutex_);
        into = regions_;
        return version_.load(std::memory_order_relaxed);  // the lock orders it
    }

private:
    void changed() noexcept { version_.fetch_add(1, std::memory_order_release); }

    mutable std::mutex mutex_;
    std::vector<Region> regions_;
    std::atomic<uint64_t> version_{1};
};

/// Thread: one endpoint's.
class RegionView {
public:
    explicit RegionView(const RegionTable& table) : table_(table) {}

    /// A region that holds all of `bytes` and allows `wanted`, or nullptr.
    [[nodiscard]] const Region* find(std::span<const std::byte> bytes, Access wanted) {
        return find_if(reinterpret_cast<uint64_t>(bytes.data()), bytes.size(),
                       [&](const Region& region) { return allows(region.access, wanted); });
    }

    /// Describes `memory` for a peer. The text of an error begins with `transport` ("tcp").
    /// Errors:  as Endpoint::expose()
    [[nodiscard]] Result<RemoteSpan> expose(std::span<const std::byte> memory,
                                            std::string_view transport);

    /// The region that a peer means, if it holds all of `span` and allows `wanted`; else nullptr.
    /// The span may be any numbers.
    [[nodiscard]] const Region* find_remote(const RemoteSpan& span, Access wanted) {
        return find_if(span.address, span.length_bytes, [&](const Region& region) {
            return region.remote_key == span.key && allows(region.access, wanted);
        });
    }

private:
    template <class Fits>
    [[nodiscard]] const Region* find_if(uint64_t begin, uint64_t length_bytes, const Fits& fits) {
        if (table_.version() != version_) refresh();
        const auto holds = [&](const Region& region) {
            return region.begin <= begin && begin <= region.end &&
                   length_bytes <= region.end - begin && fits(region);
        };
        if (last_ < regions_.size() && holds(regions_[last_])) return &regions_[last_];
        const auto behind =
            std::upper_bound(regions_.begin(), regions_.end(), begin,
                             [](uint64_t at, const Region& region) { return at < region.begin; });
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

    const RegionTable& table_;
    uint64_t version_ = 0;
    size_t last_ = 0;
    std::vector<Region> regions_;
    std::vector<uint64_t> reach_;  ///< the greatest end of regions 0..i
};

}  // namespace weir::transport
